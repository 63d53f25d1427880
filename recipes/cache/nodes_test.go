package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// The data of a node reveals something about the list of its children.
func TestNodes_Got_HintsAtTheList(t *testing.T) {
	const czxid, listed = 5, 7
	read := func(czxid, pzxid int64, kids int32) *zk.Stat {
		return &zk.Stat{Czxid: czxid, Mzxid: czxid, Pzxid: pzxid, NumChildren: kids}
	}
	for _, tt := range []struct {
		name  string
		depth int
		known bool // with a list of one child
		stat  *zk.Stat
		want  hint
		pzxid int64 // as callers see it
	}{
		{"new, without children", unlimited, false, read(czxid, czxid, 0), listEmpty, czxid},
		{"new, whose children are gone", unlimited, false, read(czxid, 9, 0), listEmpty, 9},
		{"new, with children", unlimited, false, read(czxid, listed, 1), listUnknown, czxid},
		{"new, below the depth", 0, false, read(czxid, listed, 1), nothingNew, listed},
		{"as it was", unlimited, true, read(czxid, listed, 1), nothingNew, listed},
		{"the list has changed since", unlimited, true, read(czxid, 8, 2), listChanged, listed},
		{"made again, with children", unlimited, true, read(8, 9, 1), listUnknown, 8},
		{"made again, without children", unlimited, true, read(8, 8, 0), listUnknown, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ns := newNodes("/app", tt.depth)
			if tt.known {
				ns.got(ns.root, nil, read(czxid, listed, 1))
				ns.listed(ns.root, []string{"a"}, read(czxid, listed, 1))
			}
			require.Equal(t, tt.want, ns.got(ns.root, []byte("x"), tt.stat))
			require.Equal(t, tt.pzxid, ns.entry(ns.root, "/app").Pzxid)
		})
	}
}

// A node that cannot be read has an error for each part. Its list is worth a try if nothing else is known of it.
func TestNodes_Fail_KeepsTheErrorOfEachPart(t *testing.T) {
	ns, first, second := newNodes("/", unlimited), errors.New("first"), errors.New("second")
	ofData, ofList := part{ns.root, data}, part{ns.root, list}
	require.True(t, ns.watched(ofData), "its creation")
	require.False(t, ns.watched(ofList))
	require.True(t, ns.fail(ofData, first))
	require.False(t, ns.fail(ofData, first))
	require.False(t, ns.fail(ofList, second))
	require.Equal(t, [2]int{1, 2}, [2]int{ns.known, ns.failed})
	require.ErrorIs(t, ns.entry(ns.root, "/").Err, first)
	require.True(t, ns.watched(ofList))
	ns.forgive(ofData)
	require.False(t, ns.hasFailed(ofData))
	require.ErrorIs(t, ns.entry(ns.root, "/").Err, second)
	ns.listed(ns.root, nil, &zk.Stat{})
	require.NoError(t, ns.entry(ns.root, "/").Err)
	require.Zero(t, ns.failed)
	ns.fail(ofData, first)
	ns.gone(ns.root)
	require.Equal(t, [2]int{0, 0}, [2]int{ns.known, ns.failed})
	require.Empty(t, ns.errs)
}

func TestNodes_Excess_SaysWhichBound(t *testing.T) {
	ns := newNodes("/app", unlimited)
	ns.got(ns.root, []byte("12345"), &zk.Stat{Czxid: 1, Mzxid: 1, NumChildren: 2})
	ns.listed(ns.root, []string{"a", "b"}, &zk.Stat{})
	require.NoError(t, ns.excess(&config{nodes: 3, bytes: 7}))
	require.ErrorContains(t, ns.excess(&config{nodes: 2, bytes: 7}), "3 nodes below /app exceed the limit of 2")
	require.ErrorContains(t, ns.excess(&config{nodes: 3, bytes: 6}), "7 bytes below /app exceed the limit of 6")
	require.ErrorIs(t, ns.excess(&config{}), ErrTooMuch)
}

// The counts equal those of a walk through the tree, whatever was read in whatever order. Each entry that changes or
// disappears was announced before.
func TestNodes_Random_CountsAreRight(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ns := newNodes("/app", []int{0, 1, 2, unlimited}[rng.IntN(4)])
		told, last := map[*node]bool{}, map[*node]version{ns.root: {}}
		tell := func(n *node) { told[n] = true }
		ns.changing, ns.going = tell, tell
		for i := range 200 {
			n := pick(rng, ns.root)
			stat := &zk.Stat{
				Czxid: int64(1 + rng.IntN(3)), Mzxid: int64(4 + rng.IntN(4)), Pzxid: int64(rng.IntN(8)),
				NumChildren: int32(rng.IntN(2)),
			}
			switch rng.IntN(6) {
			case 0, 1:
				ns.got(n, make([]byte, rng.IntN(5)), stat)
			case 2:
				ns.fail(part{n, rng.IntN(2)}, errors.New("refused"))
			case 3:
				ns.gone(n)
			default:
				if n.known && ns.follows(part{n, list}) {
					var names []string
					for _, j := range rng.Perm(4)[:rng.IntN(4)] {
						names = append(names, fmt.Sprint(j))
					}
					ns.listed(n, names, stat)
				}
			}
			where := fmt.Sprintf("seed %d, step %d", seed, i)
			want, now := nodes{}, map[*node]version{}
			ns.root.all(func(n *node) {
				want.size++
				want.bytes += int64(len(n.data))
				if n != ns.root {
					want.bytes += int64(len(n.name))
				}
				if n.known {
					want.known++
				}
				require.Equal(t, n.marks&failed != 0, ns.errs[n].err() != nil, where)
				for _, err := range ns.errs[n] {
					if err != nil {
						want.failed++
					}
				}
				require.Equal(t, n, ns.find(ns.pathOf(n)), where)
				now[n] = n.told()
			})
			require.Equal(t, []int64{int64(want.size), int64(want.known), int64(want.failed), want.bytes},
				[]int64{int64(ns.size), int64(ns.known), int64(ns.failed), ns.bytes}, where)
			for n, was := range last {
				require.True(t, told[n] || now[n] == was, where)
			}
			clear(told)
			last = now
		}
	}
}

// pick returns a random node.
func pick(rng *rand.Rand, root *node) (picked *node) {
	count := 0
	root.all(func(n *node) {
		if count++; rng.IntN(count) == 0 {
			picked = n
		}
	})
	return picked
}

// The names of a list share their memory, and one of them may stay while the others go.
func TestNodes_Listed_KeepsEachNameAlone(t *testing.T) {
	ns, name := newNodes("/app", unlimited), "a"
	ns.listed(ns.root, []string{name}, &zk.Stat{NumChildren: 1})
	kept := ns.root.children()[0].name
	require.Equal(t, name, kept)
	require.NotSame(t, unsafe.StringData(name), unsafe.StringData(kept))
}
