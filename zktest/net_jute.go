package zktest

import "encoding/binary"

// decoder reads jute, ZooKeeper's wire encoding, from one frame. After the first malformed field bad is set and every
// further read returns zero values, so callers check once, at the end. A length or a count that the rest of the frame
// cannot hold is malformed, and no memory is allocated for it.
type decoder struct {
	b   []byte
	bad bool
}

// take returns the next n bytes, a view into the frame.
func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) int32() int32 {
	if p := d.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if p := d.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

func (d *decoder) bool() bool {
	p := d.take(1)
	return p != nil && p[0] != 0
}

// bytes returns a copy of a buffer: nil for null, which is not the same as empty.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return append([]byte{}, d.take(int(n))...)
}

// str returns a string, or nullString.
func (d *decoder) str() string {
	n := d.int32()
	if n == -1 {
		return nullString
	}
	return fromUTF8(d.take(int(n)))
}

// count returns the number of items of a vector whose items take at least size bytes each: -1 for null, and 0 for other
// negative numbers, as ZooKeeper reads them.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if n > len(d.b)/size {
		d.bad = true
		n = 0
	}
	if n < -1 {
		n = 0
	}
	return n
}

// strs returns a list of strings: nil for null, which is not the same as empty.
func (d *decoder) strs() []string {
	n := d.count(4)
	if n < 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.str())
	}
	return list
}

// acls returns a list of ACL entries; nil for null.
func (d *decoder) acls() []ACL {
	n := d.count(12)
	if n < 0 {
		return nil
	}
	list := make([]ACL, 0, n)
	for range n {
		list = append(list, ACL{Perms: d.int32(), Scheme: d.str(), ID: d.str()})
	}
	return list
}

// encoder appends jute to a buffer.
type encoder struct{ b []byte }

func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) bytes(p []byte) {
	if p == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(p)))
	e.b = append(e.b, p...)
}

func (e *encoder) str(s string) {
	if s == nullString {
		e.int32(-1)
		return
	}
	start := e.begin()
	e.b = appendUTF8(e.b, s)
	e.end(start)
}

func (e *encoder) strs(list []string) {
	e.int32(int32(len(list)))
	for _, s := range list {
		e.str(s)
	}
}

func (e *encoder) acls(list []ACL) {
	e.int32(int32(len(list)))
	for _, a := range list {
		e.int32(a.Perms)
		e.str(a.Scheme)
		e.str(a.ID)
	}
}

func (e *encoder) stat(s Stat) {
	for _, v := range [...]int64{s.Czxid, s.Mzxid, s.Ctime, s.Mtime} {
		e.int64(v)
	}
	e.int32(s.Version)
	e.int32(s.Cversion)
	e.int32(s.Aversion)
	e.int64(s.EphemeralOwner)
	e.int32(s.DataLength)
	e.int32(s.NumChildren)
	e.int64(s.Pzxid)
}

// begin leaves room for the length of a frame or string and returns where it starts; end fills it in.
func (e *encoder) begin() int {
	e.b = append(e.b, 0, 0, 0, 0)
	return len(e.b)
}

func (e *encoder) end(start int) {
	binary.BigEndian.PutUint32(e.b[start-4:], uint32(len(e.b)-start))
}
