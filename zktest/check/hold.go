package check

import (
	"fmt"
	"math"

	"github.com/zkrecipes/zkrecipes"
)

// StillHeld is the end of a hold that was still held when the history was taken.
const StillHeld int64 = math.MaxInt64

// Hold is one granted acquisition. It must have been held from the stamp From up to the stamp To, exclusive.
type Hold struct {
	Client string
	Op     int64
	Weight int
	Read   bool
	Token  zkrecipes.Token
	// Called is the stamp taken before the acquisition began.
	Called   int64
	From, To int64
	// Lost reports that the hold was lost. To is then when its owner learned of the loss, or when it began the release
	// that reported it.
	Lost bool
}

// String names the operation and its interval.
func (h Hold) String() string {
	kind, end, lost := "lock", fmt.Sprint(h.To), ""
	if h.Read {
		kind = "read lock"
	}
	if h.To == StillHeld {
		end = "..."
	}
	if h.Lost {
		lost = ", lost"
	}
	return fmt.Sprintf("%s#%d (%s of weight %d, token %d, held %d to %s%s)",
		h.Client, h.Op, kind, h.Weight, h.Token, h.From, end, lost)
}

// Violation is something that no correct lock could have produced. A is the operation that came first, and B is the one
// that should not have been granted as it was.
type Violation struct {
	// Rule is the broken rule: "exclusion" or "order".
	Rule string
	A, B Hold
	// Why explains how A and B contradict each other.
	Why string
}

// Error names the rule, both operations and the reason.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated: %v and then %v: %s", v.Rule, v.A, v.B, v.Why)
}

// Holds assembles holds from events, which may come from several recorders as long as no client has events in more than
// one of them. A hold without an end lasts to the end of the history, [StillHeld], so if a process was killed, append a
// Lost event with the time of the kill first.
//
// Errors: an impossible history (an operation granted twice, or ended before it was granted), which means that the
// recording is wrong.
func Holds(events []Event) ([]Hold, error) {
	type key struct {
		client string
		op     int64
	}
	ops := make(map[key]*opState, len(events)/3)
	var holds []Hold
	for _, e := range events {
		k := key{e.Client, e.Op}
		op := ops[k]
		if op == nil {
			op = &opState{hold: -1}
			ops[k] = op
		}
		if err := op.apply(e, &holds); err != nil {
			return nil, fmt.Errorf("malformed history: %s#%d: %w", e.Client, e.Op, err)
		}
	}
	return holds, nil
}

// opState is the state of an operation: called, then answered, then ended.
type opState struct {
	call     Event
	answered bool
	hold     int // its index in holds, or -1
}

func (s *opState) apply(e Event, holds *[]Hold) error {
	switch e.Kind {
	case Called:
		if s.call.Kind != "" {
			return fmt.Errorf("called twice, at %d and %d", s.call.At, e.At)
		}
		if e.Weight < 1 {
			return fmt.Errorf("weight %d: must be at least 1", e.Weight)
		}
		s.call = e
	case Granted, Failed:
		if s.call.Kind == "" || s.answered || e.At < s.call.At {
			return fmt.Errorf("%s at %d: not waiting for an answer then", e.Kind, e.At)
		}
		s.answered = true
		if e.Kind == Granted {
			s.hold = len(*holds)
			*holds = append(*holds, Hold{
				Client: e.Client, Op: e.Op, Weight: s.call.Weight, Read: s.call.Read,
				Token: e.Token, Called: s.call.At, From: e.At, To: StillHeld,
			})
		}
	case Released, Lost:
		if s.hold < 0 || e.At < (*holds)[s.hold].From {
			return fmt.Errorf("%s at %d: not held then", e.Kind, e.At)
		}
		h := &(*holds)[s.hold]
		h.To = min(h.To, e.At)
		h.Lost = h.Lost || e.Kind == Lost
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	return nil
}
