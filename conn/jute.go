package conn

import (
	"encoding/binary"

	"github.com/go-zookeeper/zk"
)

// What our own requests are made of, and their replies, in ZooKeeper's serialisation.
//
//	create    path string, data buffer, acl vector of (perms int32, scheme string, id string), flags int32
//	delete    path string, version int32
//	set       path string, data buffer, version int32
//	check     path string, version int32
//	get, exists, children  path string, watch bool
//	sync      path string
//	multi     (type int32, done bool, error int32, op)*, then -1, true, -1

// newFrame begins a request whose length and xid are still to be set.
func newFrame(op int32) []byte {
	b := make([]byte, prefixSize+4, 256)
	return appendInt32(b, op)
}

func createFrame(op int32, r *zk.CreateRequest) []byte { return seal(appendCreate(newFrame(op), r)) }

func deleteFrame(path string, version int32) []byte {
	return seal(appendPathVersion(newFrame(opDelete), path, version))
}

func setFrame(path string, data []byte, version int32) []byte {
	return seal(appendSet(newFrame(opSetData), path, data, version))
}

func readFrame(op int32, path string, watch bool) []byte {
	return seal(appendBool(appendString(newFrame(op), path), watch))
}

func syncFrame(path string) []byte { return seal(appendString(newFrame(opSync), path)) }

func multiFrame(ops []any) []byte {
	b := newFrame(opMulti)
	for _, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			b = appendCreate(appendMultiHeader(b, opCreate, false), r)
		case *zk.SetDataRequest:
			b = appendSet(appendMultiHeader(b, opSetData, false), r.Path, r.Data, r.Version)
		case *zk.DeleteRequest:
			b = appendPathVersion(appendMultiHeader(b, opDelete, false), r.Path, r.Version)
		case *zk.CheckVersionRequest:
			b = appendPathVersion(appendMultiHeader(b, opCheck, false), r.Path, r.Version)
		}
	}
	return seal(appendMultiHeader(b, -1, true))
}

func appendMultiHeader(b []byte, op int32, done bool) []byte {
	return appendInt32(appendBool(appendInt32(b, op), done), -1)
}

func appendCreate(b []byte, r *zk.CreateRequest) []byte {
	b = appendData(appendString(b, r.Path), r.Data)
	b = appendInt32(b, int32(len(r.Acl)))
	for _, acl := range r.Acl {
		b = appendString(appendString(appendInt32(b, acl.Perms), acl.Scheme), acl.ID)
	}
	return appendInt32(b, r.Flags)
}

func appendSet(b []byte, path string, data []byte, version int32) []byte {
	return appendInt32(appendData(appendString(b, path), data), version)
}

func appendPathVersion(b []byte, path string, version int32) []byte {
	return appendInt32(appendString(b, path), version)
}

// appendData keeps the difference between no data and none of it, as servers do.
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

// decoder reads the body of a reply; once something is missing, everything is zero, and end says so.
type decoder struct {
	body []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.body) {
		d.bad, d.body = true, nil
		return make([]byte, min(max(n, 0), statSize))
	}
	b := d.body[:n]
	d.body = d.body[n:]
	return b
}

func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }

func (d *decoder) bool() bool { return d.take(1)[0] != 0 }

func (d *decoder) string() string {
	n := int(d.int32())
	if n > len(d.body) {
		d.bad = true
		return ""
	}
	return string(d.take(max(n, 0))) // null is sent as -1
}

// data returns nil for no data.
func (d *decoder) data() []byte {
	n := int(d.int32())
	if n > len(d.body) {
		d.bad = true
	}
	if n < 0 || d.bad {
		return nil
	}
	return d.take(n)
}

const statSize = 68

func (d *decoder) stat() (stat zk.Stat) {
	if _, err := binary.Decode(d.take(statSize), binary.BigEndian, &stat); err != nil {
		d.bad = true
	}
	return stat
}

// end returns errGarbled unless everything was there, and nothing else.
func (d *decoder) end() error {
	if d.bad || len(d.body) > 0 {
		return errGarbled
	}
	return nil
}

func createReply(body []byte) (path string, err error) {
	d := decoder{body: body}
	path = d.string()
	if len(d.body) > 0 { // of a container
		d.stat()
	}
	return path, d.end()
}

func dataReply(body []byte) (data, error) {
	dec := decoder{body: body}
	d := data{bytes: dec.data()}
	d.stat = dec.stat()
	return d, dec.end()
}

func statReply(body []byte) (zk.Stat, error) {
	d := decoder{body: body}
	stat := d.stat()
	return stat, d.end()
}

// eventOf reads the body of a notification.
func eventOf(body []byte) (e zk.Event, err error) {
	d := decoder{body: body}
	e.Type, e.State, e.Path = zk.EventType(d.int32()), zk.State(d.int32()), d.string()
	return e, d.end()
}

func childrenReply(body []byte) (family, error) {
	d := decoder{body: body}
	n := int(d.int32())
	if n > len(body)/4 {
		return family{}, errGarbled
	}
	f := family{names: make([]string, 0, max(n, 0))}
	for range n {
		f.names = append(f.names, d.string())
	}
	f.stat = d.stat()
	return f, d.end()
}

// multiReply returns what each op came to; err is that of the one for which all came to nothing.
func multiReply(body []byte) (responses []zk.MultiResponse, err error) {
	d := decoder{body: body}
	for {
		op, done, _ := d.int32(), d.bool(), d.int32()
		if done || d.bad {
			break
		}
		var r zk.MultiResponse
		switch op {
		case opCreate:
			r.String = d.string()
		case opSetData:
			stat := d.stat()
			r.Stat = &stat
		case opMultiError:
			r.Error = errorOf(d.int32())
			if err == nil {
				err = r.Error
			}
		case opDelete, opCheck:
		default:
			return nil, errGarbled
		}
		responses = append(responses, r)
	}
	if garbled := d.end(); garbled != nil {
		return nil, garbled
	}
	return responses, err
}
