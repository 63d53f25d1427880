package curator_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// A Curator candidate can be appointed: our candidates ahead of it stand back. Curator itself never stands back: an
// appointment of a candidate behind it fails when its context ends, and the leader keeps leading.
func TestAppoint(t *testing.T) {
	s := open(t)
	for _, tt := range []struct {
		name   string
		layout election.Layout
	}{{"latch", election.Latch}, {"selector", election.Selector}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			path := "/appoint/" + tt.name
			k := kind{name: tt.name, arg: "-"}
			var ours [2]*election.Election
			for i, c := range s.clients {
				var err error
				ours[i], err = election.New(c, path, election.WithLayout(tt.layout), election.WithStandBack())
				must(t, err)
			}
			stand := func(e *election.Election) side {
				return side{take: func(ctx context.Context) (*zkrecipes.Hold, error) {
					term, err := e.Campaign(ctx)
					if err != nil {
						return nil, err
					}
					return term.Hold, nil
				}}
			}
			names := func(n int) (names []string, queue []zkrecipes.Participant) {
				poll(t, "all stand", func() bool {
					var err error
					queue, err = ours[0].Queue(ctx)
					must(t, err)
					return len(queue) == n
				})
				for _, c := range queue {
					names = append(names, c.Name)
				}
				return names, queue
			}
			term, err := ours[0].Campaign(ctx)
			must(t, err)
			ahead := take(ctx, stand(ours[1]))
			names(2)
			java := s.begin(ctx, k, "java", path)
			_, queue := names(3)
			must(t, ours[0].Appoint(ctx, term, queue[2]))
			notYet(t, ahead)
			notYet(t, java)
			if now, _ := names(3); now[1] != "java" || now[2] != "go-1" {
				t.Fatalf("the queue is %v: want java ahead of go-1", now)
			}

			soon, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			_, queue = names(3)
			if err := ours[0].Appoint(soon, term, queue[2]); err == nil {
				t.Error("Curator has stood back")
			} else {
				t.Log(err)
			}
			must(t, term.Err())
			must(t, term.Release(ctx))
			must(t, (<-java).err)
			notYet(t, ahead)
			_, err = s.peer.Ask(ctx, "give", "java")
			must(t, err)
			last := <-ahead
			must(t, last.err)
			must(t, last.hold.Release(ctx))
		})
	}
}
