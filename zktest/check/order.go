package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zkrecipes/zkrecipes"
)

// Order checks that grants followed the order of the queue, given the same limit as for [Exclusion]:
//
//   - Tokens grow: an acquisition requested after another hold was granted has a larger token, and no two grants
//     share one (except a client's nested acquisitions).
//   - First come, first served: of two holds that exclude each other, the one with the smaller token was granted first.
//     If a hold was lost, its grant is allowed to come late, because its owner may have learned of the grant after the
//     loss.
//
// Order skips holds without a token, that is, those with token zero.
//
// Errors: a [*Violation].
func Order(holds []Hold, limit int) error {
	queue := slices.DeleteFunc(mergeNested(holds), func(h Hold) bool { return h.Token == 0 })
	// Equal stamps do not reveal the order of two grants, so they are sorted by token.
	slices.SortFunc(queue, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Token, b.Token))
	})
	if err := uniqueTokens(queue); err != nil {
		return err
	}
	if err := tokensGrow(queue); err != nil {
		return err
	}
	return firstComeFirstServed(queue, limit)
}

func uniqueTokens(queue []Hold) error {
	first := make(map[zkrecipes.Token]Hold, len(queue))
	for _, h := range queue {
		if a, taken := first[h.Token]; !taken {
			first[h.Token] = h
		} else if !sameContender(a, h) || a.Weight == h.Weight {
			return &Violation{Rule: "order", A: a, B: h, Why: "two grants with the same token"}
		}
	}
	return nil
}

// tokensGrow walks through the calls in order, and keeps track of the largest token granted before each.
func tokensGrow(queue []Hold) error {
	calls := slices.Clone(queue)
	slices.SortFunc(calls, func(a, b Hold) int { return cmp.Compare(a.Called, b.Called) })
	var largest Hold
	next := 0
	for _, c := range calls {
		for next < len(queue) && queue[next].From < c.Called {
			if queue[next].Token > largest.Token {
				largest = queue[next]
			}
			next++
		}
		if c.Token < largest.Token || (c.Token == largest.Token && !sameContender(c, largest)) {
			return &Violation{Rule: "order", A: largest, B: c, Why: fmt.Sprintf(
				"called at %d, after the first had been granted, but has the smaller token", c.Called)}
		}
	}
	return nil
}

// firstComeFirstServed compares each hold with the largest token granted before it for each weight, since there are few
// weights.
func firstComeFirstServed(queue []Hold, limit int) error {
	largest := make(map[int]Hold)
	for _, h := range queue {
		for weight, before := range largest {
			if weight+h.Weight > limit && before.Token > h.Token && !h.Lost {
				return &Violation{Rule: "order", A: before, B: h, Why: "granted after a contender that was behind it in the queue"}
			}
		}
		if before, ok := largest[h.Weight]; !ok || h.Token > before.Token {
			largest[h.Weight] = h
		}
	}
	return nil
}

func sameContender(a, b Hold) bool { return a.Token == b.Token && a.Client == b.Client && a.Token != 0 }

// nested reports whether b, which is not the earlier one, was taken inside a, on the same contender.
func nested(a, b Hold) bool {
	return sameContender(a, b) && a.Weight == b.Weight && b.From < a.To
}

// mergeNested returns the holds, merging those of one contender that overlap. It does not modify its argument.
func mergeNested(holds []Hold) []Hold {
	sorted := slices.Clone(holds)
	if !sharedTokens(holds) {
		return sorted // the common case, and several times as fast
	}
	slices.SortFunc(sorted, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Client, b.Client),
			cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.From, b.From))
	})
	merged := sorted[:0]
	for _, h := range sorted {
		if n := len(merged); n > 0 && nested(merged[n-1], h) {
			merged[n-1].To = max(merged[n-1].To, h.To)
			merged[n-1].Lost = merged[n-1].Lost || h.Lost
			continue
		}
		merged = append(merged, h)
	}
	return merged
}

func sharedTokens(holds []Hold) bool {
	tokens := make([]zkrecipes.Token, 0, len(holds))
	for _, h := range holds {
		if h.Token != 0 {
			tokens = append(tokens, h.Token)
		}
	}
	slices.Sort(tokens)
	for i := range len(tokens) - 1 {
		if tokens[i] == tokens[i+1] {
			return true
		}
	}
	return false
}
