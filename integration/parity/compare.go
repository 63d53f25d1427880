package parity

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Target is a server against which scripts are played.
type Target struct {
	Name string
	Addr string

	before *run // the run whose nodes a script finds on a read-only server; nil if the script creates its own root
}

// A Difference is the first step at which two servers disagree.
type Difference struct {
	Script    Script
	Step      int
	Names     [2]string
	Responses [2][]string
}

// Compare plays a script against both targets. A nil Difference means that they agree.
func Compare(a, b Target, s Script) (*Difference, error) {
	var transcripts [2]Transcript
	var errs [2]error
	var both sync.WaitGroup
	for i, target := range []Target{a, b} {
		both.Go(func() {
			transcripts[i], errs[i] = Play(target, s)
		})
	}
	both.Wait()
	for i := range s {
		responses := [2][]string{at(transcripts[0], i), at(transcripts[1], i)}
		if !slices.Equal(responses[0], responses[1]) {
			d := &Difference{s, i, [2]string{a.Name, b.Name}, responses}
			for side, err := range errs {
				if err != nil {
					d.Responses[side] = append(d.Responses[side], err.Error())
				}
			}
			return d, nil
		}
	}
	for i, target := range []Target{a, b} {
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: %w", target.Name, errs[i])
		}
	}
	return nil, nil //nolint:nilnil // no difference
}

func at(t Transcript, i int) []string {
	if i >= len(t) {
		return nil
	}
	return t[i]
}

// String shows the steps up to the difference, and both sides of it.
func (d *Difference) String() string {
	var b strings.Builder
	for i, step := range d.Script[:d.Step+1] {
		if i < d.Step-10 {
			continue
		}
		for _, o := range step {
			fmt.Fprintf(&b, "%4d %v\n", i, o)
		}
	}
	for side, name := range d.Names {
		fmt.Fprintf(&b, "%s:\n", name)
		for _, line := range d.Responses[side] {
			mark := " "
			if !slices.Contains(d.Responses[1-side], line) {
				mark = "*"
			}
			fmt.Fprintf(&b, "  %s %s\n", mark, line)
		}
	}
	return b.String()
}

// Shrink searches for a shorter script on which the targets still disagree, until the budget is used up.
func Shrink(d *Difference, a, b Target, budget time.Duration) *Difference {
	deadline := time.Now().Add(budget)
	d = d.upTo()
	for size := len(d.Script) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(d.Script) && time.Now().Before(deadline); {
			shorter, err := Compare(a, b, slices.Delete(slices.Clone(d.Script), from, from+size))
			if err == nil && shorter != nil {
				d = shorter.upTo()
			} else {
				from += size
			}
		}
	}
	return d
}

// upTo drops the steps after the difference.
func (d *Difference) upTo() *Difference {
	shorter := *d
	shorter.Script = d.Script[:d.Step+1]
	return &shorter
}
