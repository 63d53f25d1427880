package value

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Codec defines how a value is encoded as a node's data.
type Codec[T any] struct {
	// Encode returns a value's bytes. If it fails, nothing is written.
	Encode func(T) ([]byte, error)
	// Decode returns the value that the bytes represent. It must not retain the bytes.
	Decode func([]byte) (T, error)
}

// JSON returns a codec that uses encoding/json. A node without data, such as one that a recipe created as a parent,
// cannot be decoded.
func JSON[T any]() Codec[T] {
	return Codec[T]{
		Encode: func(x T) ([]byte, error) { return json.Marshal(x) },
		Decode: func(data []byte) (x T, err error) {
			if len(data) == 0 {
				return x, errors.New("the node is empty: want JSON")
			}
			err = json.Unmarshal(data, &x)
			return x, err
		},
	}
}

// Bytes returns the codec of Curator's SharedValue, which stores bytes as is.
func Bytes() Codec[[]byte] {
	same := func(data []byte) ([]byte, error) { return append([]byte{}, data...), nil }
	return Codec[[]byte]{Encode: same, Decode: same}
}

// Text returns a codec for text in UTF-8.
func Text() Codec[string] {
	return Codec[string]{
		Encode: func(x string) ([]byte, error) { return []byte(x), nil },
		Decode: func(data []byte) (string, error) { return string(data), nil },
	}
}

// AtomicLong returns the codec of Curator's DistributedAtomicLong: eight bytes, big-endian. An empty node decodes as 0.
func AtomicLong() Codec[int64] {
	return Codec[int64]{
		Encode: func(x int64) ([]byte, error) { return binary.BigEndian.AppendUint64(nil, uint64(x)), nil },
		Decode: func(data []byte) (int64, error) {
			if len(data) == 0 {
				return 0, nil
			}
			if len(data) != 8 {
				return 0, fmt.Errorf("%d bytes: want a number of eight, big-endian", len(data))
			}
			return int64(binary.BigEndian.Uint64(data)), nil
		},
	}
}

// SharedCount returns the codec of Curator's SharedCount and DistributedAtomicInteger, and of kazoo's Counter with
// support_curator: four bytes, big-endian. An empty node decodes as 0.
func SharedCount() Codec[int64] {
	return Codec[int64]{
		Encode: func(x int64) ([]byte, error) {
			if x < math.MinInt32 || x > math.MaxInt32 {
				return nil, fmt.Errorf("%d: want between %d and %d, what four bytes hold", x, math.MinInt32, math.MaxInt32)
			}
			return binary.BigEndian.AppendUint32(nil, uint32(int32(x))), nil
		},
		Decode: func(data []byte) (int64, error) {
			if len(data) == 0 {
				return 0, nil
			}
			if len(data) != 4 {
				return 0, fmt.Errorf("%d bytes: want a number of four, big-endian", len(data))
			}
			return int64(int32(binary.BigEndian.Uint32(data))), nil
		},
	}
}

// KazooCounter returns the codec of kazoo's Counter: a decimal number as text. An empty node decodes as 0.
func KazooCounter() Codec[int64] {
	return Codec[int64]{
		Encode: func(x int64) ([]byte, error) { return strconv.AppendInt(nil, x, 10), nil },
		Decode: func(data []byte) (int64, error) {
			if len(data) == 0 {
				return 0, nil
			}
			x, err := strconv.ParseInt(string(data), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("want a decimal number: %w", err)
			}
			return x, nil
		},
	}
}
