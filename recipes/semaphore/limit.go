package semaphore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// limit is a fixed number, or the path of a node that holds one.
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

// look returns the current limit and a watch that fires when it may have changed; the watch is nil if the limit is
// fixed. look creates the node if it is missing.
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

// text returns the limit as kazoo writes it.
func (l *limit) text() []byte { return []byte(strconv.Itoa(l.seed)) }

// agree returns an error if kazoo's node holds another limit. It creates the node if it is missing. Like kazoo, it
// ignores text that is not a number, and white space around one.
func (l *limit) agree(ctx context.Context, s *session.Session) error {
	return ensured(ctx, s, l.kazoo, l.text(), func() error {
		data, _, err := s.Get(ctx, l.kazoo)
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(string(bytes.TrimSpace(data))); err == nil && n != l.seed {
			return fmt.Errorf("the node holds %d, but this semaphore has %d: all programs must use the same limit", n, l.seed)
		}
		return nil
	})
}

// ensured calls read, and calls it again each time it has created the missing node with the seed.
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

// Limit returns the current limit, which is at least as recent as the call. If the limit node is missing, this is the
// limit given to [New].
//
// Errors: a limit node whose data is text or shorter than four bytes; or the server's error.
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	if s.limit.node == "" {
		return s.limit.seed, nil
	}
	if err := s.shared.Client().Sync(ctx, s.limit.node); err != nil {
		return 0, err
	}
	return s.readLimit(ctx)
}

// readLimit is like Limit, but its result is only as new as the client's last read.
func (s *Semaphore) readLimit(ctx context.Context) (int, error) {
	if s.limit.node == "" {
		return s.limit.seed, nil
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

// SetLimit replaces the limit for all semaphores that follow the node given to [WithLimitNode]. If you raise the limit,
// waiters are granted leases immediately. Lowering it doesn't revoke any leases, so waiters wait until enough of them
// are released. With a limit of 0, every caller waits until you raise it again.
//
// The client must be allowed to read the node, because SetLimit reads it first.
//
// Errors: before sending any request, a negative limit, a limit whose four bytes are ASCII text, or a semaphore without
// a limit node; ErrUnknownOutcome if a reply was lost and the node no longer shows whether this call set the limit,
// because it is missing or has changed more than once since; or the server's error.
//
// Source: Curator's SharedCount.setCount.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	bad := checkStored(limit)
	if s.limit.node == "" {
		bad = errors.New("the limit is fixed: create the semaphore with WithLimitNode")
	}
	if bad != nil {
		return fmt.Errorf("set limit %d of %s: %w", limit, s.path, bad)
	}
	_, err := record.Replacement{
		Client: s.shared.Client(), Path: s.limit.node, Idempotent: true,
		Next: func(session.Node) ([]byte, error) { return encode(limit), nil },
	}.Do(ctx)
	return err
}

func encode(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(int32(n))) }

// decode reads the first four bytes, as Curator does. It rejects text, because "1000" would be a limit of 825,241,648.
func decode(path string, data []byte) (int, error) {
	switch {
	case isText(data):
		return 0, fmt.Errorf(
			"%s holds the text %q: want a number of four bytes, big-endian: set it with SetLimit or zkr limit",
			path, data[:min(len(data), 20)])
	case len(data) < 4:
		return 0, fmt.Errorf("%s holds %d bytes: want a number of four, big-endian: set it with SetLimit or zkr limit",
			path, len(data))
	}
	return int(int32(binary.BigEndian.Uint32(data))), nil
}

// checkStored returns an error if a limit node must not hold n.
func checkStored(n int) error {
	switch {
	case n < 0 || n > math.MaxInt32:
		return fmt.Errorf("want between 0 and %d", math.MaxInt32)
	case isText(encode(n)):
		return fmt.Errorf("its four bytes read as the text %q, which readers reject: use another limit", encode(n))
	default:
		return nil
	}
}

// isText reports whether the first four bytes of data are ASCII text. Read as a number, such bytes are above 150
// million.
func isText(data []byte) bool {
	data = data[:min(len(data), 4)]
	return len(data) > 0 && !slices.ContainsFunc(data, func(b byte) bool {
		return (b < ' ' || b > '~') && b != '\t' && b != '\n' && b != '\r'
	})
}
