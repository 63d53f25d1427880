package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// attempt is a try, or the end of a hold from a try, as seen from outside.
type attempt struct {
	client string
	kind   attemptKind
}

type attemptKind int

const (
	got attemptKind = iota
	busy
	gone // released or lost
)

func (a attempt) String() string { return a.client + " " + [...]string{"got", "busy", "gone"}[a.kind] }

// mutexModel is one lock without waiters. A try succeeds when the lock is free, and is refused when it is held.
var mutexModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		holder, _ := state.(string)
		a, _ := input.(attempt)
		switch {
		case a.kind == got && holder == "":
			return true, a.client
		case a.kind == busy && holder != "":
			return true, holder
		case a.kind == gone && holder == a.client:
			return true, ""
		default:
			return false, holder
		}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}

// never is the return time of a release that is not known to have returned.
const never = int64(1)<<62 - 1

// tries checks the try operations of a group with Porcupine, in chunks that begin and end with the lock free.
//
// A refused try proves nothing while another try is in progress, because contenders of tries block each other. Such
// tries are left out. After a lost hold, the lock becomes free at some time before the end of the round. While a leader
// may have been replaced without knowing it, a refusal may be as old as the fault: such a leader answers syncs as well.
func tries(ops []*operation, spans []span, rounds []round) error {
	var history []porcupine.Operation
	clients := map[string]int{}
	add := func(client string, kind attemptKind, call, ret int64) {
		if _, known := clients[client]; !known {
			clients[client] = len(clients)
		}
		history = append(history, porcupine.Operation{
			ClientId: clients[client], Input: attempt{client, kind},
			Call: call, Return: ret,
		})
	}
	for _, s := range spans {
		name := fmt.Sprintf("%s#%d", s.Client, s.Op)
		add(name, got, s.Called, s.From)
		free := s.bound
		if s.end != endReleased || s.Lost || free == 0 {
			free = endOfRound(rounds, s.To)
		}
		add(name, gone, s.To, max(free, s.To))
	}
	for _, op := range ops {
		if op.answer.Kind == check.Failed && !contended(ops, op, rounds) {
			add(fmt.Sprintf("%s#%d", op.client, op.number), busy, readSince(rounds, op.called.At), op.answer.At)
		}
	}
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for i, chunk := range chunks(history, 200) {
		switch result := porcupine.CheckOperationsTimeout(mutexModel, chunk, time.Minute); result {
		case porcupine.Ok:
		default:
			return fmt.Errorf("porcupine: chunk %d of %d operations: %s: %s", i, len(chunk), result, culprits(chunk))
		}
	}
	return nil
}

// culprits lists the refused tries that have no explanation, with the events around each.
func culprits(chunk []porcupine.Operation) string {
	turnedAway := func(op porcupine.Operation) bool { a, _ := op.Input.(attempt); return a.kind == busy }
	holds := slices.DeleteFunc(slices.Clone(chunk), turnedAway)
	var text strings.Builder
	for i, op := range chunk {
		if !turnedAway(op) || porcupine.CheckOperations(mutexModel, append(slices.Clip(holds), op)) {
			continue
		}
		for _, near := range chunk[max(0, i-4):min(len(chunk), i+5)] {
			fmt.Fprintf(&text, "\n\t%v from %v to %v", near.Input, time.Duration(near.Call), time.Duration(near.Return))
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// endOfRound returns when the effects of a fault at the stamp are over.
func endOfRound(rounds []round, at int64) int64 {
	for _, rd := range rounds {
		if at <= rd.Served {
			return rd.Served
		}
	}
	return never
}

// replaces lists the faults after which an old leader may keep answering.
var replaces = []Kind{PauseLeader, IsolateLeader}

// readSince returns the earliest time of the server state behind an answer to the call.
func readSince(rounds []round, called int64) int64 {
	for _, rd := range rounds {
		if slices.Contains(replaces, rd.Kind) && rd.Injected <= called && called <= rd.Healed {
			return rd.Injected
		}
	}
	return called
}

// contended reports whether another client's try was in progress at the same time, or may have left its contender
// behind.
func contended(ops []*operation, op *operation, rounds []round) bool {
	for _, other := range ops {
		if other.client == op.client || other.called.At > op.answer.At {
			continue
		}
		until := other.answer.At
		if other.answer.Kind == "" || other.answer.Kind == journal.Unknown || other.orphaned {
			until = endOfRound(rounds, max(other.called.At, other.killedAt, other.answer.At))
		}
		if until >= op.called.At {
			return true
		}
	}
	return false
}

// chunks splits a history, sorted by call, at moments when nothing is in progress. Each chunk has few operations.
func chunks(history []porcupine.Operation, least int) [][]porcupine.Operation {
	var cut [][]porcupine.Operation
	first, until := 0, int64(0)
	for i, op := range history {
		if i-first >= least && op.Call > until && free(history[first:i]) {
			cut = append(cut, history[first:i])
			first = i
		}
		until = max(until, op.Return)
	}
	return append(cut, history[first:])
}

// free reports whether everything acquired has been given up.
func free(chunk []porcupine.Operation) bool {
	held := 0
	for _, op := range chunk {
		switch a, _ := op.Input.(attempt); a.kind {
		case got:
			held++
		case gone:
			held--
		case busy:
		}
	}
	return held == 0
}
