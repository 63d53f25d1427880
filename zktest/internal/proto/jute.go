package proto

import "encoding/binary"

// Decoder reads jute, ZooKeeper's wire encoding, from one frame. After the first malformed field, Bad is set and every
// further read returns zero values, so callers check once, at the end. A length or a count that the rest of the frame
// cannot hold is malformed, and no memory is allocated for it.
type Decoder struct {
	B   []byte
	Bad bool
}

// Take returns the next n bytes, as a view into the frame.
func (d *Decoder) Take(n int) []byte {
	if d.Bad || n < 0 || n > len(d.B) {
		d.Bad = true
		return nil
	}
	p := d.B[:n:n]
	d.B = d.B[n:]
	return p
}

// Int32 reads a four-byte integer.
func (d *Decoder) Int32() int32 {
	if p := d.Take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Int64 reads an eight-byte integer.
func (d *Decoder) Int64() int64 {
	if p := d.Take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// Bool reads a byte.
func (d *Decoder) Bool() bool {
	p := d.Take(1)
	return p != nil && p[0] != 0
}

// Bytes returns a copy of a buffer, or nil for null, which differs from empty.
func (d *Decoder) Bytes() []byte {
	n := d.Int32()
	if n == -1 {
		return nil
	}
	return append([]byte{}, d.Take(int(n))...)
}

// Str returns a string, or Null.
func (d *Decoder) Str() string {
	n := d.Int32()
	if n == -1 {
		return Null
	}
	return fromUTF8(d.Take(int(n)))
}

// Count returns the number of items of a vector whose items take at least size bytes each: -1 for null, and 0 for other
// negative numbers, as ZooKeeper reads them.
func (d *Decoder) Count(size int) int {
	n := int(d.Int32())
	if n > len(d.B)/size {
		d.Bad = true
		n = 0
	}
	if n < -1 {
		n = 0
	}
	return n
}

// Strs returns a list of strings, or nil for null, which differs from empty.
func (d *Decoder) Strs() []string {
	n := d.Count(4)
	if n < 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.Str())
	}
	return list
}

// Encoder appends jute to a buffer.
type Encoder struct{ B []byte }

// Int32 writes a four-byte integer.
func (e *Encoder) Int32(v int32) { e.B = binary.BigEndian.AppendUint32(e.B, uint32(v)) }

// Int64 writes an eight-byte integer.
func (e *Encoder) Int64(v int64) { e.B = binary.BigEndian.AppendUint64(e.B, uint64(v)) }

// Bool writes a byte.
func (e *Encoder) Bool(v bool) {
	if v {
		e.B = append(e.B, 1)
	} else {
		e.B = append(e.B, 0)
	}
}

// Bytes writes a buffer; nil means null.
func (e *Encoder) Bytes(p []byte) {
	if p == nil {
		e.Int32(-1)
		return
	}
	e.Int32(int32(len(p)))
	e.B = append(e.B, p...)
}

// Str writes a string; Null means null.
func (e *Encoder) Str(s string) {
	if s == Null {
		e.Int32(-1)
		return
	}
	start := e.Begin()
	e.B = appendUTF8(e.B, s)
	e.End(start)
}

// Strs writes a list of strings.
func (e *Encoder) Strs(list []string) {
	e.Int32(int32(len(list)))
	for _, s := range list {
		e.Str(s)
	}
}

// Begin reserves space for the length of a frame or string and returns where it starts.
func (e *Encoder) Begin() int {
	e.B = append(e.B, 0, 0, 0, 0)
	return len(e.B)
}

// End fills in the length of what Begin started.
func (e *Encoder) End(start int) {
	binary.BigEndian.PutUint32(e.B[start-4:], uint32(len(e.B)-start))
}
