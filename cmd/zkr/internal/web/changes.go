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
	After   time.Time `json:"after,omitzero"` // if it happened without a connection: between the two
	Path    string    `json:"path,omitempty"` // none if it is not of one queue
	Words   string    `json:"words"`
	Held    []string  `json:"held,omitempty"`    // who holds since then
	Lost    bool      `json:"lost,omitempty"`    // a loss of the candidate of this zkr
	Started bool      `json:"started,omitempty"` // zkr was started: what was before, and its end, was not seen

	number int // of all that there were
}

// keptChanges bounds how many changes are kept, and keptOfPath how many of one path: a busy queue does not hide the others.
const (
	keptChanges = 500
	keptOfPath  = 40
)

// changes are the newest ones, the oldest of them first. A value is never changed, so that views can share it.
type changes struct {
	kept  []change
	count int // of all that there were
}

// with is c and more.
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

// since are those of c that are not in an older value.
func (c changes) since(before changes) []change {
	i, _ := slices.BinarySearchFunc(c.kept, before.count+1, func(one change, number int) int { return one.number - number })
	return c.kept[i:]
}

// succession says in words how the holders of a queue have changed; nothing if they have not.
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

// without lists those of list that others do not have.
func without(list, others []*survey.Contender) []*survey.Contender {
	return slices.DeleteFunc(slices.Clone(list), func(c *survey.Contender) bool {
		return slices.ContainsFunc(others, func(o *survey.Contender) bool { return o.Node == c.Node && o.Token == c.Token })
	})
}

// names are the names of a few contenders.
func names(list []*survey.Contender) string { return strings.Join(few(list), ", ") }

// few are the names of the first contenders, and how many there are more.
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
