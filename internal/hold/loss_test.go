//go:build unix

package hold

import (
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestLoss_ManyHolds_AllEndBeforeTheFirstIsToldAndRemoved: notifying the tracers and removing the node takes longer
// than ending a hold. Each hold used to do all of that before the next one ended, so the last of many ended long after
// the deadline. With -v and HOLDS=30000 the test prints how much processor time it takes.
func TestLoss_ManyHolds_AllEndBeforeTheFirstIsToldAndRemoved(t *testing.T) {
	many := 300
	if n, err := strconv.Atoi(os.Getenv("HOLDS")); err == nil {
		many = n
	}
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		var ends []<-chan struct{}
		told, alive := 0, 0
		var first, last time.Duration
		tracer := &zkrecipes.Tracer{HoldEnd: func(context.Context, zkrecipes.HoldEnd) {
			mu.Lock()
			defer mu.Unlock()
			if told++; told == 1 {
				first = processorTime()
				for _, end := range ends {
					select {
					case <-end:
					default:
						alive++
					}
				}
			}
			last = processorTime()
		}}
		c := bubble.Dial(t, srv, "a", conn.WithTracer(tracer))
		holds := make([]*zkrecipes.Hold, many)
		for i := range holds {
			n := contender(t, c)
			ctx, a := Begin(t.Context(), n.Parent.Client, zkrecipes.AcquireStart{Recipe: "mutex", Path: n.Parent.Path})
			h, err := FromTurn(ctx, Turn{Node: n, Token: zkrecipes.Token(n.Czxid)}, a)
			require.NoError(t, err)
			holds[i] = h
			mu.Lock()
			ends = append(ends, h.Done())
			mu.Unlock()
		}
		time.Sleep(30 * time.Second)
		srv.Stall(zktest.Label("a"), zktest.Both)
		time.Sleep(time.Until(holds[0].ValidUntil()) - 1)
		synctest.Wait()
		begin := processorTime()
		<-ends[many-1]
		synctest.Wait()
		require.Equal(t, many, told)
		require.Zero(t, alive, "holds that had not ended when the first was told")
		t.Logf("%d holds had ended after %v, and were removed after %v of processor time", many, first-begin, last-begin)
	})
}

// processorTime returns the processor time used by the process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
