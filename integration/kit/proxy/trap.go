package proxy

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
)

// An Action is what happens to the reply of a trapped request, which the server executes.
type Action int

// The actions.
const (
	DropReply Action = iota // the proxy cuts the connection instead
	HoldReply               // it, and everything behind it on that connection, waits until the connection is cut
)

// Creates are the opcodes that create a node: create, create2, createContainer, createTTL.
var Creates = []int32{1, 15, 19, 21}

// Connect is the opcode of the request that opens or resumes a session.
const Connect int32 = -10

// A Match selects one request among all that pass.
type Match struct {
	Ops  []int32 // opcodes
	Path string  // a part of the path; empty matches any request, with or without a path
}

// A Trap waits for one request, acts once, and ends.
type Trap struct {
	match  Match
	action Action
	sprung chan struct{}
}

// Trap sets a trap for the first request from now on, over all connections, that matches.
func (p *Proxy) Trap(m Match, a Action) *Trap {
	t := &Trap{match: m, action: a, sprung: make(chan struct{})}
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

// Wait returns when the trap has acted, once the server has replied.
func (t *Trap) Wait(ctx context.Context) error {
	select {
	case <-t.sprung:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// request looks for a trap on a request.
func (k *link) request(payload []byte) {
	if len(payload) >= 8 {
		xid, op := int32(binary.BigEndian.Uint32(payload)), int32(binary.BigEndian.Uint32(payload[4:]))
		k.trap(xid, op, requestPath(op, payload[8:]))
	}
}

func (k *link) trap(xid, op int32, path string) {
	k.proxy.mu.Lock()
	defer k.proxy.mu.Unlock()
	if t := k.proxy.pick(op, path); t != nil {
		k.doomed[xid] = t
	}
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
	<-k.done
	return false
}

// pick removes the trap that matches a request. The caller holds p.mu.
func (p *Proxy) pick(op int32, path string) *Trap {
	for i, t := range p.traps {
		if slices.Contains(t.match.Ops, op) && strings.Contains(path, t.match.Path) {
			p.traps = slices.Delete(p.traps, i, i+1)
			return t
		}
	}
	return nil
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
