package zkkerberos

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// tickets caches the tickets to servers, by the principal of the server. A requested ticket is renewed until close.
type tickets struct {
	center func(server principal) (*ticket, error) // requests a ticket; see center.ask
	log    *slog.Logger

	mu      sync.Mutex
	closed  bool
	servers map[principal]*held
}

// held is the state of the ticket to one server.
type held struct {
	*ticket               // nil if there is none
	asking  chan struct{} // closed when the center has answered; nil while there is no query
	err     error         // of the newest answer
	renewal *time.Timer   // nil before the first ticket
}

func newTickets(center func(principal) (*ticket, error), log *slog.Logger) *tickets {
	return &tickets{center: center, log: log, servers: map[principal]*held{}}
}

// to returns a valid ticket. If there is none, it queries the center, and waits until ctx ends at most. The query
// continues after that, and the next call finds the answer.
func (t *tickets) to(ctx context.Context, server principal) (*ticket, error) {
	t.mu.Lock()
	h := t.servers[server]
	if h == nil {
		h = &held{}
		t.servers[server] = h
	}
	switch {
	case t.closed:
		t.mu.Unlock()
		return nil, ErrClosed
	case h.valid():
		defer t.mu.Unlock()
		return h.ticket, nil
	}
	t.ask(server, h)
	answered := h.asking
	t.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer from the key distribution center yet: %w", context.Cause(ctx))
	case <-answered:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case h.valid():
		return h.ticket, nil
	case h.err != nil:
		return nil, h.err
	default:
		return nil, fmt.Errorf("the ticket for %s expired immediately, or the server has since refused it: "+
			"check whether the clocks differ", server)
	}
}

func (h *held) valid() bool { return h.ticket != nil && time.Now().Before(h.end) }

// ask queries the center in a goroutine, unless a query is in progress. It is called with mu held.
func (t *tickets) ask(server principal, h *held) {
	if h.asking != nil {
		return
	}
	h.asking = make(chan struct{})
	go func() {
		got, err := t.center(server)
		t.mu.Lock()
		close(h.asking)
		old := h.ticket
		if h.asking, h.err = nil, err; err == nil {
			h.ticket = got
		}
		later := t.renewLater(server, h)
		t.mu.Unlock()
		switch {
		case !later:
		case err != nil:
			t.log.Warn("kerberos: cannot renew the ticket for a server", "server", server.String(), "error", err)
		case old != nil && !got.end.After(old.end):
			t.log.Warn("kerberos: the new ticket for a server expires no later than the old one: "+
				"a reconnect after that will fail and holds will be lost: have kinit -R or k5start renew the credential cache",
				"server", server.String(), "end", got.end)
		}
	}()
}

// renewLater schedules the next query for when four fifths of the rest of the ticket's life are over. After a failure
// it does so again, so that the pauses get shorter. If the ticket has ended, there is nothing to renew: it reports
// false, and the next connection queries the center. It is called with mu held.
func (t *tickets) renewLater(server principal, h *held) bool {
	if h.renewal != nil {
		h.renewal.Stop()
	}
	if t.closed || !h.valid() {
		return false
	}
	h.renewal = time.AfterFunc(max(time.Until(h.end)*4/5, time.Second), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.closed && h.ticket != nil {
			t.ask(server, h)
		}
	})
	return true
}

// drop discards a ticket that the server has refused, because it may be for an old key.
func (t *tickets) drop(server principal, refused *ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.servers[server]; h.ticket == refused {
		h.ticket = nil
	}
}

func (t *tickets) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, h := range t.servers {
		if h.renewal != nil {
			h.renewal.Stop()
		}
	}
}
