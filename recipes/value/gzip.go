package value

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxGzip is the size of a value in bytes, before it is compressed. A node holds less than 1 MiB, into which gzip can
// compress up to 1 GiB.
const maxGzip = 16 << 20

// Gzip returns a codec that compresses what another codec encodes into a gzip stream (RFC 1952), as Curator's
// compressed() does. All programs that share the node must use compression. A node without data is passed to the other
// codec as is.
//
// A value may have up to 16 MiB before compression. A larger one is neither written nor decoded, and decompression
// stops at this limit, so that a small node cannot exhaust its readers' memory. The compressed value must fit in a
// node, whose limit is 1 MiB by default.
//
// To decode entries from a cache, call Decode in the function given to cache.As.
func Gzip[T any](codec Codec[T]) Codec[T] {
	if codec.Encode == nil || codec.Decode == nil {
		return Codec[T]{} // New reports what is missing
	}
	return Codec[T]{
		Encode: func(x T) ([]byte, error) {
			data, err := codec.Encode(x)
			if err != nil {
				return nil, err
			}
			return compress(data)
		},
		Decode: func(data []byte) (x T, err error) {
			if len(data) > 0 {
				if data, err = decompress(data); err != nil {
					return x, err
				}
			}
			return codec.Decode(data)
		},
	}
}

// gzipWriters is a pool because a writer takes most of a megabyte.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compress(data []byte) ([]byte, error) {
	if len(data) > maxGzip {
		return nil, fmt.Errorf("%d bytes: want at most %d before compression", len(data), maxGzip)
	}
	var b bytes.Buffer
	z, _ := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&b)
	_, err := z.Write(data)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

func decompress(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("want gzip: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxGzip+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("want gzip: %w", err)
	case len(plain) > maxGzip:
		return nil, fmt.Errorf("the data exceeds %d bytes when decompressed", maxGzip)
	}
	return plain, nil
}
