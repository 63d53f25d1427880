package main

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// visitors are the connections over which commands can be posted. Since the server's connections need descriptors, too,
// visitors are few, and one without a request in progress gives way to a new one.
type visitors struct {
	mu  sync.Mutex
	all []visitor // sorted by when their state last changed, oldest first
}

type visitor struct {
	net.Conn
	busy bool
}

const mostVisitors = 32

// note is the ConnState hook of the HTTP server.
func (v *visitors) note(c net.Conn, state http.ConnState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = slices.DeleteFunc(v.all, func(one visitor) bool { return one.Conn == c })
	if state == http.StateClosed || state == http.StateHijacked {
		return
	}
	v.all = append(v.all, visitor{c, state == http.StateActive})
	if state != http.StateNew || len(v.all) <= mostVisitors {
		return
	}
	i := slices.IndexFunc(v.all, func(one visitor) bool { return !one.busy }) // c itself if all others are busy
	_ = v.all[i].Close()                                                      // the HTTP server notices
	v.all = slices.Delete(v.all, i, i+1)
}
