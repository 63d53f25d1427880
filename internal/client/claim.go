package client

import (
	"runtime"
	"weak"
)

// Claim keeps a path for one object of a client: two that took each other's node for their own would undo each other's work, and
// the owner of a node tells only sessions apart.
type Claim struct {
	core     *core
	path     string
	before   *Claim        // whose object was leaving; nil if there was none
	leaving  bool          // guarded by core.mu
	released chan struct{} // closed when the object is done
}

// Claim claims a path. It reports false if another object has it and is not leaving.
func (c *Client) Claim(path string) (claim *Claim, ok bool) {
	path = c.Abs(path)
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	before := c.core.claims[path]
	if before != nil && !before.leaving {
		return nil, false
	}
	claim = &Claim{core: c.core, path: path, before: before, released: make(chan struct{})}
	c.core.claims[path] = claim
	return claim, true
}

// Before is closed when the object before has released the path. Until then the new one must not use the path. It is nil if
// there was no object before.
func (c *Claim) Before() <-chan struct{} {
	if c.before == nil {
		return nil
	}
	return c.before.released
}

// Leave lets another object claim the path, and wait until this one releases it.
func (c *Claim) Leave() {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	c.leaving = true
}

// Release ends the claim. It is called once, after the object before has released the path.
func (c *Claim) Release() {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if c.core.claims[c.path] == c {
		delete(c.core.claims, c.path)
	}
	c.before = nil
	close(c.released)
}

// sharedKey is what objects share by. Each type has keys of its own.
type sharedKey[T any] struct{ path, of string }

// Shared returns what all objects of a client share that ask for the same type, of the same path on the server. The first of them
// makes it, as a zero T. When none has it any more, it is forgotten: a client may use a million paths once each.
//
// An object that counts on it keeps the pointer. So does a hold that outlives its object. The client itself must not keep it.
func Shared[T any](c *Client, path, of string) *T {
	key := sharedKey[T]{c.Abs(path), of}
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	known, _ := c.core.shared[key].(weak.Pointer[T])
	if v := known.Value(); v != nil {
		return v
	}
	v := new(T)
	made := weak.Make(v)
	c.core.shared[key] = made
	runtime.AddCleanup(v, sharedEntry.forget, sharedEntry{weak.Make(c.core), key, made})
	return v
}

// sharedEntry is what is to be forgotten. The runtime keeps it as long as the value lives, so it must not keep the client: that would keep
// the value, by way of a callback that is never called, and none of them would ever go.
type sharedEntry struct {
	core       weak.Pointer[core]
	key, value any
}

// forget is called by the runtime when the garbage collector has found that no object has the value. Another may have been made since.
func (e sharedEntry) forget() {
	c := e.core.Value()
	if c == nil {
		return // the client has gone, too
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared[e.key] == e.value {
		delete(c.shared, e.key)
	}
}
