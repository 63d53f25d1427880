package wire

import (
	"encoding/binary"
	"time"
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

	XidEvent = -1
	XidPing  = -2
	XidAuth  = -4

	PrefixSize      = 4
	ReplyHeaderSize = 16
	MaxConnectReply = 1 << 10
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

// ConnectFrame asks for the session with the id, or for a new one if the id is 0. A server that has not seen lastZxid does
// not answer it.
func ConnectFrame(lastZxid int64, timeout time.Duration, id int64, password []byte) []byte {
	b := make([]byte, PrefixSize, PrefixSize+44)
	b = AppendInt32(b, 0)
	b = appendInt64(b, lastZxid)
	b = AppendInt32(b, int32(timeout.Milliseconds()))
	b = appendInt64(b, id)
	if len(password) == 0 {
		password = make([]byte, passwordSize)
	}
	return Seal(AppendBuffer(b, password))
}

const passwordSize = 16

// Granted is a server's answer to a connect request. The session has expired if its id is 0, or its timeout not above 0.
type Granted struct {
	Timeout  time.Duration
	ID       int64
	Password []byte
}

// ConnectReply reads the answer to a connect request. Newer servers send a flag behind it.
func ConnectReply(body []byte) (Granted, error) {
	d := decoder{body: body}
	d.int32()
	g := Granted{Timeout: time.Duration(d.int32()) * time.Millisecond, ID: d.int64(), Password: d.data()}
	if d.bad {
		return Granted{}, ErrGarbled
	}
	return g, nil
}

// Header is what a reply begins with.
type Header struct {
	Xid  int32
	Zxid int64
	Code int32
}

// ReadHeader returns the header of a reply, and what follows it.
func ReadHeader(frame []byte) (Header, []byte, error) {
	d := decoder{body: frame}
	h := Header{d.int32(), d.int64(), d.int32()}
	if d.bad {
		return Header{}, nil, ErrGarbled
	}
	return h, d.body, nil
}

// SetXid sets the xid of a request.
func SetXid(frame []byte, xid int32) { binary.BigEndian.PutUint32(frame[PrefixSize:], uint32(xid)) }

// PingFrame asks for nothing but an answer.
func PingFrame() []byte {
	b := AppendInt32(make([]byte, PrefixSize, PrefixSize+8), XidPing)
	return Seal(AppendInt32(b, OpPing))
}

// CloseFrame ends the session; its xid is still to be set.
func CloseFrame() []byte {
	b := AppendInt32(make([]byte, PrefixSize, PrefixSize+8), 0)
	return Seal(AppendInt32(b, OpClose))
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

// AppendInt32 appends an integer.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBuffer appends bytes, and their number first.
func AppendBuffer(b, data []byte) []byte { return append(AppendInt32(b, int32(len(data))), data...) }

// Seal sets the length of a frame.
func Seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-PrefixSize))
	return frame
}
