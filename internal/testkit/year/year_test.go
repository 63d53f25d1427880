package year_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var days = flag.Int("days", bubble.Rounds(14), "virtual days to live through; a year takes minutes")

const day = 24 * time.Hour

// timeout is the session timeout. It is long, because most of the work of a year is heartbeats.
const timeout = 40 * time.Second

// labels are the clients, each of which always has a session.
var labels = []string{"a", "b", "c"}

// sizes are what a client or a server may leak.
type sizes struct {
	heap                       uint64
	goroutines, watches, nodes int
}

// A day has some reconnects, an expired session, and an outage. All clients lock, count, are members of a group, and
// have a cache of it. At the end of each day, everything rests.
func TestYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(timeout/5), zktest.WithHistory(100))
		y := &year{T: t, srv: srv, random: rand.New(rand.NewPCG(1, 1))}
		for i, label := range labels {
			y.join(i, bubble.Dial(t, srv, label, conn.WithSessionTimeout(timeout)))
		}
		var all []sizes
		for n := range *days {
			y.day()
			all = append(all, y.measure())
			if n%30 == 0 {
				t.Logf("day %d: %+v", n, all[n])
			}
		}
		y.flat(all)
		t.Logf(
			"%d days: %d sections and additions, %d sessions ended, %d reconnects; %d kB, then %d kB; %d goroutines, "+
				"%d watches, %d nodes",
			len(all), y.done, y.ended, y.cuts, all[0].heap/1000, all[len(all)-1].heap/1000, all[len(all)-1].goroutines,
			all[len(all)-1].watches, all[len(all)-1].nodes)
	})
}

type year struct {
	*testing.T
	srv               *zktest.Server
	random            *rand.Rand
	users             []*user
	done, ended, cuts int
}

// user is what a client does.
type user struct {
	mutex   *mutex.Mutex
	counter *value.Counter
	cache   *cache.Cache
	sum     int64
}

func (y *year) join(number int, c *conn.Client) {
	m, err := mutex.New(c, "/year/lock")
	require.NoError(y, err)
	n, err := value.NewCounter(c, "/year/counter", value.AtomicLong())
	require.NoError(y, err)
	g, err := group.New(c, "/year/group")
	require.NoError(y, err)
	_, err = g.Join(y.Context(), fmt.Sprint(number), []byte("data"))
	require.NoError(y, err)
	tree, err := cache.Tree(c, "/year/group")
	require.NoError(y, err)
	y.users = append(y.users, &user{mutex: m, counter: n, cache: tree})
}

// day simulates a day.
func (y *year) day() {
	end := time.Now().Add(day)
	faults := []func(zktest.Who, string){
		func(who zktest.Who, _ string) { y.srv.Cut(who); y.cuts++ },
		func(who zktest.Who, _ string) { y.srv.Cut(who); y.cuts++ },
		func(zktest.Who, string) { y.srv.Restart(); y.cuts += len(labels) },
		func(who zktest.Who, _ string) {
			y.srv.Stall(who, zktest.Both)
			time.Sleep(2 * timeout)
			y.srv.Heal(who)
			y.ended++
		},
		func(_ zktest.Who, label string) { y.srv.Expire(y.srv.SessionOf(label)); y.ended++ },
		func(zktest.Who, string) {
			y.srv.Down()
			time.Sleep(timeout / 2)
			y.srv.Up()
			y.cuts += len(labels)
		},
	}
	y.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, fault := range faults {
		time.Sleep(day / time.Duration(len(faults)) / 2)
		label := labels[y.random.IntN(len(labels))]
		fault(zktest.Label(label), label)
		y.work()
	}
	time.Sleep(time.Until(end))
	for _, u := range y.users {
		require.True(y, u.cache.View().Current)
		require.Len(y, u.cache.List("/year/group"), len(labels))
	}
}

// work makes each client lock and count once, while it may still suffer from a fault.
func (y *year) work() {
	for _, u := range y.users {
		for {
			err := u.mutex.Do(y.Context(), func(ctx context.Context, _ *zkrecipes.Hold) error {
				sum, err := u.counter.Add(ctx, 1)
				if err == nil {
					require.Greater(y, sum, u.sum)
					u.sum = sum
				}
				return err
			})
			if err == nil {
				y.done++
				break
			}
			require.NoError(y, y.Context().Err())
			time.Sleep(time.Second)
		}
	}
}

// measure takes measurements while everything rests.
func (y *year) measure() sizes {
	synctest.Wait()
	runtime.GC()
	runtime.GC() // left by finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	watches, _ := y.srv.Watches()
	return sizes{m.HeapAlloc, bubble.Goroutines(), watches, len(y.srv.Tree("/"))}
}

// flat requires that no size grows. The first fifth is excluded, because some things are created only once.
func (y *year) flat(all []sizes) {
	first := max(len(all)/5, 1)
	most := func(list []sizes, of func(sizes) int) int {
		return of(slices.MaxFunc(list, func(a, b sizes) int { return of(a) - of(b) }))
	}
	for name, of := range map[string]func(sizes) int{
		"goroutines": func(s sizes) int { return s.goroutines },
		"watches":    func(s sizes) int { return s.watches },
		"nodes":      func(s sizes) int { return s.nodes },
	} {
		require.LessOrEqual(y, of(all[len(all)-1]), most(all[:first], of)+2, name)
	}
	heap := func(s sizes) int { return int(s.heap) }
	require.LessOrEqual(y, heap(all[len(all)-1]), most(all[:first], heap)*5/4+500_000, "bytes of the heap: %v", all)
}
