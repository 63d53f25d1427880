package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// MakeContainers creates path, and everything missing above it, as containers. It tries path first, because usually
// only that is missing: if its parent is missing too, it goes up until one can be created, then down. If the server
// reaps one in between, the create that follows fails, and its caller calls again.
func (s *Session) MakeContainers(ctx context.Context, path string) error {
	return s.makeContainers(ctx, s.Abs(path))
}

// makeContainers is MakeContainers for an absolute path, because the chroot may be what is missing.
func (s *Session) makeContainers(ctx context.Context, path string) error {
	made, err := s.tryContainers(ctx, path)
	s.Used(made) // the caller wants them to stay
	return err
}

// TryContainers is MakeContainers for a caller that knows path to be missing, and may end up not using it. It also
// returns the absolute paths of the containers that it has created, or may have created, lowest first. The caller must
// then call Used or RemoveUnused for them.
func (s *Session) TryContainers(ctx context.Context, path string) (made []string, err error) {
	return s.tryContainers(ctx, s.Abs(path))
}

// tryContainers is TryContainers for an absolute path.
func (s *Session) tryContainers(ctx context.Context, path string) (made []string, err error) {
	if path == "/" {
		return nil, nil
	}
	try := func(path string) {
		var mine bool
		s.unused.add(path) // before it can exist
		if mine, err = s.makeContainer(ctx, path); mine {
			made = append([]string{path}, made...)
		} else {
			s.unused.remove(path)
		}
	}
	var below []string
	try(path)
	for errors.Is(err, zk.ErrNoNode) && paths.Parent(path) != "/" {
		below, path = append(below, path), paths.Parent(path)
		try(path)
	}
	for _, path := range slices.Backward(below) {
		if err == nil {
			try(path)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return made, err
}

// locate returns a session for a request about an absolute path, and the path in that session. Errors and tracers get
// the latter, so a node below the chroot is named as the client names it. The chroot, which may have to be created, and
// the nodes above it can only have their absolute paths.
func (s *Session) locate(abs string) (in *Session, path string) {
	if path := s.Rel(abs); path != "" && path != "/" {
		return s, path
	}
	return s.Absolute(), abs
}

// makeContainer creates one container at an absolute path. mine reports whether it did, or may have. If the session
// ends or ctx is done while that is in doubt, the error is the reason for that: the doubt about a container does not
// extend to what the caller creates below it.
func (s *Session) makeContainer(ctx context.Context, abs string) (mine bool, err error) {
	s, path := s.locate(abs)
	mine, err = s.createContainer(ctx, path)
	inDoubt := errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err)
	switch ended := s.Err(); {
	case inDoubt && ended != nil:
		return true, &OpError{Op: "create", Path: path, Err: ended}
	case inDoubt && ctx.Err() != nil:
		return true, &OpError{Op: "create", Path: path, Err: s.Explain(context.Cause(ctx))}
	// A server refuses before it reports that the node exists, even if another client created it.
	case errors.Is(err, zk.ErrNoAuth):
		if exists, _, lookErr := s.Exists(ctx, path); lookErr == nil && exists {
			return false, nil
		}
		return false, err
	case err == nil && abs == s.opts.Chroot:
		s.opts.Log.Info("zookeeper: the chroot did not exist and was created", "path", abs)
	}
	return mine, err
}

// Used records that the containers created by TryContainers have had a child, so that the server reaps them, or are
// meant to stay without one.
func (s *Session) Used(made []string) {
	if len(made) > 0 {
		s.unused.remove(made...)
	}
}

// RemoveUnused removes a container that TryContainers has created, if it never had a child: the server would keep it,
// unless znode.container.maxNeverUsedIntervalMs is set. That is the lowest one that exists. Those above it have had a
// child, so the server reaps them. If the end of the session interrupts this, it is completed when the session is
// closed, unless the session ended because it could no longer be proven.
//
// Another client that is about to use the container finds it missing and recreates it, as after a reaping. A node with
// data is not ours.
//
// Source: ZooKeeper's ContainerManager skips containers with a cversion of 0.
func (s *Session) RemoveUnused(ctx context.Context, made []string) error {
	err := s.removeLowest(ctx, made)
	if err == nil || s.Err() == nil {
		s.unused.remove(made...)
	}
	return err
}

func (s *Session) removeLowest(ctx context.Context, made []string) error {
	if err := s.Barrier(ctx); err != nil { // a create may be in doubt
		return err
	}
	for _, abs := range made {
		in, path := s.locate(abs)
		exists, stat, err := in.Exists(ctx, path)
		switch {
		case err != nil:
			return err
		case exists && neverUsed(stat):
			return in.Delete(ctx, path, 0)
		case exists:
			return nil
		}
	}
	return nil
}

func neverUsed(stat zk.Stat) bool { return stat.Cversion == 0 && stat.DataLength == 0 }

// unused counts, by absolute path, the calls of a session that created a container for children that may never be
// created.
type unused struct {
	mu    sync.Mutex
	calls map[string]int
}

func (u *unused) add(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = make(map[string]int)
	}
	u.calls[path]++
}

func (u *unused) remove(paths ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, path := range paths {
		if u.calls[path]--; u.calls[path] <= 0 {
			delete(u.calls, path)
		}
	}
}

// removeAllUnused is RemoveUnused for all calls at once, after the session has ended. It does not wait, and calls the
// then function when done.
func (s *session) removeAllUnused(ask func(...request) bool, then func()) {
	s.unused.mu.Lock()
	all := slices.Collect(maps.Keys(s.unused.calls))
	s.unused.mu.Unlock()
	if len(all) == 0 {
		then()
		return
	}
	var left atomic.Int64
	left.Store(int64(len(all)))
	done := func() {
		if left.Add(-1) == 0 {
			then()
		}
	}
	root := &Session{session: s, Chroot: paths.Chroot(s.opts.Chroot)}
	var requests []request
	for _, abs := range all {
		in, path := root.locate(abs)
		requests = append(requests, in.existsRequest(path, false, func(e existence, err error) {
			remove := in.deleteRequest(path, 0, func(reply, error) { done() })
			if err != nil || !e.exists || !neverUsed(e.stat) || !ask(remove) {
				done()
			}
		}))
	}
	ask(requests...)
}

// Remakes paces a call that creates again what is missing, such as parents, and then tries again. The first five tries
// are not delayed: the server may reap the parents before they have a child. A server that keeps answering "no node"
// gets growing pauses of up to about a second.
type Remakes struct {
	made    int
	growing *pause.Growing
}

// Pause waits before the parents are created; the error why reported them missing. Errors: the cause of ctx.
func (r *Remakes) Pause(ctx context.Context, why error) error {
	if r.made++; r.made <= 5 {
		return nil
	}
	if ended := Sleep(ctx, nextPause(&r.growing)); ended != nil {
		return fmt.Errorf("%w (%v)", ended, why) //nolint:errorlint // the reason is not an answer to this call
	}
	return nil
}

// MakeParents creates, as containers, whatever is missing above path, including nodes of the chroot. The error why
// reported that something is missing. MakeParents first waits out the pause that is due. Errors: the cause of ctx; what
// the server answered about a parent.
func (r *Remakes) MakeParents(ctx context.Context, s *Session, path string, why error) error {
	if err := r.Pause(ctx, why); err != nil {
		return err
	}
	return s.makeContainers(ctx, paths.Parent(s.Abs(path)))
}

// Ensure creates a plain node, and everything missing above it, for a caller that accepts any node at path and reads it
// next. It returns nil even if the answer was lost. After a fault of the server it returns an error, because a caller
// that retries would only run into the next one.
func (s *Session) Ensure(ctx context.Context, path string, data []byte) error {
	var remakes Remakes
	for {
		_, err := s.Create(ctx, path, data, 0)
		switch {
		case errors.Is(err, zk.ErrNodeExists), ReplyLost(err) && ctx.Err() == nil:
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := remakes.MakeParents(ctx, s, path, err); err != nil {
			return err
		}
	}
}
