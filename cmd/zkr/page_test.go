//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// pageMessage is an event of the page.
type pageMessage struct {
	Changed []json.RawMessage
	Changes []seenChange
}

// seenChange is a change of holders, as the page shows it.
type seenChange struct {
	At, After   time.Time
	Path, Words string
	Lost        bool
	Held        []string
}

// changesOf reads events until it has seen n changes.
func changesOf(t *testing.T, events *bufio.Reader, n int) (list []seenChange) {
	t.Helper()
	for len(list) < n {
		var m pageMessage
		require.NoError(t, json.Unmarshal([]byte(nextEvent(t, events)), &m))
		list = append(list, m.Changes...)
	}
	require.Len(t, list, n)
	return list
}

// TestPage_TellsWhatWasBeforeItWasOpened: a browser that connects later gets the changes that zkr has seen before, and
// all later ones.
func TestPage_TellsWhatWasBeforeItWasOpened(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	first := locked(t, srv, "/jobs/nightly", "web1/42")
	client, _ := sidecarClient(t, address(t, srv, "sidecar"))
	early := eventsOf(t, client, "/ui/events")
	before := nextEvent(t, early, "web1/42") // later events repeat only whether the page is current
	nextEvent(t, early, `"current":true`)
	require.NotContains(t, before, `"changes"`, "what was there before zkr is no change")
	require.NotContains(t, before, `"granted"`, "zkr does not know when it was granted")
	began := time.Now()
	require.NoError(t, first.Release(t.Context()))
	require.Equal(t, "web1/42 → free", changesOf(t, early, 1)[0].Words)

	srv.Refuse(zktest.Label("sidecar"))
	srv.Cut(zktest.Label("sidecar"))
	nextEvent(t, early, `"current":false`, `"lost":"`, `"cause":"`)
	second := locked(t, srv, "/jobs/nightly", "web1/42")
	srv.Accept(zktest.Label("sidecar"))
	later := changesOf(t, early, 2)
	outage, unseen := later[0], later[1]
	require.Contains(t, outage.Words, "no connection to ZooKeeper: ")
	require.WithinRange(t, outage.After, began, outage.At)
	require.Equal(t, "free → web1/42", unseen.Words)
	require.False(t, unseen.After.IsZero(), "zkr does not know when it was")
	nextEvent(t, early, `"current":true`) // or zkr would not know when the release was
	require.NotContains(t, nextEvent(t, eventsOf(t, client, "/ui/events"), "free → web1/42"), `"granted"`)
	require.NoError(t, second.Release(t.Context()))
	changesOf(t, early, 1)

	all := changesOf(t, eventsOf(t, client, "/ui/events"), 4)
	all = append(all[:1], all[2:]...) // the outage has no path
	for i, words := range []string{"web1/42 → free", "free → web1/42", "web1/42 → free"} {
		require.Equal(t, words, all[i].Words)
		require.Equal(t, "/jobs/nightly", all[i].Path)
		require.WithinRange(t, all[i].At, began, time.Now())
		require.Equal(t, i == 1, !all[i].After.IsZero())
	}
}

// TestPage_TellsLossesOfItsCandidate: zkr knows why its own candidate no longer leads.
func TestPage_TellsLossesOfItsCandidate(t *testing.T) {
	srv := zktest.Run(t)
	client, _ := sidecarClient(t, address(t, srv, "sidecar"), "--elect", "/app/leader", "--id", "pod-1")
	events := eventsOf(t, client, "/ui/events")
	nextEvent(t, events, "pod-1") // later events repeat only whether the page is current
	nextEvent(t, events, `"current":true`)
	for _, n := range srv.Tree("/app/leader") {
		srv.LoseWatch(zktest.Label("sidecar"), n.Path) // or the server might report the deletion first
	}
	srv.Expire(srv.SessionOf("sidecar"))
	for {
		for _, c := range changesOf(t, events, 1) {
			if c.Lost {
				require.Equal(t, "/app/leader", c.Path)
				require.Contains(t, c.Words, "expired")
				return
			}
		}
	}
}

// TestPage_TellsWhenALockWasGranted: a node only shows when its contender joined, but zkr has seen when the contender
// became the first.
func TestPage_TellsWhenALockWasGranted(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	client, _ := sidecarClient(t, srv.Addr())
	events := eventsOf(t, client, "/ui/events")
	nextEvent(t, events, `"current":true`)
	second, err := mutex.New(dial(t, srv, conn.WithIdentity("web2/7")), "/jobs/nightly")
	require.NoError(t, err)
	held := locked(t, srv, "/jobs/nightly", "web1/42")
	nextEvent(t, events, `"granted":{"`+held.Path()+`":`)
	go func() { _, _ = second.Lock(t.Context()) }() // it waits
	came := nextEvent(t, events, `"behind":"`)
	require.Contains(t, came, `"granted":{"`+held.Path()+`":`)
	before := time.Now()
	require.NoError(t, held.Release(t.Context()))
	var m struct {
		Changed []struct{ Granted map[string]time.Time }
	}
	require.NoError(t, json.Unmarshal([]byte(nextEvent(t, events, "web1/42 → web2/7")), &m))
	require.Len(t, m.Changed, 1)
	for node, at := range m.Changed[0].Granted {
		require.NotEqual(t, held.Path(), node)
		require.False(t, at.Before(before))
	}
	require.Len(t, m.Changed[0].Granted, 1)
}

// TestPage_KeepsChangesInAFile: the next zkr shows the changes that the previous one saw.
func TestPage_KeepsChangesInAFile(t *testing.T) {
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "changes")
	client, z := sidecarClient(t, srv.Addr(), "--history", file)
	events := eventsOf(t, client, "/ui/events")
	require.Equal(t, "zkr was started", changesOf(t, events, 1)[0].Words)
	nextEvent(t, events, `"current":true`)
	locked(t, srv, "/jobs/nightly", "web1/42")
	seen := changesOf(t, events, 1)[0]
	require.Equal(t, "free → web1/42", seen.Words)
	require.Equal(t, []string{"web1/42"}, seen.Held)
	eventually(t, "it is in the file", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "web1/42")
	})
	require.NoError(t, z.Process.Kill())
	_ = z.Wait() // it was killed

	client, _ = sidecarClient(t, srv.Addr(), "--history", file)
	all := changesOf(t, eventsOf(t, client, "/ui/events"), 3)
	require.True(t, all[1].At.Equal(seen.At))
	require.Equal(t, "free → web1/42", all[1].Words)
	require.Equal(t, "zkr was started", all[2].Words)
	_, errs := ends(t, exit.Failure, srv.Addr(), "serve", "--http", "127.0.0.1:0", "--history", t.TempDir())
	require.Contains(t, errs, "--history: ")
}
