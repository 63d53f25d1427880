// Package wire encodes the requests of ZooKeeper's protocol and decodes its replies. It does no I/O, and its only state
// is a pool of memory for short requests.
package wire

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
)

// The bodies of requests and replies, in ZooKeeper's serialization.
//
//	create    path string, data buffer, acl vector of (perms int32, scheme string, id string), flags int32
//	create ttl  as create, then ttl int64 in milliseconds
//	delete    path string, version int32
//	set       path string, data buffer, version int32
//	check     path string, version int32
//	set acl   path string, acl vector as in create, version int32
//	get, exists, children  path string, watch bool
//	sync      path string
//	set watches     zxid int64, vectors of path string: data, missing, children
//	remove watches  path string, kind int32
//	multi     (type int32, done bool, error int32, op)*, then -1, true, -1

// newFrame begins a request whose length and xid are set later. body is the approximate size of its body in bytes.
func newFrame(op int32, body int) []byte {
	if PrefixSize+8+body > shortFrame {
		return appendInt32(make([]byte, PrefixSize+4, PrefixSize+8+body), op)
	}
	b, _ := short.Get().(*[shortFrame]byte) // it holds nothing else
	return appendInt32(b[:PrefixSize+4], op)
}

// shortFrame is the size in bytes that most requests fit into.
const shortFrame = 256

var short = sync.Pool{New: func() any { return new([shortFrame]byte) }}

// Recycle returns the memory of a written request to the pool. The frame must not be used afterwards.
func Recycle(frame []byte) {
	if cap(frame) == shortFrame {
		short.Put((*[shortFrame]byte)(frame[:shortFrame]))
	}
}

// CreateFrame creates a node; its kind depends on op.
func CreateFrame(op int32, r *zk.CreateRequest) []byte {
	body := len(r.Path) + len(r.Data) + 16
	for _, acl := range r.Acl {
		body += len(acl.Scheme) + len(acl.ID) + 12
	}
	return seal(appendCreate(newFrame(op, body), r))
}

// CreateTTLFrame creates a node with a time to live in milliseconds.
func CreateTTLFrame(r *zk.CreateRequest, ttl int64) []byte {
	return seal(appendInt64(appendCreate(newFrame(OpCreateTTL, someBytes), r), ttl))
}

// DeleteFrame deletes a node.
func DeleteFrame(path string, version int32) []byte {
	return seal(appendPathVersion(newFrame(OpDelete, len(path)+8), path, version))
}

// SetFrame replaces a node's data.
func SetFrame(path string, data []byte, version int32) []byte {
	return seal(appendSet(newFrame(OpSetData, len(path)+len(data)+12), path, data, version))
}

// ReadFrame requests a node's data, its children or its existence.
func ReadFrame(op int32, path string, watch bool) []byte {
	return seal(appendBool(appendString(newFrame(op, len(path)+5), path), watch))
}

// SyncFrame asks the server to catch up with the leader.
func SyncFrame(path string) []byte { return seal(appendString(newFrame(OpSync, len(path)+4), path)) }

// ACLFrame requests a node's access control list (ACL).
func ACLFrame(path string) []byte {
	return seal(appendString(newFrame(OpGetACL, len(path)+4), path))
}

// SetACLFrame replaces a node's ACL.
func SetACLFrame(path string, list []zk.ACL, version int32) []byte {
	b := appendString(newFrame(OpSetACL, someBytes), path)
	return seal(appendInt32(appendACL(b, list), version))
}

// SetWatchesFrame sets a watch on each path: on its data, on its creation, or on its children. If the node has changed
// since the zxid, the server immediately sends the event and sets no watch.
func SetWatchesFrame(since int64, data, missing, children []string) []byte {
	b := appendInt64(newFrame(OpSetWatches, someBytes), since)
	for _, paths := range [][]string{data, missing, children} {
		b = appendInt32(b, int32(len(paths)))
		for _, path := range paths {
			b = appendString(b, path)
		}
	}
	return seal(b)
}

// The kinds of watches that can be removed.
const (
	ChildrenWatch int32 = 1
	AnyWatch      int32 = 3
)

// RemoveWatchesFrame removes this connection's watches on the path, either those of one kind or all of them.
func RemoveWatchesFrame(path string, kind int32) []byte {
	return seal(appendPathVersion(newFrame(OpRemoveWatches, len(path)+8), path, kind))
}

// MultiFrame is a transaction of go-zookeeper's requests.
func MultiFrame(ops []any) []byte {
	b := newFrame(OpMulti, someBytes)
	for _, op := range ops {
		b = appendOp(b, op)
	}
	return seal(appendMultiHeader(b, -1, true))
}

// someBytes is the initial size, in bytes, of a body that may have any size.
const someBytes = 240

// MultiSize is how many bytes a transaction takes in addition to its operations.
var MultiSize = len(MultiFrame(nil))

// OpSize returns how many bytes op takes in a transaction.
func OpSize(op any) int {
	var b [2 * someBytes]byte // so that most need no heap allocation
	return len(appendOp(b[:0], op))
}

func appendOp(b []byte, op any) []byte {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return appendCreate(appendMultiHeader(b, OpCreate, false), r)
	case *zk.SetDataRequest:
		return appendSet(appendMultiHeader(b, OpSetData, false), r.Path, r.Data, r.Version)
	case *zk.DeleteRequest:
		return appendPathVersion(appendMultiHeader(b, OpDelete, false), r.Path, r.Version)
	case *zk.CheckVersionRequest:
		return appendPathVersion(appendMultiHeader(b, OpCheck, false), r.Path, r.Version)
	default:
		return b
	}
}

func appendMultiHeader(b []byte, op int32, done bool) []byte {
	return appendInt32(appendBool(appendInt32(b, op), done), -1)
}

func appendCreate(b []byte, r *zk.CreateRequest) []byte {
	b = appendData(appendString(b, r.Path), r.Data)
	return appendInt32(appendACL(b, r.Acl), r.Flags)
}

func appendACL(b []byte, list []zk.ACL) []byte {
	b = appendInt32(b, int32(len(list)))
	for _, acl := range list {
		b = appendString(appendString(appendInt32(b, acl.Perms), acl.Scheme), acl.ID)
	}
	return b
}

func appendSet(b []byte, path string, data []byte, version int32) []byte {
	return appendInt32(appendData(appendString(b, path), data), version)
}

func appendPathVersion(b []byte, path string, version int32) []byte {
	return appendInt32(appendString(b, path), version)
}

// appendData writes nil data as null, which servers distinguish from empty data.
func appendData(b, data []byte) []byte {
	if data == nil {
		return appendInt32(b, -1)
	}
	return appendBuffer(b, data)
}

func appendString(b []byte, s string) []byte { return append(appendInt32(b, int32(len(s))), s...) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// decoder reads the body of a reply. After a read beyond the end, all values are zero and end returns the error.
type decoder struct {
	body []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.body) {
		d.bad, d.body = true, nil
		return make([]byte, min(n, statSize))
	}
	b := d.body[:n]
	d.body = d.body[n:]
	return b
}

func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }

func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }

func (d *decoder) bool() bool { return d.take(1)[0] != 0 }

func (d *decoder) string() string {
	n := int(d.int32())
	if n > len(d.body) {
		d.bad = true
		return ""
	}
	return string(d.take(max(n, 0))) // null is sent as -1
}

// data returns nil for null.
func (d *decoder) data() []byte {
	n := int(d.int32())
	if n > len(d.body) {
		d.bad = true
		return nil
	}
	if n < 0 {
		return nil
	}
	return d.take(n)
}

const statSize = 68

func (d *decoder) stat() (stat zk.Stat) {
	_, _ = binary.Decode(d.take(statSize), binary.BigEndian, &stat) // it has the required size
	return stat
}

// end returns ErrGarbled unless exactly the whole body was read.
func (d *decoder) end() error {
	if d.bad || len(d.body) > 0 {
		return ErrGarbled
	}
	return nil
}

// CreateReply decodes the reply to a create of any kind, or to a sync.
func CreateReply(body []byte) (path string, err error) {
	d := decoder{body: body}
	path = d.string()
	// Replies to creates of containers and of nodes with a time to live also have a Stat.
	if len(d.body) > 0 {
		d.stat()
	}
	return path, d.end()
}

// Data is the data of a node and its Stat.
type Data struct {
	Bytes []byte
	Stat  zk.Stat
}

// DataReply decodes the reply to a get.
func DataReply(body []byte) (Data, error) {
	d := decoder{body: body}
	data := Data{Bytes: d.data()}
	data.Stat = d.stat()
	return data, d.end()
}

// StatReply decodes the reply to a set, a set acl or an exists.
func StatReply(body []byte) (zk.Stat, error) {
	d := decoder{body: body}
	stat := d.stat()
	return stat, d.end()
}

// EventOf decodes the body of a notification.
func EventOf(body []byte) (e zk.Event, err error) {
	d := decoder{body: body}
	e.Type, e.State, e.Path = zk.EventType(d.int32()), zk.State(d.int32()), d.string()
	return e, d.end()
}

// Children holds the names of a node's children and the node's own Stat. The names share memory, so clone a name that
// you keep for long.
type Children struct {
	Names []string
	Stat  zk.Stat
}

// ChildrenReply decodes the reply to a request for children.
func ChildrenReply(body []byte) (Children, error) {
	d := decoder{body: body}
	n := int(d.int32())
	if n > len(body)/5 { // no name is empty
		return Children{}, ErrGarbled
	}
	c := Children{Names: make([]string, 0, max(n, 0))}
	if n > 0 {
		all := string(d.body)
		for range n {
			length := int(d.int32())
			if length < 1 || length > len(d.body) {
				return Children{}, ErrGarbled
			}
			at := len(all) - len(d.body)
			d.take(length)
			c.Names = append(c.Names, all[at:at+length])
		}
	}
	c.Stat = d.stat()
	return c, d.end()
}

// ACL is a node's ACL and its Stat.
type ACL struct {
	List []zk.ACL
	Stat zk.Stat
}

// ACLReply decodes the reply to a request for an ACL.
func ACLReply(body []byte) (ACL, error) {
	d := decoder{body: body}
	n := int(d.int32())
	if n > len(body)/12 {
		return ACL{}, ErrGarbled
	}
	var acl ACL
	if n > 0 {
		acl.List = make([]zk.ACL, 0, n) // growing would take twice as much
	}
	for range n {
		acl.List = append(acl.List, zk.ACL{Perms: d.int32(), Scheme: d.string(), ID: d.string()})
		if d.bad {
			return ACL{}, ErrGarbled
		}
	}
	acl.Stat = d.stat()
	return acl, d.end()
}

// MultiReply returns the results of the given number of ops. If an op was refused, none was applied, and err is its
// error.
func MultiReply(body []byte, ops int) (responses []zk.MultiResponse, err error) {
	d := decoder{body: body}
	for {
		op, done, _ := d.int32(), d.bool(), d.int32()
		if done || d.bad {
			break
		}
		if len(responses) == ops {
			return nil, ErrGarbled // before it takes more memory
		}
		var r zk.MultiResponse
		switch op {
		case OpCreate:
			r.String = d.string()
		case OpSetData:
			stat := d.stat()
			r.Stat = &stat
		case OpMultiError:
			r.Error = ErrorOf(d.int32())
			if err == nil {
				err = r.Error
			}
		case OpDelete, OpCheck:
		default:
			return nil, ErrGarbled
		}
		responses = append(responses, r)
	}
	if garbled := d.end(); garbled != nil {
		return nil, garbled
	}
	return responses, err
}

// MultiCode returns the code of the op because of which a transaction failed, or 0. The header of such a reply has 0.
func MultiCode(body []byte) int32 {
	d := decoder{body: body}
	for {
		op, done, _ := d.int32(), d.bool(), d.int32()
		if done || d.bad || op != OpMultiError { // all the results of a transaction that failed are errors
			return 0
		}
		if code := d.int32(); code != 0 { // those of the ops before it are 0
			return code
		}
	}
}

// ErrGarbled means that a reply cannot be decoded, so it is unknown whether the request was executed.
var ErrGarbled = errors.New("malformed reply")
