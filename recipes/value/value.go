package value

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// ErrChanged is returned when the value has changed since the caller read it. In this case nothing was written.
var ErrChanged = errors.New("changed since it was read, nothing was written")

// Value is a value that processes share as the data of one node. It is stateless and safe for concurrent use.
type Value[T any] struct {
	client *client.Client
	path   string
	codec  Codec[T]
}

// Version identifies one state of the node: if two versions are equal, so are the states. The zero Version represents a
// missing node.
type Version struct {
	// Czxid is the ID of the transaction that created the node.
	Czxid int64
	// Mzxid is the ID of the transaction that wrote the value. It grows with each write, even if the node is deleted and
	// recreated.
	Mzxid int64
	// Number is the data version. It restarts when the node is recreated and wraps after 2^31 writes, so don't use it to
	// order states. Servers treat -1 as any version, but writes over a version of -1 are guarded as well.
	Number int32
}

// Exists reports whether the node existed. It is false for the nodes below /zookeeper that servers create themselves,
// such as /zookeeper/config, because no transaction created them.
func (v Version) Exists() bool { return v.Czxid != 0 }

func versionOf(stat *zk.Stat) Version { return Version{stat.Czxid, stat.Mzxid, stat.Version} }

// New returns the value at path without contacting the servers; the first write creates the node and missing parents.
// The path can be "/" only if the client has a chroot or was created with [conn.Client.Sub].
//
// Errors: a nil client; a path that is relative, malformed or the root of the servers; a codec that lacks one of its
// functions.
func New[T any](c *conn.Client, path string, codec Codec[T]) (*Value[T], error) {
	if err := check(c, path, codec); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return &Value[T]{(*client.Client)(c), path, codec}, nil
}

func check[T any](c *conn.Client, path string, codec Codec[T]) error {
	if c == nil {
		return errors.New("client is nil: create one with conn.Dial")
	}
	if err := paths.Validate(path); err != nil {
		return err
	}
	if (*client.Client)(c).Abs(path) == "/" {
		return errors.New("path \"/\" is the root: want a path such as /app/config")
	}
	if codec.Encode == nil || codec.Decode == nil {
		return errors.New("the codec lacks a function: want Encode and Decode, or a codec such as value.JSON")
	}
	return nil
}

// Path returns the node's path.
func (v *Value[T]) Path() string { return v.path }

// failed names the operation and the path in an error.
func (v *Value[T]) failed(op string, err error) error {
	return &session.OpError{Op: op, Path: v.path, Err: err}
}

// Get returns the value, which is at least as recent as the call, except that it may be up to 1.5 ticks older if
// ZooKeeper's leader has just been replaced. If the node is missing, Get returns the zero value and no error, and
// [Version.Exists] returns false.
//
// Errors: data that the codec cannot decode, context.Cause(ctx), ErrClosed, or the server's error.
func (v *Value[T]) Get(ctx context.Context) (T, Version, error) {
	var none T
	if err := v.client.Sync(ctx, v.path); err != nil {
		return none, Version{}, err
	}
	now, err := record.Load(ctx, v.client, v.path)
	if err != nil {
		return none, Version{}, err
	}
	x, err := v.decode(now)
	return x, versionOf(&now.Stat), err
}

func (v *Value[T]) decode(now session.Node) (T, error) {
	var none T
	if !now.Exists {
		return none, nil
	}
	x, err := v.codec.Decode(now.Data)
	if err != nil {
		return none, v.failed("decode", err)
	}
	return x, nil
}

func (v *Value[T]) encode(x T) ([]byte, error) {
	data, err := v.codec.Encode(x)
	if err != nil {
		return nil, v.failed("encode", err)
	}
	return data, nil
}

// Set replaces the value, whatever it was, so the last writer wins. If the new value depends on the old one, use
// [Value.Update].
//
// Errors: a value that the codec cannot encode; ErrUnknownOutcome if a reply was lost and it cannot be determined
// whether this call wrote the value, because the node has changed more than once since, it does not exist or ctx is
// done; or the server's error.
//
// Source: Curator's SharedValue.setValue.
func (v *Value[T]) Set(ctx context.Context, x T) (Version, error) { return v.set(ctx, x, nil) }

// SetHeld is like [Value.Set], but writes only while h is held, because one transaction both checks h's contender and
// writes. A holder that has lost its lock cannot change the value, however late its write arrives.
//
// The hold must come from a recipe on the value's client, or on another client with the same connection and the same
// root; see [conn.Client.Sub].
//
// Errors: before sending any request, a nil hold, or one from another client or root; ErrFenced if h is not held, in
// which case nothing was written; otherwise the same as Set.
func (v *Value[T]) SetHeld(ctx context.Context, h *zkrecipes.Hold, x T) (Version, error) {
	if h == nil {
		return Version{}, v.failed("set held", errors.New("the hold is nil: want one of a recipe on the same client"))
	}
	if err := hold.RequireClient(h, v.client); err != nil {
		return Version{}, v.failed("set held", err)
	}
	return v.set(ctx, x, h.Txn)
}

func (v *Value[T]) set(
	ctx context.Context, x T, apply func(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error),
) (Version, error) {
	data, err := v.encode(x)
	if err != nil {
		return Version{}, err
	}
	now, err := record.Replacement{
		Client: v.client, Path: v.path, Apply: apply, Idempotent: true,
		Next: func(session.Node) ([]byte, error) { return data, nil },
	}.Do(ctx)
	return versionOf(&now.Stat), err
}

// CompareAndSet replaces the value if its version still equals old. If old is the zero Version, it creates the node.
//
// Because the data versions that servers compare restart when a node is recreated, CompareAndSet reads the node first.
// It can still mistake a new node for the one that it read, but only if the node is deleted, recreated and written the
// same number of times within one round trip.
//
// Errors: ErrChanged; a value that the codec cannot encode; ErrUnknownOutcome if the reply was lost and the node does
// not show whether this call wrote it; or the server's error.
//
// Source: Curator's SharedValue.trySetValue.
func (v *Value[T]) CompareAndSet(ctx context.Context, old Version, x T) (Version, error) {
	data, err := v.encode(x)
	if err != nil {
		return Version{}, err
	}
	now, err := v.replace(ctx, func(now session.Node) ([]byte, error) {
		if versionOf(&now.Stat) != old {
			return nil, v.failed("compare and set", ErrChanged)
		}
		return data, nil
	})
	return versionOf(&now.Stat), err
}

// Update replaces the value with the result of calling fn on it, and returns the new value. If another client changes
// the value first, Update calls fn again. If the node is missing, fn receives the zero value. Because a server that
// lags behind may supply a stale value, Update does not return the first error from fn. Instead it syncs, rereads and
// calls fn again, and returns an error only if fn fails once more.
//
// Errors: before sending any request, a nil fn; an error from fn, or a value that the codec cannot decode or encode, in
// which case nothing was written; ErrUnknownOutcome as in [Value.CompareAndSet]; or the server's error.
func (v *Value[T]) Update(ctx context.Context, fn func(old T) (T, error)) (T, Version, error) {
	var x, none T
	if fn == nil {
		return none, Version{}, v.failed("update", errors.New("the function is nil: want one that makes the new value"))
	}
	now, err := v.replace(ctx, func(now session.Node) ([]byte, error) {
		old, err := v.decode(now)
		if err != nil {
			return nil, err
		}
		if x, err = fn(old); err != nil {
			return nil, err
		}
		return v.encode(x)
	})
	if err != nil {
		return none, Version{}, err
	}
	return x, versionOf(&now.Stat), nil
}

// Delete deletes the node, whatever it holds, so that the value no longer exists, but keeps the node's parents. If the
// node is already missing, Delete succeeds.
//
// Errors: ErrUnknownOutcome if a reply was lost and it cannot be determined whether this call deleted the node, because
// another client has written since or ctx is done; zk.ErrNotEmpty if the node has children, such as counters' markers
// (see [Counter.Close]); or the server's error.
func (v *Value[T]) Delete(ctx context.Context) error { return record.Remove(ctx, v.client, v.path) }

func (v *Value[T]) replace(ctx context.Context, next func(session.Node) ([]byte, error)) (session.Node, error) {
	return record.Replacement{Client: v.client, Path: v.path, Next: next}.Do(ctx)
}
