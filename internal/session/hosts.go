package session

import (
	"math/rand/v2"
	"sync"
)

// hosts hands zk.Conn one server after the other, in an order of its own for each client. It never asks for the
// library's pause of a second between rounds: the dialer paces.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
}

func newHosts(servers []string) *hosts {
	shuffled := append([]string(nil), servers...)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return &hosts{servers: shuffled}
}

// Init is part of zk.HostProvider; the servers are known already.
func (h *hosts) Init([]string) error { return nil }

// Len is part of zk.HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next is part of zk.HostProvider.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, false
}

// Connected is part of zk.HostProvider.
func (h *hosts) Connected() {}
