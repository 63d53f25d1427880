package chaos

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// deed is something that the run did to a client.
type deed string

const (
	killed  deed = "killed"
	paused  deed = "paused"
	resumed deed = "resumed"
)

type act struct {
	deed deed
	at   int64
}

// operation is one acquisition, with everything that its client reported about it.
type operation struct {
	client    string
	number    int64
	called    journal.Line
	answer    journal.Line // Granted, Failed or Unknown; no kind before there is an answer
	released  *journal.Line
	lost      *journal.Line
	orphaned  bool
	killedAt  int64 // 0 if its client was not killed during it
	nextCall  int64 // of the same client; 0 for none
	deletedAt int64 // by an operator; 0 if not deleted
}

// view is something that a client observed.
type view struct {
	journal.View
	at int64
}

// history collects the reports of all clients.
type history struct {
	mu      sync.Mutex
	groups  map[string]string // by client
	clients map[string][]*operation
	views   map[string][]view
	shown   map[string]*shown // what the newest views add up to
	used    map[string]int64  // by group, when that which a shard protects was last updated
	acts    map[string][]act
	deleted map[string]int64 // contenders, and when the operator began to delete them
}

func newHistory() *history {
	return &history{
		groups: map[string]string{}, clients: map[string][]*operation{}, views: map[string][]view{},
		shown: map[string]*shown{}, used: map[string]int64{}, acts: map[string][]act{},
		deleted: map[string]int64{},
	}
}

// read reads a client's journal to its end.
func (h *history) read(group, client string, in io.Reader) {
	h.mu.Lock()
	h.groups[client] = group
	h.mu.Unlock()
	for lines := json.NewDecoder(in); ; {
		var l journal.Line
		if lines.Decode(&l) != nil {
			return // the end; a line torn by a kill does not count
		}
		h.mu.Lock()
		if l.Client != client {
			h.groups[l.Client] = group + strings.TrimPrefix(l.Client, client)
		}
		h.add(l.Client, l)
		h.mu.Unlock()
	}
}

func (h *history) add(client string, l journal.Line) {
	if l.Kind == journal.Viewed {
		h.views[client] = append(h.views[client], view{*l.View, l.At})
		if h.shown[client] == nil {
			h.shown[client] = &shown{nodes: map[string]journal.Node{}}
		}
		h.shown[client].add(*l.View)
		return
	}
	ops := h.clients[client]
	if l.Kind == check.Called {
		if n := len(ops); n > 0 {
			ops[n-1].nextCall = l.At
		}
		h.clients[client] = append(ops, &operation{client: client, number: l.Op, called: l})
		return
	}
	op := ops[len(ops)-1]
	switch l.Kind {
	case check.Granted, check.Failed, journal.Unknown:
		op.answer = l
	case check.Released:
		op.released = &l
	case check.Lost:
		if op.lost == nil {
			op.lost = &l
		}
	case journal.Orphaned:
		op.orphaned = true
	case journal.Used:
		h.used[h.groups[client]] = l.At
	case check.Called: // handled above
	}
}

func (h *history) act(client string, d deed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acts[client] = append(h.acts[client], act{d, journal.Now()})
}

// deleting records that the operator is about to delete a node.
func (h *history) deleting(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.deleted[contender(path)]; !known {
		h.deleted[contender(path)] = journal.Now()
	}
}

// contender returns the path without kind and number. The nodes of one hold, such as several leases, share it.
func contender(path string) string {
	const guid = len("_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1")
	name := strings.LastIndexByte(path, '/') + 1
	return path[:min(name+guid, len(path))]
}

// last returns a copy of the client's newest operation.
func (h *history) last(client string) (operation, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := h.clients[client]
	if len(ops) == 0 {
		return operation{}, false
	}
	return *ops[len(ops)-1], true
}

// processes returns the processes that were in the group.
func (h *history) processes(group string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id, g := range h.groups {
		if g == group {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// grantedSince reports whether any operation of the client was granted at or after the stamp.
func (h *history) grantedSince(client string, stamp int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range slices.Backward(h.clients[client]) {
		if op.answer.Kind == check.Granted && op.answer.At >= stamp {
			return true
		}
		if op.called.At < stamp {
			return false
		}
	}
	return false
}

// pausedBetween reports whether the client was frozen at some time in between.
func (h *history) pausedBetween(client string, from, to int64) bool {
	since := int64(0)
	for _, a := range h.acts[process(client)] {
		switch a.deed {
		case paused:
			since = a.at
		case resumed:
			if since < to && a.at > from {
				return true
			}
			since = 0
		case killed:
		}
	}
	return since != 0 && since < to
}

func (h *history) killedAt(client string) int64 {
	for _, a := range h.acts[process(client)] {
		if a.deed == killed {
			return a.at
		}
	}
	return 0
}

// operations returns all operations of a group, in the order of their calls. An operation that a kill interrupted ends
// with the kill.
func (h *history) operations(group string) []*operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*operation
	for _, client := range slices.Sorted(maps.Keys(h.clients)) {
		if h.groups[client] != group {
			continue
		}
		ops := h.clients[client]
		for i, op := range ops {
			if i == len(ops)-1 {
				op.killedAt = h.killedAt(client)
			}
			op.deletedAt = h.deleted[contender(op.answer.Path)]
			all = append(all, op)
		}
	}
	slices.SortStableFunc(all, func(a, b *operation) int { return cmp.Compare(a.called.At, b.called.At) })
	return all
}
