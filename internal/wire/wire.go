package wire

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The frames of ZooKeeper's protocol; all integers are big-endian.
//
//	frame            length int32, then that many bytes
//	request          xid int32, opcode int32, body
//	reply            xid int32, zxid int64, error int32, body
//	connect request  protocol int32, last zxid int64, timeout int32, session int64, password buffer, read-only bool
//	connect reply    protocol int32, timeout int32, session int64, password buffer
const (
	OpCreate          = 1
	OpDelete          = 2
	OpExists          = 3
	OpGetData         = 4
	OpSetData         = 5
	OpGetACL          = 6
	OpSetACL          = 7
	OpSync            = 9
	OpPing            = 11
	OpChildren        = 12
	OpCheck           = 13
	OpMulti           = 14
	OpCreate2         = 15
	OpReconfig        = 16
	OpRemoveWatches   = 18
	OpCreateContainer = 19
	OpCreateTTL       = 21
	OpAuth            = 100
	OpSASL            = 102
	OpSetWatches      = 101
	OpClose           = -11
	OpMultiError      = -1

	XidEvent = -1
	XidPing  = -2
	XidAuth  = -4

	PrefixSize      = 4
	ReplyHeaderSize = 16
	MaxConnectReply = 1 << 10
)

// FromTree reports whether the error code of a reply, like 0, comes from applying the request to the tree. Other codes,
// such as those for credentials, may come from a server that did not ask the leader, or that has given up the session.
func FromTree(code int32) bool {
	switch code {
	case 0,
		-101, // no node
		-103, // bad version
		-108, // no children for ephemerals
		-110, // node exists
		-111: // not empty
		return true
	default:
		return false
	}
}

// IsRead reports whether requests with this opcode only read, so that a server answers them without its leader.
func IsRead(op int32) bool {
	switch op {
	case OpExists, OpGetData, OpGetACL, OpChildren, OpSetWatches, OpRemoveWatches:
		return true
	default:
		return false
	}
}

// ConnectFrame requests the session with the id, or a new one if the id is 0. A server that has not seen lastZxid yet
// hangs up, and so does one that is cut off and read-only, because we request a server that accepts writes. Servers log
// clients that omit the flag for this.
func ConnectFrame(lastZxid int64, timeout time.Duration, id int64, password []byte) []byte {
	b := make([]byte, PrefixSize)
	b = appendInt32(b, 0)
	b = appendInt64(b, lastZxid)
	b = appendInt32(b, int32(timeout.Milliseconds()))
	b = appendInt64(b, id)
	if len(password) == 0 {
		password = make([]byte, passwordSize)
	}
	return seal(appendBool(appendBuffer(b, password), false)) // never a read-only server
}

const passwordSize = 16

// Granted is the answer to a connect request. If the id is 0 or the timeout is not positive, the session has expired.
type Granted struct {
	Timeout  time.Duration
	ID       int64
	Password []byte
}

// ConnectReply decodes the answer to a connect request. Newer servers append a flag, which is ignored.
func ConnectReply(body []byte) (Granted, error) {
	d := decoder{body: body}
	if version := d.int32(); version != 0 {
		return Granted{},
			fmt.Errorf("the server answered with protocol version %d: it may still be starting, or is not ZooKeeper", version)
	}
	g := Granted{Timeout: time.Duration(d.int32()) * time.Millisecond, ID: d.int64(), Password: d.data()}
	if d.bad {
		return Granted{}, ErrGarbled
	}
	return g, nil
}

// Header is the beginning of a reply.
type Header struct {
	Xid  int32
	Zxid int64
	Code int32
}

// ReadHeader returns the header and the body of a reply.
func ReadHeader(frame []byte) (Header, []byte, error) {
	d := decoder{body: frame}
	h := Header{d.int32(), d.int64(), d.int32()}
	if d.bad {
		return Header{}, nil, ErrGarbled
	}
	return h, d.body, nil
}

const sessionExpired = -112

// CodeOf returns the code of a reply to a request with the opcode: that in the header, unless a transaction has failed
// because the session is being closed. Only its results say so, and the header has 0.
//
// Source: PrepRequestProcessor checks the session with each op of a multi, and turns the error into a result.
func (h Header) CodeOf(op int32, body []byte) int32 {
	if op == OpMulti && h.Code == 0 && MultiCode(body) == sessionExpired {
		return sessionExpired
	}
	return h.Code
}

// SetXid sets the xid of a request.
func SetXid(frame []byte, xid int32) { binary.BigEndian.PutUint32(frame[PrefixSize:], uint32(xid)) }

// PingFrame is a ping.
func PingFrame() []byte {
	b := appendInt32(make([]byte, PrefixSize), XidPing)
	return seal(appendInt32(b, OpPing))
}

// CloseFrame closes the session; its xid is set later.
func CloseFrame() []byte {
	b := appendInt32(make([]byte, PrefixSize), 0)
	return seal(appendInt32(b, OpClose))
}

// AuthFrame sends a credential.
func AuthFrame(scheme string, credential []byte) []byte {
	b := make([]byte, PrefixSize)
	b = appendInt32(b, XidAuth)
	b = appendInt32(b, OpAuth)
	b = appendInt32(b, 0)
	b = appendBuffer(b, []byte(scheme))
	b = appendBuffer(b, credential)
	return seal(b)
}

// SASLFrame sends a token of a SASL exchange.
func SASLFrame(xid int32, token []byte) []byte {
	b := make([]byte, PrefixSize)
	b = appendInt32(b, xid)
	b = appendInt32(b, OpSASL)
	return seal(appendBuffer(b, token))
}

// SASLAnswer returns the token in the body of an answer, or nil if there is none.
func SASLAnswer(body []byte) ([]byte, error) {
	d := decoder{body: body}
	token := d.data()
	if d.bad {
		return nil, ErrGarbled
	}
	return token, nil
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendBuffer appends the number of bytes, then the bytes.
func appendBuffer(b, data []byte) []byte { return append(appendInt32(b, int32(len(data))), data...) }

// seal sets the length of a frame and returns it.
func seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-PrefixSize))
	return frame
}

// opNames are the names of operations in errors, traces and metrics.
var opNames = map[int32]string{
	OpCreate: "create", OpCreate2: "create", OpCreateContainer: "create", OpCreateTTL: "create",
	OpDelete: "delete", OpExists: "exists", OpGetData: "get", OpSetData: "set", OpGetACL: "acl", OpSetACL: "setacl",
	OpChildren: "children", OpSync: "sync", OpMulti: "multi", OpSetWatches: "watch",
	OpRemoveWatches: "unwatch", OpClose: "close",
}

// OpName returns the name of an operation.
func OpName(op int32) string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("operation %d", op)
}

// OpNames returns all names of operations, sorted.
func OpNames() []string {
	return slices.Compact(slices.Sorted(maps.Values(opNames)))
}
