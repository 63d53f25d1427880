package cache

import (
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Typed is a [Cache] with decoded data. It is safe for concurrent use.
type Typed[T any] struct {
	cache  *Cache
	decode func(Entry) (T, error)

	mu      sync.Mutex
	decoded map[string]TypedEntry[T]
}

// TypedEntry is an [Entry] with its decoded data. If the data cannot be decoded, Err is the reason, and Value is
// whatever the decode function returned.
type TypedEntry[T any] struct {
	Entry
	Value T
}

// As returns a view of a cache whose entries are decoded by the decode function. It calls the function when an entry is
// requested, and not again while the node has the same version. The function may be called concurrently, even for the
// same node. If a node cannot be decoded, its Entry.Err is set; other entries are not affected.
//
// Errors: a nil cache; a nil function.
func As[T any](c *Cache, decode func(Entry) (T, error)) (*Typed[T], error) {
	if c == nil {
		return nil, errors.New("cache: the cache is nil: create one with cache.Tree or another constructor")
	}
	if decode == nil {
		return nil, fmt.Errorf("cache %s: the function is nil: want one that decodes an entry", c.Path())
	}
	return &Typed[T]{cache: c, decode: decode, decoded: map[string]TypedEntry[T]{}}, nil
}

// Get is like [Cache.Get], but returns a decoded entry.
func (t *Typed[T]) Get(path string) (TypedEntry[T], bool) {
	e, ok := t.cache.Get(path)
	if !ok {
		return TypedEntry[T]{}, false
	}
	return t.Decode(e), true
}

// List is like [Cache.List], but returns decoded entries.
func (t *Typed[T]) List(path string) []TypedEntry[T] {
	var list []TypedEntry[T]
	for _, e := range t.cache.List(path) {
		list = append(list, t.Decode(e))
	}
	return list
}

// Decode returns an entry, such as one from [Cache.Watch], with its decoded value. An entry that the cache has since
// replaced is decoded on each call.
func (t *Typed[T]) Decode(e Entry) TypedEntry[T] {
	typed := TypedEntry[T]{Entry: e}
	if e.Mzxid == 0 && e.Data == nil {
		return typed // it was never read; a node that the servers made without a transaction has data, even if empty
	}
	t.mu.Lock()
	known, ok := t.decoded[e.Path]
	t.mu.Unlock()
	if ok && known.Mzxid == e.Mzxid && known.Czxid == e.Czxid {
		typed.Value = known.Value
		if e.Err == nil {
			typed.Err = known.Err
		}
		return typed
	}
	typed.Value, typed.Err = t.decode(e)
	if typed.Err != nil {
		typed.Err = fmt.Errorf("decode %s: %w", e.Path, typed.Err)
	}
	t.keep(typed)
	if e.Err != nil {
		typed.Err = e.Err
	}
	return typed
}

// keep stores the value of an entry that is in the cache now.
func (t *Typed[T]) keep(typed TypedEntry[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, ok := t.cache.Get(typed.Path); !ok || now.Mzxid != typed.Mzxid || now.Czxid != typed.Czxid {
		return
	}
	if len(t.decoded) > 2*t.cache.View().Nodes+64 { // most belong to nodes that are gone
		maps.DeleteFunc(t.decoded, func(path string, _ TypedEntry[T]) bool {
			_, ok := t.cache.Get(path)
			return !ok
		})
	}
	t.decoded[typed.Path] = typed
}
