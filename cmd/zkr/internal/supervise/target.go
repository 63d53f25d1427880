package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/health"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/runs"
)

// Target is the lock to acquire, and whatever else differs between verbs.
type Target struct {
	Kind      string // mutex, read, write, permit, leader or shard
	Paths     []string
	Lock, Try func(ctx context.Context) (*Grant, error)
	Queues    []Queue       // of each path
	Once      *Once         // nil without --once
	Job       *runs.Job     // nil if there is nothing to report
	Program   *Program      // nil means the program of the runner
	Health    *health.Probe // nil if the program is not checked

	// Blocks reports whether contenders ahead that will not leave are certain to keep the lock from this one. nil means
	// that a single one is.
	Blocks func(ahead []zkrecipes.Participant) bool
}

// Queue lists the contenders for a lock, in order.
type Queue func(ctx context.Context) ([]zkrecipes.Participant, error)

// Program is one of several programs that a zkr runs concurrently.
type Program struct {
	Command child.Command
	Env     []string         // in addition to the variables that describe the lock
	Arrived <-chan os.Signal // signals to pass on to this program
	Tell    map[string]any   // additional keys of its events
}

// blocked reports whether the wait would never end because of contenders ahead that will not leave.
func (t *Target) blocked(ahead []zkrecipes.Participant) bool {
	return len(ahead) > 0 && (t.Blocks == nil || t.Blocks(ahead))
}

// behind reports whether err shows that a wait timed out while others had the lock. The first in the queue of a
// semaphore waits too, for permits that others have or that a limit of 0 withholds.
func (t *Target) behind(err error) bool {
	var waited *zkrecipes.WaitError
	return errors.As(err, &waited) && (waited.Position > 1 || waited.Position == 1 && t.Kind == permit)
}

// steps returns the log level for the steps of a term. Those of a leader are newsworthy, those of a lock are routine.
func (t *Target) steps() slog.Level {
	if t.Kind == leader || t.Program != nil {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// word returns the word for a step, depending on whether it concerns a lock or a leader.
func (t *Target) word(ofLock, ofLeader string) string {
	if t.Kind == leader {
		return ofLeader
	}
	return ofLock
}

// Kinds of targets that differ from the others.
const (
	leader = "leader"
	permit = "permit"
)

// Grant is what a verb was granted: a hold, or the holds on several paths combined.
type Grant struct {
	hold
	parts []*zkrecipes.Hold // in the order of the paths
}

type hold interface {
	Err() error
	Done() <-chan struct{}
	ValidUntil() time.Time
	Release(ctx context.Context) error
}

// Single returns the grant of a single hold. It passes on an error.
func Single(h *zkrecipes.Hold, err error) (*Grant, error) {
	if err != nil {
		return nil, err
	}
	return &Grant{h, []*zkrecipes.Hold{h}}, nil
}

// Several returns the grant of the parts, which h combines.
func Several(h hold, parts []*zkrecipes.Hold) *Grant { return &Grant{h, parts} }
