package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// readFrame reads a frame of at most the given number of bytes, and returns it without its length.
func readFrame(r io.Reader, most int) ([]byte, error) {
	size, err := readSize(r, make([]byte, wire.PrefixSize))
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, noServer(size)
	}
	return readBody(r, size)
}

// unproven is how many bytes of a frame are allocated before any of them arrives.
const unproven = 64 << 10

// readBody reads the given number of bytes. The memory grows with the bytes that arrive, not with the announced length.
// It grows fourfold at a time up to the size, so that buffers amounting to a third of the size are thrown away.
func readBody(r io.Reader, size int) ([]byte, error) {
	first := size
	for first > unproven {
		first = (first + 3) / 4
	}
	body := make([]byte, first)
	for n := 0; ; {
		if _, err := io.ReadFull(r, body[n:]); err != nil {
			return nil, err
		}
		if n = len(body); n == size {
			return body, nil
		}
		grown := make([]byte, min(size, 4*n))
		copy(grown, body)
		body = grown
	}
}

// readSize reads the length of a frame, using prefix as memory.
func readSize(r io.Reader, prefix []byte) (int, error) {
	if _, err := io.ReadFull(r, prefix); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix)))
	if size < 0 {
		return 0, noServer(size)
	}
	return size, nil
}

func noServer(size int) error {
	if size>>16 == 0x1503 { // an alert, which is how a TLS server answers anything that is not TLS
		return errors.New("the server speaks TLS: see WithTLS")
	}
	return fmt.Errorf("this is not a ZooKeeper server: it sent a frame of %d bytes", size)
}

// join returns the frames as one, to be written with a single system call, so that they share a segment. The result may
// be placed in memory, which may be nil.
func join(memory []byte, frames ...[]byte) []byte {
	if len(frames) == 1 {
		return frames[0]
	}
	size := 0
	for _, frame := range frames {
		size += len(frame)
	}
	all := slices.Grow(memory[:0], size)
	for _, frame := range frames {
		all = append(all, frame...)
	}
	return all
}
