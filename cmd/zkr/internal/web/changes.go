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
	At    time.Time `json:"at"`
	After time.Time `json:"after,omitzero"` // if it happened without a connection: between the two
	Path  string    `json:"path"`
	Words string    `json:"words"`
	Lost  bool      `json:"lost,omitempty"` // a loss of the candidate of this zkr
}

// keptChanges bounds how many changes are kept for browsers that come later.
const keptChanges = 200

// changes are the newest ones, the oldest of them first. A value is never changed, so that views can share it.
type changes struct {
	kept  []change
	count int // of all that there were
}

// with is c and more.
func (c changes) with(more ...change) changes {
	all := slices.Concat(c.kept, more)
	return changes{all[max(0, len(all)-keptChanges):], c.count + len(more)}
}

// since are those of c that are not in an older value.
func (c changes) since(before changes) []change {
	fresh := min(c.count-before.count, len(c.kept))
	return c.kept[len(c.kept)-fresh:]
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
func names(list []*survey.Contender) string {
	const few = 3
	var all []string
	for _, c := range list[:min(few, len(list))] {
		all = append(all, c.Name())
	}
	if more := len(list) - few; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}
