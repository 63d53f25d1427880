package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// ReadFrame reads one frame into buf. The buffer grows with the bytes that arrive, not with the announced length.
func ReadFrame(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return buf, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < 0 || n > limit {
		return buf, errors.New("length of frame out of bounds")
	}
	_, _ = r.Discard(4)
	if cap(buf) > 1<<16 {
		buf = nil // thousands of connections must not each keep their largest request
	}
	buf = buf[:0]
	for len(buf) < n {
		start, step := len(buf), min(n-len(buf), max(1<<14, len(buf)))
		buf = append(buf, make([]byte, step)...)
		if _, err := io.ReadFull(r, buf[start:]); err != nil {
			return buf, err
		}
	}
	return buf, nil
}
