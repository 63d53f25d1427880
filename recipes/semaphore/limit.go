package semaphore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// limit is a number, or a node that holds one.
type limit struct {
	seed  int
	node  string // empty: the seed is the limit
	kazoo string // the node that must hold the seed as text; empty: none
}

func newLimit(seed int, path string, cfg config) limit {
	l := limit{seed: seed, node: cfg.limitNode}
	if cfg.Kazoo {
		l.kazoo = path
	}
	return l
}

func checkLimit(n int) error {
	if n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("limit %d: want between 1 and %d", n, math.MaxInt32)
	}
	return nil
}

// look returns the limit now, and a watch that fires when it may have changed; nil if it cannot. It
// creates the node if that is missing.
func (l *limit) look(ctx context.Context, s *session.Session) (n int, changed *session.Watch, err error) {
	switch {
	case l.kazoo != "":
		return l.seed, nil, l.agree(ctx, s)
	case l.node == "":
		return l.seed, nil, nil
	}
	err = ensured(ctx, s, l.node, encode(l.seed), func() error {
		data, _, w, err := s.GetW(ctx, l.node)
		if err == nil {
			changed = w
			n, err = decode(l.node, data)
		}
		return err
	})
	return n, changed, err
}

// agree returns an error if kazoo's node holds another limit. It creates the node if that is missing. Text that is no number
// is left alone, as kazoo does.
func (l *limit) agree(ctx context.Context, s *session.Session) error {
	return ensured(ctx, s, l.kazoo, []byte(strconv.Itoa(l.seed)), func() error {
		data, _, err := s.Get(ctx, l.kazoo)
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(string(data)); err == nil && n != l.seed {
			return fmt.Errorf("the node holds %d, and this semaphore has %d: want the same in all programs", n, l.seed)
		}
		return nil
	})
}

// ensured calls read, and again each time that it has made the missing node, with the seed.
func ensured(ctx context.Context, s *session.Session, path string, seed []byte, read func() error) error {
	var remakes session.Remakes
	for {
		missing := read()
		if !errors.Is(missing, zk.ErrNoNode) {
			return missing
		}
		if err := remakes.Pause(ctx, missing); err != nil {
			return err
		}
		if err := s.Ensure(ctx, path, seed); err != nil {
			return err
		}
	}
}

// Limit returns the limit, as new as this call. If the limit node is missing, it is the limit given to [New].
//
// Errors: a limit node with less than four bytes; otherwise what the server said.
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	if s.limit.node == "" {
		return s.limit.seed, nil
	}
	if err := s.shared.Client().Sync(ctx, s.limit.node); err != nil {
		return 0, err
	}
	data, _, err := s.shared.Client().Get(ctx, s.limit.node)
	if errors.Is(err, zk.ErrNoNode) {
		return s.limit.seed, nil
	}
	if err != nil {
		return 0, err
	}
	return decode(s.limit.node, data)
}

// SetLimit replaces the limit for all semaphores that follow the node given to [WithLimitNode]. If the limit is raised,
// waiters are let in at once. If it is lowered, holders keep their leases.
//
// SetLimit reads the node first, so the client must be allowed to read it.
//
// Errors: a limit below 1, or no limit node, at once; ErrUnknownOutcome if a reply was lost, and the node is not there or has another
// limit: then nothing tells whether this call set it before; otherwise what the server said.
//
// Source: Curator's SharedCount.setCount.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if err := checkLimit(limit); err != nil {
		return fmt.Errorf("set limit of %s: %w", s.path, err)
	}
	if s.limit.node == "" {
		return fmt.Errorf("set limit of %s: the limit is fixed: want a semaphore made with WithLimitNode", s.path)
	}
	_, err := record.Replacement{
		Client: s.shared.Client(), Path: s.limit.node, Idempotent: true,
		Next: func(session.Node) ([]byte, error) { return encode(limit), nil },
	}.Do(ctx)
	return err
}

func encode(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(int32(n))) }

// decode reads the first four bytes, as Curator does.
func decode(path string, data []byte) (int, error) {
	if len(data) < 4 {
		return 0, fmt.Errorf("%s holds %d bytes: want a number of four, big-endian", path, len(data))
	}
	return int(int32(binary.BigEndian.Uint32(data))), nil
}
