package mutex_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Holds and nested holds are inspected in every way while clients come and go.
func TestLock_LookedAtWhileClientsComeAndGo(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Run(t, zktest.InMemory())
			random := rand.New(rand.NewPCG(seed, 9))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 3 {
				who := fmt.Sprint("c", i)
				var opts []conn.Option
				if i == 0 {
					opts = append(opts, conn.WithAuth("digest", "a:b"))
				}
				c := bubble.Dial(t, srv, who, opts...)
				for k := range 3 {
					mo := []mutex.Option{mutex.WithReentrance()}
					if k == 1 {
						mo = append(mo, mutex.WithLossOnSuspend())
					}
					m, err := mutex.New(c, fmt.Sprint("/l/", k), mo...)
					require.NoError(t, err)
					r := rand.New(rand.NewPCG(seed, uint64(i*10+k)))
					wg.Go(func() {
						for ctx.Err() == nil {
							h, err := m.Lock(ctx)
							if err != nil {
								continue
							}
							in, err := m.Lock(h.Context())
							var lookers sync.WaitGroup
							for range 3 {
								lookers.Go(func() {
									for h.Err() == nil && ctx.Err() == nil {
										select {
										case <-time.After(time.Until(h.ValidUntil())):
										case <-h.Context().Done():
										}
										_ = h.Context().Value(1)
										if err == nil {
											_ = in.Err()
											x, c := context.WithCancel(in.Context())
											_ = context.Cause(x)
											c()
										}
									}
								})
							}
							d := time.Duration(r.IntN(12000)) * time.Millisecond
							select {
							case <-time.After(d):
							case <-h.Done():
							}
							if err == nil {
								_ = in.Release(ctx)
							}
							_ = h.Release(ctx)
							lookers.Wait()
						}
					})
				}
			}
			for ctx.Err() == nil {
				time.Sleep(time.Duration(random.IntN(15000)) * time.Millisecond)
				name := fmt.Sprint("c", random.IntN(3))
				who := zktest.Label(name)
				switch random.IntN(6) {
				case 0:
					srv.Cut(who)
				case 1:
					srv.Stall(who, zktest.Both)
					time.Sleep(time.Duration(random.IntN(12000)) * time.Millisecond)
					srv.Heal(who)
				case 2:
					srv.Stall(who, zktest.FromServer)
					time.Sleep(time.Duration(random.IntN(12000)) * time.Millisecond)
					srv.Heal(who)
				case 3:
					srv.Expire(srv.SessionOf(name))
				case 4:
					srv.Restart()
				case 5:
					srv.Refuse(who)
					srv.Cut(who)
					time.Sleep(time.Duration(random.IntN(20000)) * time.Millisecond)
					srv.Accept(who)
				}
			}
			wg.Wait()
			time.Sleep(time.Minute)
			for k := range 3 {
				bubble.Clean(t, srv, fmt.Sprint("/l/", k))
			}
		})
	}
}
