package supervise

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// watchHealth checks the program until quiet is called. sick reports once that the program is unhealthy. When quiet
// returns, no check is running.
func (s *supervision) watchHealth() (sick <-chan error, quiet func()) {
	if s.target.Health == nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan error, 1)
	var checking sync.WaitGroup
	checking.Go(func() {
		if err := s.target.Health.Watch(ctx); err != nil {
			told <- err
		}
	})
	return told, func() {
		cancel()
		checking.Wait()
	}
}

// unhealthy stops a program whose check fails, so that another candidate can lead. Since the program may hang, it is
// eventually killed.
func (s *supervision) unhealthy(now time.Time, err error) {
	if !s.ended.IsZero() || s.leaving || !s.stopAt.IsZero() || !s.killed.IsZero() {
		return // it has ended, or is being stopped for another reason
	}
	s.end.Unhealthy, s.end.Code = true, exit.Failure
	s.stop("the check fails: "+err.Error(), now.Add(cmp.Or(s.options.StopTimeout, s.deadline.grace)))
}
