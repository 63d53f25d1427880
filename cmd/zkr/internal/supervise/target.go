package supervise

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/health"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/runs"
)

// Target is the lock, and what differs between the verbs.
type Target struct {
	Kind      string // mutex, read, write, permit or leader
	Paths     []string
	Lock, Try func(ctx context.Context) (*Grant, error)
	Queue     func(ctx context.Context) ([]zkrecipes.Participant, error) // of the first path
	Once      *Once                                                      // nil without --once
	Job       *runs.Job                                                  // nil if nothing has to be reported of it
	Program   *Program                                                   // nil is the program of the runner
	Health    *health.Probe                                              // nil if the program is not checked
}

// Program is one of several programs that one zkr runs at a time.
type Program struct {
	Command child.Command
	Env     []string         // beside what describes the lock
	Arrived <-chan os.Signal // what is passed on to this program
	Tell    map[string]any   // what its events have beside their own keys
}

// excludes reports whether each contender ahead is an obstacle, which is not so among readers and permits.
func (t *Target) excludes() bool { return t.Kind != "read" && t.Kind != "permit" }

// steps is the level of the steps of a term. Those of a leader are news, those of a lock are the normal case.
func (t *Target) steps() slog.Level {
	if t.Kind == leader || t.Program != nil {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// word is the word for a step of a lock, or of a leader.
func (t *Target) word(ofLock, ofLeader string) string {
	if t.Kind == leader {
		return ofLeader
	}
	return ofLock
}

const leader = "leader"

// Grant is what a verb was granted: a hold, or the holds on several paths as one.
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

// Single is the grant of one hold. It passes an error on.
func Single(h *zkrecipes.Hold, err error) (*Grant, error) {
	if err != nil {
		return nil, err
	}
	return &Grant{h, []*zkrecipes.Hold{h}}, nil
}

// Several is the grant of the parts, which together are h.
func Several(h hold, parts []*zkrecipes.Hold) *Grant { return &Grant{h, parts} }
