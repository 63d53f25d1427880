package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// recording is what two workers of each recipe reported on zktest: the first operations on four registers.
type recording []*journal.Line

func recorded(t *testing.T) recording {
	t.Helper()
	text, err := os.ReadFile("testdata/registers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	for line := range bytes.Lines(text) {
		l := &journal.Line{}
		if err := json.Unmarshal(line, l); err != nil {
			t.Fatal(err)
		}
		r = append(r, l)
	}
	return r
}

// An answered is an operation of a recording.
type answered struct{ called, answer *journal.Line }

// on returns the answered operations on a register, in the order of their answers.
func (r recording) on(key string, hows ...journal.How) (ops []answered) {
	type id struct {
		client string
		op     int64
	}
	calls := map[id]*journal.Line{}
	for _, l := range r {
		if l.Access != nil {
			calls[id{l.Client, l.Op}] = l
			continue
		}
		c := calls[id{l.Client, l.Op}]
		matches := len(hows) == 0
		for _, how := range hows {
			matches = matches || c.Access.How == how
		}
		if matches && c.Access.Key == key && l.Kind == check.Granted {
			ops = append(ops, answered{c, l})
		}
	}
	return ops
}

// judge makes Porcupine judge a register, and returns its verdict and the picture.
func (r recording) judge(t *testing.T, key string, rounds ...round) (picture string, err error) {
	t.Helper()
	h := newHistory()
	for _, l := range r {
		h.groups[l.Client] = "register"
		h.add(l.Client, *l)
	}
	rep := &Report{}
	trial := &trial{Report: rep, history: h, rounds: rounds}
	history := trial.accesses(h.operations("register"))[key]
	if len(history) < 10 {
		t.Fatalf("%d operations on %s", len(history), key)
	}
	picture = filepath.Join(t.TempDir(), "pictures", key+".html")
	return picture, linearize(history, picture, time.Minute)
}

func TestLinearize_Recorded(t *testing.T) {
	for _, key := range []string{"node-0", "value-0", "counter-0", "guarded"} {
		if _, err := recorded(t).judge(t, key); err != nil {
			t.Errorf("%s: a correct history is refused: %v", key, err)
		}
	}
}

func TestLinearize_CorruptedHistories(t *testing.T) {
	for _, c := range []struct {
		name, key, blamed string
		corrupt           func(recording)
	}{
		// The tenth section read what the ninth had replaced, and overwrote what the ninth had written.
		{"a lost update", "guarded", "held guarded", func(r recording) {
			ops := r.on("guarded")
			ops[9].answer.Register.Was = ops[8].answer.Register.Was
		}},
		{"a stale read", "value-0", "get value-0", func(r recording) {
			gets := r.on("value-0", journal.Get)
			last, writes := gets[len(gets)-1], r.on("value-0", journal.Set, journal.Swap, journal.Update)
			*last.answer.Register = *writes[0].answer.Register
			last.answer.Register.Was = ""
		}},
		// One addition was applied twice, so all later sums contain it twice.
		{"a doubled increment", "counter-0", "add counter-0", func(r recording) {
			ops := r.on("counter-0")
			for _, op := range ops[5:] {
				op.answer.Register.Number += ops[4].called.Access.N
			}
		}},
		// The previous hold wrote again after the next hold had written.
		{"two holders writing", "guarded", "held guarded", func(r recording) {
			ops := r.on("guarded")
			ops[11].called.Token = ops[0].called.Token
		}},
		// A copy of an early write was applied late: the last read finds its data again.
		{"a write that reappears", "node-0", "node-0", func(r recording) {
			reads, writes := r.on("node-0", journal.Get, journal.Look), r.on("node-0", journal.Set, journal.Swap)
			last := reads[len(reads)-1]
			last.answer.Register.Data = writes[0].answer.Register.Data
			last.answer.Register.Number++
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recorded(t)
			c.corrupt(r)
			picture, err := r.judge(t, c.key)
			if err == nil || errors.Is(err, errUndecided) || !strings.Contains(err.Error(), c.blamed) {
				t.Fatalf("it is not refused: %v", err)
			}
			text, err := os.ReadFile(picture)
			if err != nil || !bytes.Contains(text, []byte("<html")) {
				t.Errorf("the picture: %d bytes, %v", len(text), err)
			}
		})
	}
}

// An unanswered write may take effect at any time after its call, once, or never.
func TestLinearize_OpenWrites(t *testing.T) {
	open := func(r recording) { r.on("node-0", journal.Set)[1].answer.Kind = journal.Unknown }
	r := recorded(t)
	open(r)
	if _, err := r.judge(t, "node-0"); err != nil {
		t.Errorf("it took effect, and the checker refuses it: %v", err)
	}
	r = recorded(t)
	called := *r.on("node-0", journal.Set)[0].called
	called.Client, called.Op = "killed", 1
	called.Access = &journal.Access{Key: "node-0", How: journal.Set, N: 1, Data: "killed/1"}
	r = append(recording{&called}, r...)
	if _, err := r.judge(t, "node-0"); err != nil {
		t.Errorf("it never took effect, and the checker refuses it: %v", err)
	}
	// It reappears after it was overwritten.
	reads := r.on("node-0", journal.Get)
	last := reads[len(reads)-1].answer
	last.Register.Data = "killed/1"
	if _, err := r.judge(t, "node-0"); err == nil {
		t.Error("a number was read with the data of two writes, and the checker accepts it")
	}
}

// While a leader may have been replaced, a Get may be as old as the fault, and a Look as old as what its client has
// seen.
func TestLinearize_WhatReadsPromise(t *testing.T) {
	stale := func(how journal.How) recording {
		write := func(op, at int64, number int64) recording {
			return recording{
				{
					Event:  check.Event{Kind: check.Called, Client: "w", Op: op, At: at},
					Access: &journal.Access{Key: "k", How: journal.Set, N: 1},
				},
				{
					Event:    check.Event{Kind: check.Granted, Client: "w", Op: op, At: at + 1},
					Register: &journal.Register{Number: number},
				},
			}
		}
		var r recording
		for i := range int64(9) {
			r = append(r, write(i+1, 10*i, i+1)...)
		}
		return append(r, recording{
			{Event: check.Event{Kind: check.Called, Client: "r", Op: 1, At: 100}, Access: &journal.Access{Key: "k", How: how}},
			{Event: check.Event{Kind: check.Granted, Client: "r", Op: 1, At: 101}, Register: &journal.Register{Number: 8}},
		}...)
	}
	old := round{Step: Step{Kind: PauseLeader}, Injected: 75, Healed: 110}
	if _, err := stale(journal.Get).judge(t, "k", old); err != nil {
		t.Errorf("a leader that was replaced answered: %v", err)
	}
	if _, err := stale(journal.Get).judge(t, "k"); err == nil {
		t.Error("a Get is older than its call, and the checker accepts it")
	}
	if _, err := stale(journal.Look).judge(t, "k"); err != nil {
		t.Errorf("a follower that lags behind answered: %v", err)
	}
	own := stale(journal.Look)
	for _, l := range own[len(own)-2:] {
		l.Client, l.Op = "w", 10
	}
	if _, err := own.judge(t, "k"); err == nil {
		t.Error("a Look is older than what its client has written, and the checker accepts it")
	}
}

// If Porcupine has no answer in time, that does not count as agreement.
func TestLinearize_Undecided(t *testing.T) {
	slow := registerModel
	defer func() { registerModel = slow }()
	blocked := make(chan struct{})
	defer close(blocked)
	registerModel.Step = func(_, _, _ any) (bool, any) { <-blocked; return false, nil }
	err := linearize([]porcupine.Operation{{Input: ask{}, Output: outcome{}, Return: 1}},
		t.TempDir()+"/p.html", time.Millisecond)
	if !errors.Is(err, errUndecided) {
		t.Error(err)
	}
}
