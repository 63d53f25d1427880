package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// Shards is a set of shards below one path that members divide among themselves. It is safe for concurrent use. Only
// [Shards.Run] makes the process a member; [Shards.Owners] and [Shards.Watch] don't.
type Shards struct {
	config
	client   *conn.Client
	path     string
	log      *slog.Logger
	group    *group.Group
	election *election.Election
	plan     *value.Value[plan]
	names    *value.Value[[]string]

	mu     sync.Mutex
	member *member // while Run runs
}

// Shard is a shard that this process owns: a hold on the shard's lock, which no other member has at the same time. Its
// Txn method writes to ZooKeeper only while the shard is held, and its token is larger than those of all previous
// owners.
type Shard struct {
	*zkrecipes.Hold
	// Name is the shard's name.
	Name string
	// Generation identifies the latest plan that this member had read when the function was called. It is the ID of the
	// transaction that wrote the plan, so it grows with each plan.
	Generation int64
}

// ErrMoved is the cause with which a function's context is canceled when the plan no longer assigns the function's
// shard to this member.
var ErrMoved = errors.New("the shard is moving to another member")

// Option configures [New].
type Option func(*config) error

type config struct {
	id          string
	weight      int
	pins        map[string]string
	strategy    Strategy
	quiet, most time.Duration
	returnGrace time.Duration
	leaveLimit  time.Duration // 0: does not leave
	drainLimit  time.Duration // 0: no limit
	giveUp      int
	tracerName  string
	tracers     []*Tracer
}

// WithID sets the member's ID, which is also the name of its node; the default is the client's identity with a random
// suffix. A process that restarts with the same ID gets the same shards; Run waits until its predecessor's session
// ends. Don't give two processes the same ID: the second one would wait for the first, and log that it is waiting.
func WithID(id string) Option {
	return func(c *config) error {
		c.id = id
		return paths.ValidateName("id", id)
	}
}

// WithWeight sets the member's share relative to other members; the default is 1, the maximum 1000. For example, a
// member of weight 2 gets twice as many shards as one of weight 1.
func WithWeight(weight int) Option {
	return func(c *config) error {
		if weight < 1 || weight > maxWeight {
			return fmt.Errorf("weight %d: want 1 to %d", weight, maxWeight)
		}
		c.weight = weight
		return nil
	}
}

const maxWeight = 1000

// WithPins assigns particular shards to particular members while those members are present. The keys are shard names
// and the values are member IDs. By default there are no pins. Only the leader's pins count, so give all members the
// same ones.
func WithPins(member map[string]string) Option {
	return func(c *config) error {
		c.pins = maps.Clone(member)
		return nil
	}
}

// WithStrategy sets how shards are divided among members; the default is [Sticky]. Only the leader's strategy counts,
// so give all members the same one. A strategy that keeps fewer shards in place than Sticky does will interrupt more
// work.
func WithStrategy(s Strategy) Option {
	return func(c *config) error {
		if s == nil {
			return errors.New("WithStrategy: the function is nil")
		}
		c.strategy = s
		return nil
	}
}

// WithSettle sets how long the members must be stable before the leader moves shards merely for balance, and the
// longest that the leader waits for this; the defaults are 1 second and 10 seconds. As a result, members that are
// started together cause only one plan. The quiet duration is measured from the last change to the members or from the
// leader's last plan, whichever is later; the most duration, from the time a better plan is known. If a shard is not
// being served, the leader doesn't wait. The exception is when no member has a shard and a member has joined within the
// quiet duration, because more may follow.
func WithSettle(quiet, most time.Duration) Option {
	return func(c *config) error {
		if quiet < 0 || most < quiet {
			return fmt.Errorf("settle %v, at most %v: want 0 or more, and at most as long as the second", quiet, most)
		}
		c.quiet, c.most = quiet, most
		return nil
	}
}

// WithReturnGrace announces, when Run's context is done, that this member is restarting, and reserves its shards for it
// for the duration d; the default is 0, which lets others have the shards immediately, and the maximum is an hour. Use
// it for rolling restarts, so that they move no shards; it requires [WithID]. The duration starts when the member's
// node is gone, and starts over if the leader changes. Run waits up to a second after ctx is done until the plan has
// the announcement, without which the shards would move. Until the member returns, its shards are not served. After
// [Shards.Leave] or a crash, shards move immediately, even with WithReturnGrace.
func WithReturnGrace(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 || d > maxReturnGrace {
			return fmt.Errorf("return grace %v: want 0 to %v", d, maxReturnGrace)
		}
		c.returnGrace = d
		return nil
	}
}

const maxReturnGrace = time.Hour

// WithLeave makes the member leave gracefully when Run's context is done, as [Shards.Leave] does: its shards are handed
// over one after another, for at most the duration d, while the other functions continue. Functions whose shards have
// not been handed over by then stop immediately, as all functions do by default. Because functions can outlive Run's
// context with WithLeave, their own contexts do not inherit its deadline. WithLeave cannot be combined with
// [WithReturnGrace], which keeps the shards.
func WithLeave(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("leave within %v: want more than 0", d)
		}
		c.leaveLimit = d
		return nil
	}
}

// WithDrainLimit limits how long a function may keep running after its context is done. By default there is no limit:
// the lock is released only when the function returns. With a limit, it is released when the limit expires, even if the
// function is still running. From then on the function no longer holds the lock. Its Txn and fenced writes are
// rejected, but anything else it does may overlap with the next owner's work.
func WithDrainLimit(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("drain limit %v: want more than 0", d)
		}
		c.drainLimit = d
		return nil
	}
}

// WithGiveUp sets how many consecutive failures make a member give a shard away, as [Shards.Run] describes; the default
// is 5.
func WithGiveUp(failures int) Option {
	return func(c *config) error {
		if failures < 1 {
			return fmt.Errorf("give up after %d failures: want 1 or more", failures)
		}
		c.giveUp = failures
		return nil
	}
}

// WithTracerName sets the name by which tracers, and therefore metrics and traces, know the shards, their locks and the
// leader's election; by default they have no name. It is not sent to ZooKeeper.
func WithTracerName(name string) Option {
	return func(c *config) error {
		c.tracerName = name
		return recipe.TracerName[*recipe.Config](name)(new(recipe.Config))
	}
}

// New returns the shards below path. It does not contact the servers; the first Run creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root of the servers; an invalid option.
func New(c *conn.Client, path string, opts ...Option) (*Shards, error) {
	s := &Shards{
		config: config{weight: 1, strategy: Sticky, quiet: time.Second, most: 10 * time.Second, giveUp: 5},
		client: c, path: path,
	}
	errs := []error{recipe.Apply(&s.config, opts)}
	if s.returnGrace > 0 && s.id == "" {
		errs = append(errs, errors.New("WithReturnGrace needs WithID: want an id that stays the same across restarts"))
	}
	if s.returnGrace > 0 && s.leaveLimit > 0 {
		errs = append(errs, errors.New(
			"WithReturnGrace and WithLeave: one keeps the shards, and the other hands them over: want one of the two"))
	}
	switch {
	case c == nil:
		errs = append(errs, errors.New("client is nil: create one with conn.Dial"))
	case paths.Validate(path) != nil:
		errs = append(errs, paths.Validate(path))
	case path == "/" && (*client.Client)(c).Abs(path) == "/":
		errs = append(errs,
			errors.New("path \"/\" is the root, which cannot have shards: want a path such as /app/partitions"))
	default:
		errs = append(errs, s.open())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return s, nil
}

// open creates the recipes that Shards uses.
func (s *Shards) open() (err error) {
	if s.id == "" {
		s.id = nodeName(s.client.Identity()) + "-" + rand.Text()[:8]
	}
	s.log = (*client.Client)(s.client).Logger()
	elect := []election.Option{election.WithData([]byte(s.id))}
	if s.tracerName != "" {
		elect = append(elect, election.WithTracerName(s.tracerName))
	}
	var errs [4]error
	s.group, errs[0] = group.New(s.client, s.child("members"))
	s.election, errs[1] = election.New(s.client, s.child("election"), elect...)
	s.plan, errs[2] = value.New(s.client, s.child("plan"), planCodec)
	s.names, errs[3] = value.New(s.client, s.child("shards"), value.JSON[[]string]())
	return errors.Join(errs[:]...)
}

// nodeName returns an identity, which may be any text, as part of the name of a node.
func nodeName(identity string) string {
	return strings.Map(func(r rune) rune {
		if r != '.' && paths.ValidateName("id", string(r)) != nil {
			return '-'
		}
		return r
	}, identity)
}

var planCodec = value.JSON[plan]()

// child returns the path of a node below the path of the shards.
func (s *Shards) child(name string) string { return strings.TrimSuffix(s.path, "/") + "/" + name }

// lock returns the mutex of a shard. Its contenders have the member's ID as data.
//
// Errors: an invalid name, which a plan that was written by hand may contain.
func (s *Shards) lock(shard string) (*mutex.Mutex, error) {
	if err := paths.ValidateName("shard", shard); err != nil {
		return nil, err
	}
	opts := []mutex.Option{mutex.WithData([]byte(s.id))}
	if s.tracerName != "" {
		opts = append(opts, mutex.WithTracerName(s.tracerName))
	}
	return mutex.New(s.client, s.child("own/"+shard), opts...)
}

// Path returns the path below which the shards are.
func (s *Shards) Path() string { return s.path }

// ID returns this member's ID.
func (s *Shards) ID() string { return s.id }

// Run creates a [Shards] with [New] and calls [Shards.Run] on it.
func Run(
	ctx context.Context, c *conn.Client, path string, from Source,
	serve func(ctx context.Context, s *Shard) error, opts ...Option,
) error {
	s, err := New(c, path, opts...)
	if err != nil {
		return err
	}
	return s.Run(ctx, from, serve)
}
