package value

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/record"
)

// Counter is a number that processes add to. It has all of [Value]'s methods, and is safe for concurrent use. Its
// additions run one after another, so one Counter per process and path is enough.
type Counter struct {
	*Value[int64]
	marked *record.Marked
}

// NewCounter returns the counter at path, encoded by codec: [AtomicLong], [SharedCount] or [KazooCounter]. It does not
// contact the servers. The first addition creates the node, which starts at 0, and missing parents.
//
// Errors: the same as [New]; a codec that cannot encode 0.
func NewCounter(c *conn.Client, path string, codec Codec[int64]) (*Counter, error) {
	v, err := New(c, path, codec)
	if err != nil {
		return nil, err
	}
	zero, err := v.encode(0)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return &Counter{v, record.NewMarked(v.client, path, zero)}, nil
}

// Add adds delta, which may be negative, and returns the sum. While the session lives, Add counts exactly once: if the
// reply is lost, the counter's marker shows whether the addition was applied, and Add continues from there.
//
// Errors: ErrUnknownOutcome if, after the addition is sent and before its outcome is known, the session ends, ctx is
// done, the node or its marker is deleted, or a server reports an internal error. After any other error nothing was
// added: a sum that the codec cannot encode, a node that cannot be decoded, context.Cause(ctx), ErrClosed, or the
// server's error.
//
// Source: Curator's DistributedAtomicLong.add and kazoo's Counter, which count twice if a reply is lost.
func (c *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	var sum int64
	_, err := c.marked.Update(ctx, func(data []byte) ([]byte, error) {
		n, err := c.codec.Decode(data)
		if err != nil {
			return nil, c.failed("decode", err)
		}
		if sum, err = c.sum(n, delta); err != nil {
			return nil, err
		}
		return c.encode(sum)
	})
	if err != nil {
		return 0, err
	}
	return sum, nil
}

// sum returns n + delta, or an error if the sum overflows.
func (c *Counter) sum(n, delta int64) (int64, error) {
	sum := n + delta
	if (sum > n) != (delta > 0) && delta != 0 {
		return 0, c.failed("add", fmt.Errorf("%d and %d: the sum does not fit into 64 bits", n, delta))
	}
	return sum, nil
}

// Next reserves the next n numbers and returns the first of them. The numbers from first to first + n - 1 belong to the
// caller, and no other call gets them. This lets you hand out IDs at the cost of one addition per block. The counter
// holds the last number reserved. Numbers that you don't use are lost, as are those from a call whose outcome is
// unknown.
//
// Errors: before sending any request, n below 1; otherwise the same as Add.
//
// Source: Curator's CachedAtomicLong.
func (c *Counter) Next(ctx context.Context, n int64) (first int64, err error) {
	if n < 1 {
		return 0, c.failed("next", fmt.Errorf("%d numbers: want at least 1", n))
	}
	last, err := c.Add(ctx, n)
	if err != nil {
		return 0, err
	}
	return last - n + 1, nil
}

// Close deletes the marker, which would otherwise exist until the session ends. Call it before [Value.Delete], which
// fails while there is a marker. You can still use the counter afterwards.
//
// Errors: context.Cause(ctx) or zk.ErrNoAuth, after which the client keeps trying to delete the marker until the
// session ends; ErrClosed if the client was created with conn.Client.Sub and is closed, in which case the marker is
// deleted when the session ends.
func (c *Counter) Close(ctx context.Context) error { return c.marked.Close(ctx) }
