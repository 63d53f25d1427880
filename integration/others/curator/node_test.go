package curator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/node"
)

// at reads the node at the path.
func (s *stage) at(t *testing.T, path string) (string, zk.Stat) {
	t.Helper()
	must(t, s.clients[1].Sync(t.Context(), path))
	data, stat, err := s.clients[1].Get(t.Context(), path)
	if errors.Is(err, zk.ErrNoNode) {
		return "", zk.Stat{}
	}
	must(t, err)
	return string(data), stat
}

func (s *stage) ours(t *testing.T) int64 {
	t.Helper()
	session, err := s.clients[0].Session(t.Context())
	must(t, err)
	return session.ID()
}

// Curator's PersistentNode and ours share one path.
func TestPersistentNode(t *testing.T) {
	s := open(t)
	t.Run("ours waits for Curator's", s.nodeWaits)
	t.Run("ours replaces Curator's", s.nodeReplaces)
	t.Run("Curator's takes ours", s.nodeIsTaken)
}

// Curator's PersistentNode is at the path. Ours waits for it, or rejects it, and does not change it. Once it is gone,
// ours is created.
func (s *stage) nodeWaits(t *testing.T) {
	const path = "/nodes/waits"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := asker(t, s)
	ask("keep", "n", path, "theirs")
	ask("kept", "n")
	_, theirs := s.at(t, path)
	taken := func(err error) {
		t.Helper()
		var taken *zkrecipes.TakenError
		if !errors.As(err, &taken) || taken.Session != theirs.EphemeralOwner || string(taken.Data) != "theirs" {
			t.Errorf("%v: want that the path is taken by %#x", err, theirs.EphemeralOwner)
		}
	}
	refusing, err := node.New(s.clients[0], path, []byte("ours"), node.WithRefusal())
	must(t, err)
	taken(refusing.Ready(ctx))
	must(t, refusing.Close(ctx))

	waiting, err := node.New(s.clients[0], path, []byte("ours"))
	must(t, err)
	for state := range waiting.Watch(ctx) { //nolint:errcheck // its error does not matter
		if state.Exists {
			t.Fatalf("it takes Curator's node for ours: %+v", state)
		}
		if errors.Is(state.Err, zkrecipes.ErrTaken) {
			taken(state.Err)
			break
		}
	}
	if data, stat := s.at(t, path); stat != theirs || data != "theirs" {
		t.Errorf("Curator's node was changed: %q, %+v", data, stat)
	}
	ask("drop", "n")
	must(t, waiting.Ready(ctx))
	if data, stat := s.at(t, path); data != "ours" || stat.EphemeralOwner != s.ours(t) {
		t.Errorf("after Curator's node: %q of %#x", data, stat.EphemeralOwner)
	}
	must(t, waiting.Close(ctx))
}

// WithReplace replaces Curator's node by ours. When Curator's is closed, it deletes the node at the path, and ours is
// created again.
func (s *stage) nodeReplaces(t *testing.T) {
	const path = "/nodes/replaced"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := asker(t, s)
	ask("keep", "n", path, "theirs")
	ask("kept", "n")
	_, theirs := s.at(t, path)
	n, err := node.New(s.clients[0], path, []byte("ours"), node.WithReplace(func(data []byte, stat zk.Stat) bool {
		return string(data) == "theirs" && stat.EphemeralOwner == theirs.EphemeralOwner
	}))
	must(t, err)
	must(t, n.Ready(ctx))
	must(t, n.Set(ctx, []byte("ours again")))
	_, stat := s.at(t, path)
	if stat.EphemeralOwner != s.ours(t) || n.State().Czxid != stat.Czxid {
		t.Errorf("%#x has it: want %#x", stat.EphemeralOwner, s.ours(t))
	}
	s.stands(t, n, path, "ours again")
	ask("drop", "n") // Curator deletes whatever is at the path
	s.stands(t, n, path, "ours again")
	must(t, n.Close(ctx))
	if data, stat := s.at(t, path); stat.Czxid != 0 {
		t.Errorf("left: %q of %#x", data, stat.EphemeralOwner)
	}
}

// Our node is at the path. Curator's PersistentNode mistakes it for its own: it writes its data to it, and deletes it
// when closed. Ours restores its data, reports it, and is created again.
func (s *stage) nodeIsTaken(t *testing.T) {
	const path = "/nodes/taken"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := asker(t, s)
	n, err := node.New(s.clients[0], path, []byte("ours"))
	must(t, err)
	must(t, n.Ready(ctx))
	_, before := s.at(t, path)
	var told []node.State
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for state := range n.Watch(watching) { //nolint:errcheck // its error does not matter
			told = append(told, state)
		}
	}()
	ask("keep", "n", path, "theirs")
	t.Log("Curator's node says:", ask("kept", "n"))
	s.stands(t, n, path, "ours")
	_, written := s.at(t, path)
	t.Logf("Curator has written a node of %#x, and ours again: version %d, then %d", written.EphemeralOwner,
		before.Version, written.Version)
	if written.Czxid != before.Czxid {
		t.Error("our node was made again: want that its data was set")
	}
	ask("drop", "n")
	poll(t, "ours comes again", func() bool {
		_, stat := s.at(t, path)
		return stat.Czxid > before.Czxid && n.State().Czxid == stat.Czxid
	})
	s.stands(t, n, path, "ours")
	stop()
	<-watched
	deleted := false
	for _, state := range told {
		deleted = deleted || errors.Is(state.Err, node.ErrDeleted)
		if state.Exists && state.Session != s.ours(t) {
			t.Errorf("%+v: not of our session", state)
		}
	}
	if !deleted {
		t.Errorf("not told that another client has deleted it: %+v", told)
	}
	must(t, n.Close(ctx))
}

// stands waits until our node exists with its data, and stays so for a moment.
func (s *stage) stands(t *testing.T, n *node.Node, path, want string) {
	t.Helper()
	since := time.Now()
	poll(t, want+" stands at "+path, func() bool {
		data, stat := s.at(t, path)
		state := n.State()
		if !state.Exists || !state.Current || state.Err != nil || state.Czxid != stat.Czxid ||
			stat.EphemeralOwner != s.ours(t) || data != want {
			since = time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
}

// asker returns a function that sends a request to the peer, and fails the test if that fails.
func asker(t *testing.T, s *stage) func(words ...any) string {
	return func(words ...any) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		answer, err := s.peer.Ask(ctx, words...)
		must(t, err)
		return strings.TrimSpace(answer)
	}
}
