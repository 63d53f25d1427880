package main

import (
	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// journal writes what happens to one candidate, and what it observes.
type journal struct {
	id  string
	log *demo.Journal
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
	var pairs []any
	if token != 0 {
		pairs = append(pairs, "token", token)
	}
	if leader != "" {
		pairs = append(pairs, "leader", leader)
	}
	if reason != "" {
		pairs = append(pairs, "reason", reason)
	}
	j.log.Event(j.id, event, pairs...)
}
