package web

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// guests are the HTTP connections of a site. They share a process with a ZooKeeper session, which needs a descriptor
// whenever it reconnects. They therefore get only a part of the descriptors, and a connection without a request in
// progress gives way to a new one.
type guests struct {
	most int
	log  *slog.Logger

	mu    sync.Mutex
	all   map[net.Conn]guest
	since time.Time // when the last warning was logged
}

// guest is a connection. It is busy while a handler answers it.
type guest struct {
	busy  bool
	since time.Time
}

func newGuests(most int, log *slog.Logger) *guests {
	return &guests{most: most, log: log, all: map[net.Conn]guest{}}
}

// mostGuests returns how many connections a process with the given number of descriptors accepts: a quarter of them,
// which leaves the rest to ZooKeeper, files and pipes.
func mostGuests(descriptors uint64) int {
	const enough = 512
	return int(max(1, min(enough, descriptors/4)))
}

// admit is the ConnState hook of a server.
func (g *guests) admit(c net.Conn, state http.ConnState) {
	c = bare(c)
	switch state {
	case http.StateNew:
		g.enter(c)
	case http.StateClosed, http.StateHijacked:
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.all, c)
	case http.StateActive, http.StateIdle: // handlers know better: a single byte of a request makes a connection active
	}
}

// enter adds a new connection. If there are too many, it closes the one that no handler has answered for longest or, if
// all others are busy, the new one.
func (g *guests) enter(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[c] = guest{since: time.Now()}
	if len(g.all) <= g.most {
		return
	}
	leaves := c
	for other, it := range g.all {
		if !it.busy && it.since.Before(g.all[leaves].since) {
			leaves = other
		}
	}
	delete(g.all, leaves)
	_ = leaves.Close() // the server notices
	if time.Since(g.since) > time.Minute {
		g.since = time.Now()
		g.log.Warn("too many HTTP connections: closing those that have been idle the longest", "limit", g.most,
			"from", c.RemoteAddr().String())
	}
}

// answering marks a connection as busy while next answers a request on it.
func (g *guests) answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, is := r.Context().Value(guestKey{}).(net.Conn); is {
			g.mark(c, true)
			defer g.mark(c, false)
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guests) mark(c net.Conn, busy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, there := g.all[c]; there {
		g.all[c] = guest{busy, time.Now()}
	}
}

// guestKey is the context key of a request's connection.
type guestKey struct{}

func withGuest(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, bare(c))
}

// bare returns the connection below TLS. Closing it never waits for the peer.
func bare(c net.Conn) net.Conn {
	if secure, is := c.(*tls.Conn); is {
		return secure.NetConn()
	}
	return c
}
