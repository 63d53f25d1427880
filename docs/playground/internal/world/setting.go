package world

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names are the names that processes may have, in the order of their lanes.
var Names = []string{"anna", "ben", "cleo", "dora", "emil", "finn", "gina", "hugo"}

// Recipe is what the processes of a world contend for.
type Recipe string

// The recipes.
const (
	Mutex     Recipe = "mutex"
	RWLock    Recipe = "rwlock"
	Semaphore Recipe = "semaphore"
	Election  Recipe = "election"
)

// Setting is the initial state of a world, and what happens in it by itself.
type Setting struct {
	Recipe    Recipe
	Processes int // 3 to 8
	Limit     int // leases of the semaphore
	Steps     []Step
}

// Step is an action at a time after the start.
type Step struct {
	At  time.Duration
	Do  Verb
	Who string
}

// Parse reads a setting from the fragment of a link, such as "recipe=mutex&n=4&do=300.take.anna,600.take.ben". The
// number of a step is in milliseconds. Names that only the page uses are ignored.
//
// It returns an error if a value is unknown or out of range.
func Parse(fragment string) (Setting, error) {
	values, err := url.ParseQuery(fragment)
	if err != nil {
		return Setting{}, fmt.Errorf("the link is damaged: %w", err)
	}
	s := Setting{Recipe: Mutex, Processes: 4, Limit: 2}
	if name := values.Get("recipe"); name != "" {
		s.Recipe = Recipe(name)
	}
	if !slices.Contains([]Recipe{Mutex, RWLock, Semaphore, Election}, s.Recipe) {
		return Setting{}, fmt.Errorf("recipe %q: want mutex, rwlock, semaphore or election", s.Recipe)
	}
	err = errors.Join(number(values, "n", 3, len(Names), &s.Processes), number(values, "limit", 1, len(Names), &s.Limit))
	for word := range strings.SplitSeq(values.Get("do"), ",") {
		if word == "" {
			continue
		}
		step, bad := s.step(word)
		err = errors.Join(err, bad)
		s.Steps = append(s.Steps, step)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s, err
}

// number parses a number within a range. If there is none, into keeps its value.
func number(values url.Values, name string, from, to int, into *int) error {
	text := values.Get(name)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < from || n > to {
		return fmt.Errorf("%s=%s: want a number from %d to %d", name, text, from, to)
	}
	*into = n
	return nil
}

func (s *Setting) step(word string) (Step, error) {
	parts := strings.Split(word, ".")
	if len(parts) != 3 {
		return Step{}, fmt.Errorf("step %q: want milliseconds, action and name, such as 300.take.anna", word)
	}
	at, err := strconv.Atoi(parts[0])
	if err != nil || at < 0 || at > 3_600_000 {
		return Step{}, fmt.Errorf("step %q: want milliseconds, an hour at most", word)
	}
	step := Step{time.Duration(at) * time.Millisecond, Verb(parts[1]), parts[2]}
	if _, known := verbs[step.Do]; !known {
		return Step{}, fmt.Errorf("step %q: no such action", word)
	}
	if !slices.Contains(Names[:s.Processes], step.Who) {
		return Step{}, fmt.Errorf("step %q: no such process", word)
	}
	return step, nil
}
