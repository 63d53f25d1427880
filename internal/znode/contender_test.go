package znode

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/layout"
)

func TestArrange_OrdersAsCurator(t *testing.T) {
	queue, foreign := arrange([]string{
		"_c_b-lock-0000000010", "0", "_c_a-lock-0000000009", "_c_c-lock--2147483648", "lock-0000000008", "_c_x",
	}, []string{Lock})
	var names []string
	for _, c := range queue {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"_c_c-lock--2147483648", "lock-0000000008", "_c_a-lock-0000000009", "_c_b-lock-0000000010"},
		names)
	require.Equal(t, []string{"0", "_c_x"}, foreign)
}

// TestArrangeAhead: the contenders ahead are in order and the waiter's own follows, as if everything had been sorted.
// The others are all still present. A contender that is missing has no index.
func TestArrangeAhead(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		sorted := make([]Contender, random.IntN(8))
		for i := range sorted {
			sorted[i] = Contender{Name: string(rune('a' + i)), Kind: Lock, Key: string(rune('a' + i))}
		}
		queue := slices.Clone(sorted)
		random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		missing := Contender{Name: "A", Kind: Lock, Key: "A"}
		if random.IntN(2) == 0 {
			missing = Contender{Name: "z", Kind: Lock, Key: "z"}
		}
		require.Equal(t, -1, arrangeAhead(slices.Clone(queue), missing), "%v", queue)
		for want, c := range sorted {
			arranged := slices.Clone(queue)
			require.Equal(t, want, arrangeAhead(arranged, c), "%v of %v", c, queue)
			require.Equal(t, sorted[:want+1], arranged[:want+1], "%v of %v", c, queue)
			require.ElementsMatch(t, sorted, arranged)
		}
	}
}

// TestIsKazoo: a queue that has one of these kinds is shared with kazoo.
func TestIsKazoo(t *testing.T) {
	for _, kind := range []string{KazooLock, KazooRead, KazooLease} {
		require.True(t, isKazoo(kind), kind)
	}
	for _, kind := range []string{Lock, Latch, Read, Write, Lease} {
		require.False(t, isKazoo(kind), kind)
	}
}

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"0000000000", "0000000007", "2147483646"} {
		require.NoError(t, checkSequence(Contender{Key: key}), key)
	}
	for _, key := range []string{"2147483647", "-2147483648", "-000000001", "", "12", "00000000x1", "9999999999"} {
		require.ErrorIs(t, checkSequence(Contender{Key: key}), zkrecipes.ErrSequenceExhausted, key)
	}
}

// FuzzParse: whatever names peers give their nodes, nothing panics, and the order is unique.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "lock-", "_c_x", "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-0000000007", "__READ____WRIT__1",
	} {
		f.Add(s, "lock-0000000001")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, kinds := range [][]string{{Lock}, {Read, Write}} {
			queue, foreign := arrange([]string{a, b}, kinds)
			require.Len(t, append(queue, make([]Contender, len(foreign))...), 2)
			for _, c := range queue {
				require.True(t, strings.HasSuffix(c.Name, c.Key))
			}
			if len(queue) == 2 {
				require.Equal(t, layout.Compare(queue[0], queue[1]), -layout.Compare(queue[1], queue[0]))
				require.LessOrEqual(t, layout.Compare(queue[0], queue[1]), 0)
			}
		}
	})
}

// TestRules_EachWaiterIsWoken: contenders leave in any order, whether granted or not. A grant never conflicts with
// another, and a waiter whose predecessor has left is granted.
func TestRules_EachWaiterIsWoken(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		queue, rules := randomQueue(random)
		watched := map[string]string{} // waiter → its predecessor
		look := func(name string) {
			me := slices.IndexFunc(queue, func(c Contender) bool { return c.Name == name })
			predecessor, granted := rules[name](queue, me)
			if granted {
				delete(watched, name)
			} else {
				require.Less(t, predecessor, me)
				watched[name] = queue[predecessor].Name
			}
		}
		for _, c := range queue {
			look(c.Name)
		}
		for len(queue) > 0 {
			requireCompatible(t, queue, watched)
			gone := random.IntN(len(queue))
			name := queue[gone].Name
			queue = slices.Delete(slices.Clone(queue), gone, gone+1)
			delete(watched, name)
			for _, c := range queue {
				if watched[c.Name] == name {
					look(c.Name)
				}
			}
		}
	}
}

func randomQueue(random *rand.Rand) ([]Contender, map[string]Rule) {
	rules := map[string]Rule{}
	var queue []Contender
	for i := range 1 + random.IntN(12) {
		c := Contender{Name: string(rune('a' + i)), Kind: Write, Key: string(rune('a' + i))}
		rules[c.Name] = First
		if random.IntN(2) == 0 {
			c.Kind = Read
			rules[c.Name] = NoWriterAhead
		}
		queue = append(queue, c)
	}
	return queue, rules
}

// requireCompatible checks that the holders are a single writer or only readers, and that the head always holds.
func requireCompatible(t *testing.T, queue []Contender, watched map[string]string) {
	t.Helper()
	var readers, writers int
	for _, c := range queue {
		if _, waits := watched[c.Name]; waits {
			continue
		}
		if c.Kind == Write {
			writers++
		} else {
			readers++
		}
	}
	require.False(t, writers > 1 || writers == 1 && readers > 0, "%d writers and %d readers hold", writers, readers)
	require.NotContains(t, watched, queue[0].Name, "the head does not wait")
}
