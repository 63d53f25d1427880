package faults_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// deviations lists how servers deviate from ZooKeeper, as docs/compatibility.md describes.
var deviations = []struct {
	name    string
	option  zktest.Option
	refuse  []string // the recipes and writers that refuse to work
	refusal error
	forgets bool // sessions do not outlive their connection
}{
	{name: "no containers", option: zktest.WithoutContainers()},
	{name: "no containers, and it hangs up", option: zktest.WithDeviations(zktest.HangsUpOnContainers)},
	{name: "no resumption", option: zktest.WithDeviations(zktest.NoResumption), forgets: true},
	{
		name: "neither, as ClickHouse Keeper before 2026", forgets: true,
		option: zktest.WithDeviations(zktest.HangsUpOnContainers, zktest.NoResumption),
	},
	{
		name: "no zxid", option: zktest.WithDeviations(zktest.NoZxid),
		refuse: []string{
			"mutex", "write", "read", "semaphore-1-of-1", "semaphore-2-of-3", "latch", "standback", "selector", "mutex-kazoo",
			"semaphore-kazoo", "counter", "double barrier", "shards", "protected",
		},
		refusal: zkrecipes.ErrUnsupportedServer,
	},
	{name: "late events", option: zktest.WithDeviations(zktest.LateEvents)},
	{name: "local sync", option: zktest.WithDeviations(zktest.LocalSync)},
	{
		name: "no transactions", option: zktest.WithDeviations(zktest.NoMulti),
		refuse: []string{
			"semaphore-1-of-1", "semaphore-2-of-3", "semaphore-kazoo", // these acquire their leases in a transaction
			"value", "counter", "node", "group", "double barrier", "countdown", "shards",
		},
		refusal: zkrecipes.CodeUnimplemented,
	},
}

// Under each deviation every recipe works as it does with ZooKeeper, or refuses with an error that explains why. None
// grants what it must not.
func TestDeviations_EveryRecipeWorksOrRefuses(t *testing.T) {
	for _, d := range deviations {
		t.Run(d.name, func(t *testing.T) {
			each(t, func(w *world) {
				first := w.take("a")
				first.await(5 * time.Second)
				if slices.Contains(d.refuse, w.name) {
					require.ErrorIs(w, first.requireFailed(), d.refusal)
					return
				}
				first.requireGranted(0)
				second := w.rivals("b")
				second.requireWaiting()
				third := w.take("c")
				time.Sleep(time.Second)
				second.requireWaiting()
				first.release()
				second.requireGranted(time.Second)
				second.release()
				third.requireGranted(time.Second)
				third.release()
				if errors.Is(d.refusal, zkrecipes.CodeUnimplemented) {
					return // a resumed session is proven by a transaction
				}

				// A holder and a waiter each lose their connection.
				holder := w.take("a")
				holder.requireGranted(time.Second)
				waiter := w.rivals("b")
				time.Sleep(time.Second)
				w.srv.Cut(zktest.Everyone)
				time.Sleep(time.Second)
				if !d.forgets {
					holder.requireHeld()
					waiter.requireWaiting()
					holder.release()
				} else {
					require.ErrorIs(w, holder.hold.Err(), zkrecipes.ErrLost)
				}
				waiter.requireGranted(2 * timeout) // by then the earlier sessions have expired
				waiter.release()
			}, d.option)
		})
	}
}
