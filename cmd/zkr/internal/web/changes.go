package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// change is a change of holders that the page has seen.
type change struct {
	At      time.Time `json:"at"`
	After   time.Time `json:"after,omitzero"` // set if it happened without a connection: between After and At
	Path    string    `json:"path,omitempty"` // empty if it does not concern a single queue
	Words   string    `json:"words"`
	Held    []string  `json:"held,omitempty"`    // the holders since then
	Lost    bool      `json:"lost,omitempty"`    // this zkr's candidate lost its term
	Started bool      `json:"started,omitempty"` // zkr was started, and did not see what came before

	number int // sequence number among all changes
}

// keptChanges bounds how many changes are kept, and keptOfPath how many of one path, so that a busy queue does not hide
// the others.
const (
	keptChanges = 500
	keptOfPath  = 40
)

// changes are the most recent changes, oldest first. A value is immutable, so that views can share it.
type changes struct {
	kept  []change
	count int // of all changes so far
}

// with returns c with more changes appended.
func (c changes) with(more ...change) changes {
	if len(more) == 0 {
		return c
	}
	all := slices.Concat(c.kept, more)
	for i := range more {
		all[len(c.kept)+i].number = c.count + 1 + i
	}
	kept, ofPath := make([]change, 0, keptChanges), map[string]int{}
	for _, one := range slices.Backward(all) {
		if ofPath[one.Path]++; ofPath[one.Path] <= keptOfPath && len(kept) < keptChanges {
			kept = append(kept, one)
		}
	}
	slices.Reverse(kept)
	return changes{kept, c.count + len(more)}
}

// since returns the changes in c that an older value lacks.
func (c changes) since(before changes) []change {
	i, _ := slices.BinarySearchFunc(c.kept, before.count+1,
		func(one change, number int) int { return one.number - number })
	return c.kept[i:]
}

// succession describes how the holders of a queue have changed; it returns "" if they have not.
func succession(before, after []*survey.Contender) string {
	left, came := without(before, after), without(after, before)
	switch {
	case len(left) == 0 && len(came) == 0:
		return ""
	case len(before) == 0:
		return "free → " + names(came)
	case len(after) == 0:
		return names(left) + " → free"
	case len(left) == 0:
		return names(came) + " joins"
	case len(came) == 0:
		return names(left) + " leaves"
	default:
		return names(left) + " → " + names(came)
	}
}

// without returns the contenders of list that others lacks.
func without(list, others []*survey.Contender) []*survey.Contender {
	return slices.DeleteFunc(slices.Clone(list), func(c *survey.Contender) bool {
		return slices.ContainsFunc(others, func(o *survey.Contender) bool { return o.Node == c.Node && o.Token == c.Token })
	})
}

// names returns the names of a few contenders.
func names(list []*survey.Contender) string { return strings.Join(few(list), ", ") }

// few returns the names of the first contenders, and how many more there are.
func few(list []*survey.Contender) (all []string) {
	const most = 3
	for _, c := range list[:min(most, len(list))] {
		all = append(all, c.Name())
	}
	if more := len(list) - most; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return all
}
