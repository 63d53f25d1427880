package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// If all servers had equally many clients, they still do after a change, and no more clients have moved than the change
// requires. 1000 is more than six times the standard deviation.
func TestDestination_ServersChange_EachHasAsManyClients(t *testing.T) {
	t.Parallel()
	const each = 20_000
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, c := range []struct{ was, now string }{
		{"abc", "abcde"},
		{"abcde", "abc"},
		{"abc", "def"},
		{"abc", "bcd"},
		{"abc", "cdefg"},
		{"abcde", "aef"},
		{"abcde", "ef"},
		{"a", "ab"},
		{"ab", "b"},
		{"abc", "bca"},
	} {
		t.Run(c.was+" "+c.now, func(t *testing.T) {
			t.Parallel()
			was, now := split(c.was), split(c.now)
			share := each * len(was) / len(now)
			count, moved, least := map[string]int{}, 0, 0
			for _, at := range was {
				for range each {
					to := destination(was, now, at)
					count[to]++
					if to != at {
						moved++
					}
				}
				if !slices.Contains(now, at) {
					least += each
				} else {
					least += max(0, each-share)
				}
			}
			for _, name := range all {
				want := 0
				if slices.Contains(now, name) {
					want = share
				}
				require.InDelta(t, want, count[name], 1000, "%s: %v", name, count)
			}
			require.InDelta(t, least, moved, 1000)
		})
	}
}

// A client at a server that the user does not prefer moves to one that the user prefers.
func TestDestination_NotAmongThem_GoesToAnyOfThem(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		seen[destination([]string{"a"}, []string{"a", "b"}, "z")] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true}, seen)
}

// All remaining names may be members of the ensemble as well, so there are no others to draw.
func TestRedraw_NoneIsLeft_TheClientStays(t *testing.T) {
	t.Parallel()
	h := newHosts(&Config{Rebalance: time.Minute, Servers: []string{"a"}})
	h.good = lifetime.Server{Name: "a", Address: "a"}
	h.redraw([]string{"a"}, nil)
	require.Zero(t, h.target)
	h.redraw([]string{"a"}, []string{"b"})
	require.Equal(t, "b", h.target.Name)
}

// Every configuration has other servers, such as those of pods with new addresses. Of the servers that have left, the
// client remembers only those that it is at, or may return to.
func TestTakeMembers_ServersComeAndGo_AreForgotten(t *testing.T) {
	t.Parallel()
	config := &Config{
		Servers: []string{"a"},
		Members: func(config []byte) (uint64, []string, error) {
			n, err := strconv.ParseUint(string(config), 10, 64)
			return n, []string{"a", fmt.Sprintf("pod-%d", n)}, err
		},
	}
	config.Log = slog.New(slog.DiscardHandler)
	c := &core{opts: config, hosts: newHosts(config)}
	for n := range 100 {
		c.takeMembers(fmt.Append(nil, n))
		if n == 10 {
			c.hosts.good = lifetime.Server{Name: "pod-10", Address: "pod-10"}
		}
	}
	require.Equal(t, map[string]bool{"pod-10": true}, c.hosts.left)
	require.Equal(t, c.hosts.members, c.hosts.kin())
}

// The configuration is the first to name a server that the client prefers. That server's name is resolved only in the
// next round, so the client used to stay where it was.
func TestTakeMembers_PreferredServerIsNotResolvedYet_TheClientMoves(t *testing.T) {
	t.Parallel()
	config := &Config{
		Servers: []string{"a:1"},
		Lookup:  func(_ context.Context, host string) ([]string, error) { return []string{host}, nil },
		Members: func([]byte) (uint64, []string, error) { return 1, []string{"a:1", "b:1", "c:1"}, nil },
		Prefers: func(name string) bool { return name == "b:1" }, Rebalance: time.Minute,
	}
	config.Log = slog.New(slog.DiscardHandler)
	c := &core{opts: config, hosts: newHosts(config)}
	c.hosts.lookUp(t.Context(), false)
	c.hosts.good = lifetime.Server{Name: "a:1", Address: "a:1"}
	c.takeMembers(nil)
	require.Equal(t, "b:1", c.hosts.target.Name)
	require.Len(t, c.hosts.moves, 1)
}

// The name of the server that the client prefers does not resolve when the client connects to another one. It may by
// the time the client moves, but the client stayed where it was until its connection was lost.
func TestGave_PreferredServerIsNotResolvedYet_TheClientMoves(t *testing.T) {
	t.Parallel()
	h := newHosts(&Config{
		Servers: []string{"a:1", "b:1"},
		Lookup: func(_ context.Context, host string) ([]string, error) {
			if host == "b" {
				return nil, errors.New("no such host")
			}
			return []string{host}, nil
		},
		Prefers: func(name string) bool { return name == "b:1" }, Rebalance: time.Minute,
	})
	h.lookUp(t.Context(), false)
	h.tries(lifetime.Server{Name: "a:1", Address: "a:1"})
	h.gave()
	require.Equal(t, "b:1", h.target.Name)
	require.Len(t, h.moves, 1)
}

// The client's server left the ensemble, and the client found no quiet moment to leave it. When the servers change
// again, it tries again. It used to stay, as if it were at a server that it had never known to be a member.
func TestTakeMembers_ServerLeftBefore_TheClientLeavesIt(t *testing.T) {
	t.Parallel()
	config := &Config{
		Servers: []string{"a"},
		Members: func(config []byte) (uint64, []string, error) { return 1, split(string(config)), nil },
	}
	config.Log, config.Rebalance = slog.New(slog.DiscardHandler), time.Minute
	c := &core{opts: config, hosts: newHosts(config)}
	c.hosts.good = lifetime.Server{Name: "a", Address: "a"}
	c.takeMembers([]byte("abc"))
	c.takeMembers([]byte("bc"))
	<-c.hosts.moves
	c.hosts.giveUp()
	c.takeMembers([]byte("bcd"))
	require.Contains(t, []string{"b", "c", "d"}, c.hosts.target.Name)
}

func split(names string) (list []string) {
	for _, r := range names {
		list = append(list, string(r))
	}
	return list
}
