package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// journal writes one line per event in logfmt, at once.
type journal struct {
	id string

	mu  sync.Mutex
	out io.Writer
}

// event writes what happened to this candidate.
func (j *journal) event(name string, token zkrecipes.Token, reason string) {
	j.write(name, token, "", reason)
}

// leader writes what was observed.
func (j *journal) leader(now election.Leadership) {
	if now.None {
		j.write("leader", 0, "none", "")
		return
	}
	j.write("leader", now.Leader.Token, now.Leader.ID, "")
}

func (j *journal) write(event string, token zkrecipes.Token, leader, reason string) {
	line := fmt.Sprintf("time=%s id=%s event=%s", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), quote(j.id), event)
	if token != 0 {
		line += " token=" + token.String()
	}
	if leader != "" {
		line += " leader=" + quote(leader)
	}
	if reason != "" {
		line += " reason=" + quote(reason)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := io.WriteString(j.out, line+"\n"); err != nil {
		return // nobody reads any more, which is no reason to give leadership up
	}
}

// quote quotes what would not be one logfmt value.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"\n\t") {
		return strconv.Quote(s)
	}
	return s
}
