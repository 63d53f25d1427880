package proxy

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// An Action is what happens to a trapped request.
type Action int

// The actions. Except for HoldReply, the proxy cuts the connection, and the client cannot tell the actions apart.
const (
	DropRequest Action = iota // the server never sees it
	DropReply                 // the server executes it, and the reply is lost
	HoldReply                 // the reply, and everything behind it on that connection, waits for Release
)

// Creates are the opcodes that create a node: create, create2, createContainer, createTTL.
var Creates = []int32{1, 15, 19, 21}

// Connect is the opcode of the request that opens or resumes a session.
const Connect int32 = -10

// A Match selects one request among all that pass.
type Match struct {
	Ops  []int32 // opcodes; none means any but Connect
	Path string  // a part of the path; empty matches any request, with or without a path
	Nth  int     // of those that match, counted from 1; 0 means the first
}

// A Trap waits for one request, acts once, and ends.
type Trap struct {
	match    Match
	action   Action
	seen     int // guarded by proxy.mu, like match
	sprung   chan struct{}
	released chan struct{}
	release  sync.Once
}

// Trap sets a trap. It counts requests from now on, over all connections.
func (p *Proxy) Trap(m Match, a Action) *Trap {
	t := &Trap{match: m, action: a, sprung: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

// Disarm removes the traps that have not acted yet.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = nil
}

// Wait returns when the trap has acted: for DropRequest once the connection is cut, for the others once the server has
// replied.
func (t *Trap) Wait(ctx context.Context) error {
	select {
	case <-t.sprung:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Release releases a held reply.
func (t *Trap) Release() { t.release.Do(func() { close(t.released) }) }

// connect looks for a trap on a connect request or its reply.
func (k *link) connect(d Direction) bool {
	if d == ToServer {
		return k.trap(Connect, Connect, "")
	}
	return k.answer(Connect)
}

// request looks for a trap on a request and reports whether to forward it.
func (k *link) request(payload []byte) bool {
	if len(payload) < 8 {
		return true
	}
	xid, op := int32(binary.BigEndian.Uint32(payload)), int32(binary.BigEndian.Uint32(payload[4:]))
	return k.trap(xid, op, requestPath(op, payload[8:]))
}

func (k *link) trap(xid, op int32, path string) bool {
	k.proxy.mu.Lock()
	t := k.proxy.pick(op, path)
	if t != nil && t.action != DropRequest {
		k.doomed[xid] = t
	}
	k.proxy.mu.Unlock()
	if t == nil || t.action != DropRequest {
		return true
	}
	k.cut()
	close(t.sprung)
	return false
}

// reply looks for a trap on a reply and reports whether to forward it.
func (k *link) reply(payload []byte) bool {
	if len(payload) < 4 {
		return true
	}
	return k.answer(int32(binary.BigEndian.Uint32(payload)))
}

func (k *link) answer(xid int32) bool {
	k.proxy.mu.Lock()
	t := k.doomed[xid]
	delete(k.doomed, xid)
	k.proxy.mu.Unlock()
	if t == nil {
		return true
	}
	if t.action == DropReply {
		k.cut()
	}
	close(t.sprung)
	if t.action == DropReply {
		return false
	}
	select {
	case <-t.released:
		return true
	case <-k.done:
		return false
	}
}

// pick counts a request, and removes the trap that matches it. The caller holds p.mu.
func (p *Proxy) pick(op int32, path string) *Trap {
	var hit *Trap
	for _, t := range p.traps {
		named := slices.Contains(t.match.Ops, op) || len(t.match.Ops) == 0 && op != Connect
		if !named || !strings.Contains(path, t.match.Path) {
			continue
		}
		if t.seen++; t.seen >= t.match.Nth && hit == nil {
			hit = t
		}
	}
	p.traps = slices.DeleteFunc(p.traps, func(t *Trap) bool { return t == hit })
	return hit
}

// requestPath returns the path in the body of a request. Many operations begin with it.
func requestPath(op int32, body []byte) string {
	switch op {
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 17, 18, 19, 20, 21, 104, 106:
	default:
		return ""
	}
	if len(body) < 4 {
		return ""
	}
	size := binary.BigEndian.Uint32(body)
	if uint64(len(body)) < 4+uint64(size) {
		return ""
	}
	return string(body[4 : 4+size])
}
