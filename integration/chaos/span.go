package chaos

import (
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// How a hold ended.
const (
	endReleased = "released"
	endKilled   = "killed"  // with its process
	endFrozen   = "frozen"  // its process stood still when it was lost
	endDeleted  = "deleted" // the operator deleted its node
	endLost     = "lost"    // told to a process that ran
)

// span is a hold, from when its owner knew of it up to when it ended.
type span struct {
	check.Hold
	group  string
	end    string
	reason string // of the loss
	bound  int64  // when the node was gone, since the release had returned; 0: not known
}

// spans turns operations into holds. Where a hold ended depends on who could know:
//
//   - A process that runs holds until it is told, or releases.
//   - One that stood still holds until the deadline, which is what it sees first when it goes on.
//   - One that was killed, until then.
//   - A node that an operator deletes is gone before its owner can be told; from then on nothing is promised.
func (h *history) spans(group string) []span {
	var spans []span
	for _, op := range h.operations(group) {
		if op.answer.Kind != check.Granted {
			continue
		}
		s := span{group: group, Hold: check.Hold{
			Client: op.client, Op: op.number, Weight: op.called.Weight, Read: op.called.Read, Token: op.answer.Token,
			Called: op.called.At, From: op.answer.At, To: check.StillHeld,
		}}
		if op.nextCall != 0 && !op.orphaned {
			s.bound = op.nextCall - 1
		}
		h.finish(&s, op)
		s.To = max(s.To, s.From)
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.From - b.From) })
	return spans
}

func (h *history) finish(s *span, op *operation) {
	ends := func(at int64, how string) {
		if at < s.To {
			s.To, s.end = at, how
		}
	}
	if op.released != nil {
		ends(op.released.At, endReleased)
	}
	if op.killedAt != 0 {
		ends(op.killedAt, endKilled)
	}
	if op.lost != nil {
		s.Lost, s.reason = true, op.lost.Reason
		ends(op.lost.At, endLost)
		if h.pausedBetween(op.client, op.called.At, op.lost.At) {
			ends(op.lost.Until, endFrozen)
		}
	}
	if op.deletedAt != 0 {
		s.Lost = true
		ends(op.deletedAt, endDeleted)
	}
	s.Lost = s.Lost || s.end == endKilled
}

// holds drops everything but what the checkers judge.
func holds(spans []span) []check.Hold {
	hs := make([]check.Hold, len(spans))
	for i, s := range spans {
		hs[i] = s.Hold
	}
	return hs
}

// successor finds the first grant that could not have stood beside the hold: the one that proves an overlap if it
// comes before the hold's end.
func successor(spans []span, s span, limit int) (span, bool) {
	first, _ := slices.BinarySearchFunc(spans, s.From, func(x span, from int64) int { return int(x.From - from) })
	for _, next := range spans[first:] {
		if next.Token <= s.Token || next.Client == s.Client && next.Op == s.Op {
			continue
		}
		weight := s.Weight
		for _, x := range spans {
			itself := x.Client == s.Client && x.Op == s.Op
			if x.From <= next.From && next.From < x.To && !itself || x == next {
				weight += x.Weight
			}
		}
		if weight > limit {
			return next, true
		}
	}
	return span{}, false
}
