package rwlock_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// BenchmarkRWLock measures one section. One in ten writes.
func BenchmarkRWLock(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d/server=zktest", clients), func(b *testing.B) {
			srv := zktest.Run(b)
			locks := make([]*rwlock.RWLock, clients)
			for i := range locks {
				c, err := conn.Dial(b.Context(), srv.Addr(), bubble.Silent)
				require.NoError(b, err)
				b.Cleanup(func() { _ = c.Close() }) // never fails
				locks[i], err = rwlock.New(c, "/lock")
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
			for _, l := range locks {
				wg.Go(func() {
					for turn := range turns {
						acquire := l.RLock
						if turn%10 == 0 {
							acquire = l.Lock
						}
						h, err := acquire(b.Context())
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
