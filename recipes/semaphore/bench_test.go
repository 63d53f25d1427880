package semaphore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func BenchmarkSemaphore(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d/limit=4/server=zktest", clients), func(b *testing.B) {
			srv := zktest.Run(b)
			semaphores := make([]*semaphore.Semaphore, clients)
			for i := range semaphores {
				c, err := conn.Dial(b.Context(), srv.Addr(), bubble.Silent)
				require.NoError(b, err)
				b.Cleanup(func() { _ = c.Close() }) // never fails
				semaphores[i], err = semaphore.New(c, "/semaphore", 4)
				require.NoError(b, err)
			}
			turns := make(chan int, b.N)
			for turn := range b.N {
				turns <- turn
			}
			close(turns)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, s := range semaphores {
				wg.Go(func() {
					for range turns {
						h, err := s.Acquire(b.Context(), 1)
						if err == nil {
							err = h.Release(b.Context())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
