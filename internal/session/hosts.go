package session

import "math/rand/v2"

// hosts is the order in which a session goes round the servers: one of its own, so that the clients of a program that
// starts everywhere at once do not all begin with the same server.
type hosts struct {
	servers []string
	last    int
}

func newHosts(servers []string) *hosts {
	shuffled := make([]string, len(servers))
	for i, k := range rand.Perm(len(servers)) {
		shuffled[i] = servers[k]
	}
	return &hosts{servers: shuffled, last: -1}
}

func (h *hosts) next() string {
	h.last = (h.last + 1) % len(h.servers)
	return h.servers[h.last]
}
