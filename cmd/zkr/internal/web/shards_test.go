package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// Shards that could not be read were read again at each look at the queues, which kept a slow ensemble busy.
func TestShards_CannotBeRead_AreReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		p := &page{queues: Queues{Shards: func(context.Context, string) (Shards, error) {
			reads++
			time.Sleep(patience)
			return Shards{}, context.DeadlineExceeded
		}}}
		view := survey.View{
			Freshness: zkrecipes.Freshness{Current: true}, Shards: map[string]uint64{"/app": 1},
		}
		began := time.Now()
		for time.Since(began) < time.Hour {
			p.lookAtShards(t.Context(), view, map[string]*pageQueue{})
			time.Sleep(pageBeat)
		}
		require.LessOrEqual(t, time.Duration(reads)*patience, time.Since(began)/20)
		require.Greater(t, reads, 30)
	})
}
