package conn

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The part of ZooKeeper's protocol that the link reads as frames pass; all integers are big-endian.
//
//	frame            length int32, then that many bytes
//	request          xid int32, opcode int32, body
//	reply            xid int32, zxid int64, error int32, body
//	connect request  protocol int32, last zxid int64, timeout int32, session int64, password buffer
//	connect reply    protocol int32, timeout int32, session int64, password buffer
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opSetACL          = 7
	opSync            = 9
	opPing            = 11
	opChildren        = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCreateContainer = 19
	opCreateTTL       = 21
	opAuth            = 100
	opClose           = -11
	opMultiError      = -1

	// The xids of our requests; the library counts up from 1, and needs one to close. They are positive as well, or the
	// server would not count them among those that it throttles by (ServerCnxn.incrOutstandingAndCheckThrottle).
	xidOursFirst = 0x40000000
	xidOursLast  = 0x7ffffffe

	xidEvent = -1
	xidPing  = -2
	xidAuth  = -4

	prefixSize      = 4
	replyHeaderSize = 16
	maxReply        = 256 << 20 // the server sets no limit; above this it is not a reply
	maxConnectReply = 1 << 10
	maxRequest      = 1<<20 - 4<<10 // below the server's jute.maxbuffer, with room for what the servers add when they pass it on
)

// witnessOf says who stands behind an answer to the opcode.
func witnessOf(op, code int32) witness {
	switch op {
	case opSync:
		return leader
	case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opSetACL, opMulti, opReconfig:
		if code == 0 {
			return quorum
		}
		return leader
	default:
		return anyServer
	}
}

// fromTree says of a reply's error code that it was found by applying the request, or that there was none. Other codes
// may come from a server that did not ask the leader, or from one that has given the session up.
func fromTree(code int32) bool {
	switch code {
	case 0, -101, -103, -108, -110, -111:
		return true
	default:
		return false
	}
}

func int32At(b []byte, at int) int32 {
	if len(b) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[at:]))
}

func int64At(b []byte, at int) int64 {
	if len(b) < at+8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[at:]))
}

// withInt64 returns a copy of the frame with v in it.
func withInt64(frame []byte, at int, v int64) []byte {
	frame = bytes.Clone(frame)
	binary.BigEndian.PutUint64(frame[at:], uint64(v))
	return frame
}

func stringAt(b []byte, at int) string {
	n := int(int32At(b, at))
	if n <= 0 || len(b) < at+4+n {
		return ""
	}
	return string(b[at+4 : at+4+n])
}

func authFrame(scheme string, credential []byte) []byte {
	b := make([]byte, prefixSize, prefixSize+20+len(scheme)+len(credential))
	b = appendInt32(b, xidAuth)
	b = appendInt32(b, opAuth)
	b = appendInt32(b, 0)
	b = appendBuffer(b, []byte(scheme))
	b = appendBuffer(b, credential)
	return seal(b)
}

// closeFrames re-attach to a session and end it, in one write.
func closeFrames(id int64, password []byte) []byte {
	connect := make([]byte, prefixSize)
	connect = appendInt32(connect, 0)
	connect = binary.BigEndian.AppendUint64(connect, 0)
	connect = appendInt32(connect, 1000)
	connect = binary.BigEndian.AppendUint64(connect, uint64(id))
	connect = seal(appendBuffer(connect, password))
	end := make([]byte, prefixSize)
	end = appendInt32(end, 1)
	end = seal(appendInt32(end, opClose))
	return slices.Concat(connect, end)
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendBuffer(b, data []byte) []byte { return append(appendInt32(b, int32(len(data))), data...) }

func seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-prefixSize))
	return frame
}
