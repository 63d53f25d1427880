package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func TestRelease_IsKnownByItsNumber(t *testing.T) {
	for r, want := range map[Release]string{
		Release38: "3.8.7", Release39: "3.9.6", ReleaseDebian: "3.8.0", "3.8.0": "3.8.0", "3.9.17": "3.9.17",
	} {
		got, err := proto.TraitsOf(string(r))
		require.NoError(t, err, r)
		require.Equal(t, want, got.Number)
	}
	for _, r := range []Release{
		"", "3", "3.7", "3.8.", "3.8.x", "3.8.-1", "3.10", "4.8.0", "3.8.0.1", "v3.8.0", "38",
		"3.9.+2", "3.9.2-SNAPSHOT", "3.8.0-11",
	} {
		_, err := Start(WithRelease(r))
		require.ErrorContains(t, err, "is not known: want 3.8, 3.9 or a number", r)
	}
}

// TestRelease_DecidesWhatTheServerDoes checks each difference in the last release before it and in the first that has
// it.
func TestRelease_DecidesWhatTheServerDoes(t *testing.T) {
	mine := ACL{Perms: proto.PermAll, Scheme: "digest", ID: "u:x"}
	for _, difference := range []struct {
		name          string
		before, since []Release
		look          func(t *testing.T, s *Server, r *raw) bool // reports whether the server behaves in the newer way
	}{
		{
			"create2 in a multi has an answer of its own",
			[]Release{"3.8.1", ReleaseDebian},
			[]Release{"3.8.2", "3.9.0"},
			func(t *testing.T, _ *Server, r *raw) bool {
				t.Helper()
				f, _ := r.call(OpMulti, multiBody(part{OpCreate2, createBody("/a", Persistent)}))
				return Op(f.body.Int32()) == OpCreate2
			},
		},
		{
			"exists needs read permission",
			[]Release{"3.8.3", "3.9.1", ReleaseDebian},
			[]Release{"3.8.4", "3.9.2"},
			func(t *testing.T, _ *Server, r *raw) bool {
				t.Helper()
				require.Equal(t, CodeOK, r.do(OpCreate, createFor("/blind", mine)))
				return r.do(OpExists, watchBody("/blind", false)) == CodeNoAuth
			},
		},
		{
			"events need read permission",
			[]Release{"3.8.3", "3.9.1"},
			[]Release{"3.8.4", "3.9.2", ReleaseDebian},
			func(t *testing.T, s *Server, r *raw) bool {
				t.Helper()
				require.Equal(t, CodeNoNode, r.do(OpExists, watchBody("/blind", true)))
				_, events := r.call(OpCreate, createFor("/blind", mine))
				require.True(t, s.Exists("/blind"))
				return len(events) == 0
			},
		},
		{
			"check is unknown",
			[]Release{"3.8.4", "3.9.2"},
			[]Release{"3.8.5", "3.9.3"},
			func(t *testing.T, _ *Server, r *raw) bool {
				t.Helper()
				return r.do(OpCheck, versionBody("/", 9)) == CodeUnimplemented
			},
		},
		{
			"an event carries its zxid",
			[]Release{Release38},
			[]Release{"3.9.0"},
			func(t *testing.T, s *Server, r *raw) bool {
				t.Helper()
				r.ask(OpExists, watchBody("/a", true))
				r.next()
				_, err := s.Create("/a", nil, Persistent)
				require.NoError(t, err)
				return r.next().zxid == s.Zxid()
			},
		},
		{
			"a client deletes a container",
			[]Release{"3.8.6", ReleaseDebian},
			[]Release{"3.9.0", "3.9.5"},
			func(t *testing.T, s *Server, r *raw) bool {
				t.Helper()
				require.Equal(t, CodeOK, r.do(OpCreate, createFor("/a", mine)))
				for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "none"} {
					require.Equal(t, CodeBadArguments, r.do(OpDeleteContainer, pathBody(path)))
				}
				return r.do(OpDeleteContainer, pathBody("/a")) == CodeOK && !s.Exists("/a")
			},
		},
		{
			"deleteContainer ends the connection",
			[]Release{"3.8.6", "3.9.5", ReleaseDebian},
			[]Release{"3.8.7", "3.9.6"},
			func(t *testing.T, s *Server, r *raw) bool {
				t.Helper()
				before := s.Zxid()
				r.ask(OpDeleteContainer, pathBody("/none"))
				_, err := r.recv()
				require.NotEqual(t, err == nil, s.Zxid() == before, "an error of a write takes a zxid, too")
				return err != nil
			},
		},
		{
			"setWatches needs read permission",
			[]Release{"3.8.6", "3.9.5", ReleaseDebian},
			[]Release{"3.8.7", "3.9.6"},
			func(t *testing.T, _ *Server, r *raw) bool {
				t.Helper()
				require.Equal(t, CodeOK, r.do(OpCreate, createFor("/blind", mine)))
				_, events := r.call(OpSetWatches, func(e *proto.Encoder) {
					e.Int64(0)
					for _, path := range []string{"/blind", "/blind", "/none"} { // data, existence, children
						e.Int32(1)
						e.Str(path)
					}
				})
				require.Contains(t, []int{1, 3}, len(events), "that a node is gone is told in any case")
				return len(events) == 1
			},
		},
		{
			"an unreadable write takes no zxid",
			[]Release{Release38, ReleaseDebian},
			[]Release{"3.9.0", Release39},
			func(t *testing.T, s *Server, r *raw) bool {
				t.Helper()
				before := s.Zxid()
				require.Equal(t, CodeMarshallingError, r.do(OpReconfig, pathBody("x")))
				require.Equal(t, before, s.Zxid(), "of reconfig no release takes one")
				for _, op := range []Op{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL} {
					require.Equal(t, CodeMarshallingError, r.do(op, pathBody("/a")))
				}
				return s.Zxid() == before
			},
		},
		{
			"every handshake is answered with the flag",
			[]Release{Release38, "3.9.3"},
			[]Release{"3.9.0", "3.9.2"},
			func(t *testing.T, s *Server, _ *raw) bool {
				t.Helper()
				r := dialRaw(t, s, "")
				r.send(func(e *proto.Encoder) {
					e.Int32(0)
					e.Int64(0)
					e.Int32(10_000)
					e.Int64(0)
					e.Bytes(make([]byte, 16))
				})
				welcome, err := r.recv()
				require.NoError(t, err)
				return len(welcome) == 37
			},
		},
		{
			"an IPv6 address in an ACL",
			[]Release{Release38, "3.9.3"},
			[]Release{"3.9.4"},
			func(t *testing.T, _ *Server, r *raw) bool {
				t.Helper()
				require.Equal(t, CodeInvalidACL, r.do(OpCreate, createFor("/a", ACL{proto.PermAll, "ip", "1:2"})))
				return r.do(OpCreate, createFor("/a", ACL{proto.PermAll, "ip", "fe80::/10"})) == CodeOK
			},
		},
	} {
		for newer, releases := range map[bool][]Release{false: difference.before, true: difference.since} {
			for _, release := range releases {
				synctest.Test(t, func(t *testing.T) {
					s := Run(t, InMemory(), WithRelease(release), OnViolation(func(error) {}))
					r := attachRaw(t, s, "", 10*time.Second)
					require.Equal(t, newer, difference.look(t, s, r), "%s: %s", release, difference.name)
				})
			}
		}
	}
}
