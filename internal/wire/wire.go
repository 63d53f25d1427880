package wire

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The frames of ZooKeeper's protocol; all integers are big-endian.
//
//	frame            length int32, then that many bytes
//	request          xid int32, opcode int32, body
//	reply            xid int32, zxid int64, error int32, body
//	connect request  protocol int32, last zxid int64, timeout int32, session int64, password buffer
//	connect reply    protocol int32, timeout int32, session int64, password buffer
const (
	OpCreate          = 1
	OpDelete          = 2
	OpExists          = 3
	OpGetData         = 4
	OpSetData         = 5
	OpSetACL          = 7
	OpSync            = 9
	OpPing            = 11
	OpChildren        = 12
	OpCheck           = 13
	OpMulti           = 14
	OpCreate2         = 15
	OpReconfig        = 16
	OpCreateContainer = 19
	OpCreateTTL       = 21
	OpAuth            = 100
	OpClose           = -11
	OpMultiError      = -1

	// The xids of our requests; the library counts up from 1, and needs one to close. They are positive as well, or the
	// server would not count them among those that it throttles by (ServerCnxn.incrOutstandingAndCheckThrottle).
	XidOursFirst = 0x40000000
	XidOursLast  = 0x7ffffffe

	XidEvent = -1
	XidPing  = -2
	XidAuth  = -4

	PrefixSize      = 4
	ReplyHeaderSize = 16
	MaxReply        = 256 << 20 // the server sets no limit; above this it is not a reply
	MaxConnectReply = 1 << 10
	MaxRequest      = 1<<20 - 4<<10 // below the server's jute.maxbuffer, with room for what the servers add when they pass it on
)

// FromTree says of a reply's error code that it was found by applying the request, or that there was none. Other codes
// may come from a server that did not ask the leader, or from one that has given the session up.
func FromTree(code int32) bool {
	switch code {
	case 0, -101, -103, -108, -110, -111:
		return true
	default:
		return false
	}
}

// Int32At returns the integer at an offset; 0 behind the end.
func Int32At(b []byte, at int) int32 {
	if len(b) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[at:]))
}

// Int64At is Int32At for long integers.
func Int64At(b []byte, at int) int64 {
	if len(b) < at+8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[at:]))
}

// WithInt64 returns a copy of the frame with v in it.
func WithInt64(frame []byte, at int, v int64) []byte {
	frame = bytes.Clone(frame)
	binary.BigEndian.PutUint64(frame[at:], uint64(v))
	return frame
}

// StringAt returns the string at an offset; none behind the end.
func StringAt(b []byte, at int) string {
	n := int(Int32At(b, at))
	if n <= 0 || len(b) < at+4+n {
		return ""
	}
	return string(b[at+4 : at+4+n])
}

// AuthFrame shows a credential.
func AuthFrame(scheme string, credential []byte) []byte {
	b := make([]byte, PrefixSize, PrefixSize+20+len(scheme)+len(credential))
	b = AppendInt32(b, XidAuth)
	b = AppendInt32(b, OpAuth)
	b = AppendInt32(b, 0)
	b = AppendBuffer(b, []byte(scheme))
	b = AppendBuffer(b, credential)
	return Seal(b)
}

// CloseFrames re-attach to a session and end it, in one write.
func CloseFrames(id int64, password []byte) []byte {
	connect := make([]byte, PrefixSize)
	connect = AppendInt32(connect, 0)
	connect = binary.BigEndian.AppendUint64(connect, 0)
	connect = AppendInt32(connect, 1000)
	connect = binary.BigEndian.AppendUint64(connect, uint64(id))
	connect = Seal(AppendBuffer(connect, password))
	end := make([]byte, PrefixSize)
	end = AppendInt32(end, 1)
	end = Seal(AppendInt32(end, OpClose))
	return slices.Concat(connect, end)
}

// AppendInt32 appends an integer.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendBuffer appends bytes, and their number first.
func AppendBuffer(b, data []byte) []byte { return append(AppendInt32(b, int32(len(data))), data...) }

// Seal sets the length of a frame.
func Seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-PrefixSize))
	return frame
}
