package zktest

import (
	"fmt"
	"maps"
	"slices"
)

// maxIdle bounds the list of rules that have hit nothing, since a server may live for long.
const maxIdle = 1000

// labels are those of clients, and those that faults name.
type labels struct{ clients, faults map[string]bool }

func (l *labels) dialed(label string) { note(&l.clients, label) }

func (l *labels) named(who Who) { note(&l.faults, who.label) }

func note(set *map[string]bool, label string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[label] = true
}

// idle describes the faults that had no effect, so that a test with a typo in a path or a label does not pass
// unnoticed.
func (s *Server) idle() (faults []string) {
	s.faults.mu.Lock()
	for _, r := range s.faults.idle {
		faults = append(faults, fmt.Sprintf("%s: the rule %v hit no request: %d matched", r.where, r.match, r.seen))
	}
	s.faults.mu.Unlock()
	s.lock()
	defer s.unlock()
	for _, label := range slices.Sorted(maps.Keys(s.labels.faults)) {
		if label != "" && !s.labels.clients[label] {
			faults = append(faults, fmt.Sprintf("no client had the label %q that a fault names: want one of %q", label,
				slices.Sorted(maps.Keys(s.labels.clients))))
		}
	}
	return faults
}

// String describes what the match selects.
func (m Match) String() string {
	text := m.Op.String()
	if m.Path != "" {
		text += " " + m.Path
	}
	switch {
	case m.From.label != "":
		text += fmt.Sprintf(" of %q", m.From.label)
	case m.From.session != 0:
		text += fmt.Sprintf(" of session %#x", uint64(m.From.session))
	}
	if m.Where != nil {
		text += " with a condition"
	}
	if m.Skip > 0 {
		text += fmt.Sprintf(" after %d", m.Skip)
	}
	return text
}
