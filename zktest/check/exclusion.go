package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Exclusion checks that the total weight held never exceeded limit. The limit is 1 for a mutex, a semaphore's limit, or
// what [ReadWrite] returns for a read-write lock. A client's overlapping holds with the same token and weight count as
// one hold, because nested acquisitions share a contender. Holds without a token (0) count separately.
//
// The check sweeps over the intervals and is exact: it finds a violation if and only if there is an instant with too
// much weight. If stamps are equal, a hold that ends counts as ending before one that begins.
//
// Errors: a [*Violation].
func Exclusion(holds []Hold, limit int) error {
	holds = mergeNested(holds)
	begins := make([]step, 0, len(holds))
	ends := make([]step, 0, len(holds))
	for _, h := range holds {
		if h.From < h.To {
			begins = append(begins, step{h.From, h.Weight})
			ends = append(ends, step{h.To, h.Weight})
		}
	}
	slices.SortFunc(begins, step.compare)
	slices.SortFunc(ends, step.compare)
	held, ended := 0, 0
	for _, b := range begins {
		for ended < len(ends) && ends[ended].at <= b.at {
			held -= ends[ended].weight
			ended++
		}
		if held += b.weight; held > limit {
			return overload(holds, b.at, limit)
		}
	}
	return nil
}

// step is a change of the weight held, at a stamp.
type step struct {
	at     int64
	weight int
}

func (s step) compare(o step) int { return cmp.Compare(s.at, o.at) }

// overload determines which holds to blame for the weight held at an instant: the last one granted, and the heaviest of
// the others, or the earliest of those if several are equally heavy.
func overload(holds []Hold, at int64, limit int) error {
	var active []Hold
	total := 0
	for _, h := range holds {
		if h.From <= at && at < h.To {
			active = append(active, h)
			total += h.Weight
		}
	}
	last := 0
	for i, h := range active {
		if h.From > active[last].From {
			last = i
		}
	}
	v := &Violation{Rule: "exclusion", B: active[last]}
	if active = slices.Delete(active, last, last+1); len(active) == 0 {
		v.A = v.B // a single hold above the limit
	} else {
		v.A = slices.MinFunc(active, func(a, b Hold) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.From, b.From))
		})
	}
	v.Why = fmt.Sprintf("weight %d held at %d by %d operations, limit %d", total, at, len(active)+1, limit)
	return v
}

// ReadWrite converts the history of a read-write lock into one for [Exclusion] and [Order]: a writer weighs as much as
// the whole limit, a reader weighs 1, and the limit exceeds the weight of all readers together. If a client takes a
// read lock while it holds the write lock (a downgrade), the read lock counts from the end of the write lock, and takes
// the writer's place in the queue.
func ReadWrite(holds []Hold) (weighted []Hold, limit int) {
	limit = len(holds) + 1
	writes := writesByClient(holds)
	for _, h := range holds {
		h.Weight = limit
		if h.Read {
			h.Weight = 1
			own := writes[h.Client]
			n := sort.Search(len(own), func(i int) bool { return own[i].From > h.From })
			if n > 0 && h.From < own[n-1].To {
				h.From, h.Token = own[n-1].To, own[n-1].Token
			}
			if h.From >= h.To {
				continue // entirely inside the write lock
			}
		}
		weighted = append(weighted, h)
	}
	return weighted, limit
}

func writesByClient(holds []Hold) map[string][]Hold {
	var all []Hold
	for _, h := range holds {
		if !h.Read && h.From < h.To {
			h.Weight = 1
			all = append(all, h)
		}
	}
	writes := make(map[string][]Hold)
	for _, h := range mergeNested(all) {
		writes[h.Client] = append(writes[h.Client], h)
	}
	for _, own := range writes {
		slices.SortFunc(own, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
	}
	return writes
}
