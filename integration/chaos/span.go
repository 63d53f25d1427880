package chaos

import (
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// How a hold ended.
const (
	endReleased = "released"
	endKilled   = "killed"  // with its process
	endFrozen   = "frozen"  // its process was frozen when it was lost, or did not run because the machine was busy
	endDeleted  = "deleted" // the operator deleted its node
	endLost     = "lost"    // a running process was notified
)

// span is a hold, from the moment its owner knew of it until it ended.
type span struct {
	check.Hold
	group  string
	end    string
	reason string // of the loss
	bound  int64  // when the node was gone, because the release had returned; 0 if unknown
}

// spans turns operations into holds. The end of a hold depends on what its process could know:
//
//   - A running process holds until it learns of the loss, or releases.
//   - A process that is frozen, or that a busy machine does not run, holds until the deadline, which is what it sees
//     first when it resumes.
//   - A killed process holds until the kill.
//   - If an operator deletes a node, the hold ends at the deletion. Its owner cannot know earlier.
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
		if op.lost.Stalled || h.pausedBetween(op.client, op.called.At, op.lost.At) {
			ends(op.lost.Until, endFrozen)
		}
	}
	if op.deletedAt != 0 {
		s.Lost = true
		ends(op.deletedAt, endDeleted)
	}
	s.Lost = s.Lost || s.end == endKilled
}

// holds keeps what the checkers judge.
func holds(spans []span) []check.Hold {
	hs := make([]check.Hold, len(spans))
	for i, s := range spans {
		hs[i] = s.Hold
	}
	return hs
}

// successor finds the first grant that excludes the hold. If that grant precedes the end of the hold, the two overlap.
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
