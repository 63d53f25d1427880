package election_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// BenchmarkHandOver measures one resignation and the election that follows, among candidates with a session each.
func BenchmarkHandOver(b *testing.B) {
	for _, candidates := range []int{2, 8} {
		b.Run(fmt.Sprintf("candidates=%d/server=zktest", candidates), func(b *testing.B) {
			srv := zktest.Run(b)
			ctx, cancel := context.WithCancel(b.Context())
			terms := make(chan *election.Term)
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			for range candidates {
				c, err := conn.Dial(b.Context(), srv.Addr(), bubble.Silent)
				require.NoError(b, err)
				b.Cleanup(func() { _ = c.Close() }) // never fails
				e, err := election.New(c, "/leader")
				require.NoError(b, err)
				wg.Go(func() {
					for {
						t, err := e.Campaign(ctx)
						if err != nil {
							return // the end
						}
						select {
						case terms <- t:
						case <-ctx.Done():
							_ = t.Release(b.Context()) // the end
							return
						}
					}
				})
			}
			leader := <-terms
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, leader.Release(ctx))
				leader = <-terms
			}
			require.NoError(b, leader.Release(ctx))
		})
	}
}
