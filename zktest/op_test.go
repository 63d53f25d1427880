package zktest

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// TestErrors_FirstInTheOrderOfTheRealServer: a request that is wrong in several ways gets the error that the real
// server finds first.
func TestErrors_FirstInTheOrderOfTheRealServer(t *testing.T) {
	create := func(path string, mode Mode, acl ...ACL) func(*proto.Encoder) {
		return func(e *proto.Encoder) {
			e.Str(path)
			e.Bytes(nil)
			putACLs(e, acl)
			e.Int32(int32(mode))
		}
	}
	all, none := anyone[0], ACL{proto.PermRead, "world", "anyone"}
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		r.make("/eph", Ephemeral)
		r.make("/full", Persistent)
		r.make("/full/x", Persistent)
		require.Equal(t, CodeOK, r.do(OpCreate, create("/shut", 0, none)))
		require.Equal(t, CodeOK, r.do(OpCreate, create("/blind", 0, ACL{proto.PermAll &^ proto.PermRead, "world", "anyone"})))
		for _, c := range []struct {
			name string
			op   Op
			body func(*proto.Encoder)
			want Code
		}{
			{"bad flags before all", OpCreate, create("nope", 9), CodeBadArguments},
			{"ttl not enabled before path", OpCreateTTL, createTTLBody("nope", PersistentTTL, 0), CodeUnimplemented},
			{"path without slash before ACL", OpCreate, create("nope", 0), CodeBadArguments},
			{"ACL before parent", OpCreate, create("/none/x", 0), CodeInvalidACL},
			{"parent before permission and path", OpCreate, create("/none//x", 0, all), CodeNoNode},
			{"permission before path", OpCreate, create("/shut//", 0, all), CodeNoNode},
			{"permission before existence", OpCreate, create("/shut/x", 0, all), CodeNoAuth},
			{"path before ephemeral parent", OpCreate, create("/eph/.", 0, all), CodeBadArguments},
			{"ephemeral parent", OpCreate, create("/eph/x", 0, all), CodeNoChildrenForEphemerals},
			{"existence", OpCreate, create("/full/x", 0, all), CodeNodeExists},
			{"empty prefix is fine if sequential", OpCreate, create("/full/", PersistentSequential, all), CodeOK},
			{"delete of the root", OpDelete, versionBody("/", -1), CodeBadArguments},
			{"delete of what is ZooKeeper's", OpDelete, versionBody("/zookeeper/quota", -1), CodeBadArguments},
			{"delete: parent", OpDelete, versionBody("/none/x", -1), CodeNoNode},
			{"delete: permission on the parent before the node", OpDelete, versionBody("/shut/none", -1), CodeNoAuth},
			{"delete: version before children", OpDelete, versionBody("/full", 9), CodeBadVersion},
			{"delete: children", OpDelete, versionBody("/full", 0), CodeNotEmpty},
			{"set: path", OpSetData, setBody("/full/", nil, 9), CodeBadArguments},
			{"set: node", OpSetData, setBody("/none", nil, 9), CodeNoNode},
			{"set: permission before version", OpSetData, setBody("/shut", nil, 9), CodeNoAuth},
			{"set: version", OpSetData, setBody("/full", nil, 9), CodeBadVersion},
			{"get: permission", OpGetData, watchBody("/blind", false), CodeNoAuth},
			{"children: permission", OpGetChildren2, watchBody("/blind", false), CodeNoAuth},
			{"exists: permission", OpExists, watchBody("/blind", false), CodeNoAuth},
			{"exists: NUL", OpExists, watchBody("/a\x00", false), CodeBadArguments},
			{"sync asks for nothing", OpSync, pathBody("no path at all"), CodeOK},
			{"reconfig", OpReconfig, reconfigBody(proto.Null, proto.Null, proto.Null, -1), CodeReconfigDisabled},
			{"reconfig: truncated", OpReconfig, nil, CodeMarshallingError},
			{"null id of scheme auth", OpCreate, create("/null", 0, ACL{proto.PermAll, "auth", proto.Null}), CodeInvalidACL},
			{
				"null id of scheme world", OpCreate, create("/null", 0, ACL{proto.PermAll, "world", proto.Null}),
				CodeMarshallingError,
			},
			{"null path in create", OpCreate, create(proto.Null, 0, all), CodeMarshallingError},
			{"null path in delete", OpDelete, versionBody(proto.Null, -1), CodeMarshallingError},
			{"null path in setData", OpSetData, setBody(proto.Null, nil, -1), CodeBadArguments},
			{"null path in getData", OpGetData, watchBody(proto.Null, false), CodeMarshallingError},
			{"null path in removeWatches", OpRemoveWatches, versionBody(proto.Null, 3), CodeNoWatcher},
		} {
			require.Equal(t, c.want, r.do(c.op, c.body), c.name)
		}
	})
}

func TestZxid_EveryWriteTakesOneEvenIfItFails_ReadsTakeNone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		require.EqualValues(t, 1, s.Zxid(), "opening the session")
		f, _ := r.call(OpCreate, createBody("/a", 0))
		require.EqualValues(t, 2, f.zxid)
		f, _ = r.call(OpCreate, createBody("/a", 0))
		require.Equal(t, CodeNodeExists, f.code)
		require.EqualValues(t, 3, f.zxid)
		for _, op := range []Op{OpGetData, OpExists, OpGetChildren} {
			f, _ = r.call(op, watchBody("/a", true))
			require.EqualValues(t, 3, f.zxid)
		}
		f, _ = r.call(OpAuth, digestBody("u:p"))
		require.Zero(t, f.zxid)
		f, _ = r.call(77, nil)
		require.Equal(t, CodeUnimplemented, f.code)
		require.EqualValues(t, -1, f.zxid)
		r.closed()
	})
}

func TestStat_CountsWhatZooKeeperCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/p", Persistent)
		for i := range 3 {
			r.make(fmt.Sprintf("/p/%d", i), Persistent)
		}
		r.run(OpDelete, versionBody("/p/0", -1))
		r.run(OpSetData, setBody("/p", []byte{}, -1))
		f, _ := r.call(OpGetData, watchBody("/p", false))
		data := f.body.Bytes()
		require.NotNil(t, data, "empty is not null")
		st := readStat(&f.body)
		require.Equal(t, Stat{
			Czxid: 2, Mzxid: 7, Ctime: st.Ctime, Mtime: st.Mtime, Version: 1, Cversion: 4, NumChildren: 2, Pzxid: 6,
		}, st)
		root, _ := s.Node("/zookeeper")
		require.EqualValues(t, -2, root.Stat.Cversion, "children that no create has made")
	})
}

func TestCreate_DataKeepsNullAndEmptyApart(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		r.make("/null", Persistent)
		f, _ := r.call(OpGetData, watchBody("/null", false))
		require.EqualValues(t, -1, f.body.Int32())
	})
}

func TestSequence_CountsEveryCreateAndNoDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		r.make("/p", Persistent)
		path, _ := r.create("/p/a-", PersistentSequential)
		require.Equal(t, "/p/a-0000000000", path)
		r.make("/p/plain", Persistent)
		r.run(OpDelete, versionBody("/p/plain", -1))
		path, _ = r.create("/p/b-", EphemeralSequential)
		require.Equal(t, "/p/b-0000000002", path)
	})
}

// TestSequence_Exhausted_RepeatsTheLastNumber: the counter sticks at its end, so other prefixes get the last number
// again, while the same prefix finds it taken. Only two creates in one multi see it wrap.
func TestSequence_Exhausted_RepeatsTheLastNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/p", Persistent)
		require.NoError(t, s.SetCversion("/p", math.MaxInt32-2))
		for _, want := range []string{"2147483645", "2147483646", "2147483647"} {
			path, code := r.create("/p/a-", PersistentSequential)
			require.Equal(t, CodeOK, code)
			require.Equal(t, "/p/a-"+want, path)
		}
		_, code := r.create("/p/a-", PersistentSequential)
		require.Equal(t, CodeNodeExists, code)
		path, _ := r.create("/p/b-", PersistentSequential)
		require.Equal(t, "/p/b-2147483647", path)
		f, _ := r.call(OpMulti, multiBody(
			part{OpCreate, createBody("/p/c-", PersistentSequential)},
			part{OpCreate, createBody("/p/c-", PersistentSequential)}))
		f.body.Take(9)
		require.Equal(t, "/p/c-2147483647", f.body.Str())
		f.body.Take(9)
		require.Equal(t, "/p/c--2147483648", f.body.Str())
		require.ErrorIs(t, s.SetCversion("/none", 0), CodeNoNode)
	})
}

func TestMulti_AllOrNothingUnderOneZxid(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		f, _ := r.call(OpMulti, multiBody(
			part{OpCreate, createBody("/a", Persistent)},
			part{OpCreate, createBody("/a/n-", PersistentSequential)},
			part{OpCreate, createBody("/a/c", Container)},
			part{OpSetData, setBody("/a", []byte("x"), 0)},
			part{OpCheck, versionBody("/a", 1)},
			part{OpDelete, versionBody("/a/n-0000000000", -1)},
		))
		require.Equal(t, CodeOK, f.code)
		for _, want := range []Op{OpCreate, OpCreate, OpCreate2, OpSetData, OpCheck, OpDelete} {
			require.EqualValues(t, want, f.body.Int32())
			require.False(t, f.body.Bool())
			require.Zero(t, f.body.Int32())
			switch want {
			case OpCreate:
				require.NotEmpty(t, f.body.Str())
			case OpCreate2:
				require.Equal(t, "/a/c", f.body.Str())
				readStat(&f.body)
			case OpSetData:
				require.EqualValues(t, 1, readStat(&f.body).Version)
			default:
			}
		}
		require.Equal(t, []byte{255, 255, 255, 255, 1, 255, 255, 255, 255}, f.body.B)
		for _, n := range s.Tree("/a") {
			require.Equal(t, f.zxid, n.Stat.Czxid)
			require.Equal(t, n.Path == "/a/c", n.Container)
		}

		f, _ = r.call(OpMulti, multiBody(
			part{OpDelete, versionBody("/a/c", -1)}, part{OpDelete, versionBody("/a", 7)}, part{OpCheck, versionBody("/a", -1)}))
		require.Equal(t, CodeOK, f.code, "the failure is in the results")
		for _, want := range []Code{CodeOK, CodeBadVersion, CodeRuntimeInconsistency} {
			require.EqualValues(t, -1, f.body.Int32())
			f.body.Bool()
			require.EqualValues(t, want, f.body.Int32())
			require.EqualValues(t, want, f.body.Int32())
		}
		require.True(t, s.Exists("/a/c"))
		f, _ = r.call(OpMulti, multiBody())
		require.Len(t, f.body.B, 9, "an empty one is legal")
	})
}

// TestMulti_TTLFlagUnderThePlainCode_BreaksIt, found by comparing with real servers: a time to live under the plain
// code breaks a multi. Before 3.8.2, it does so only if it is reached.
func TestMulti_TTLFlagUnderThePlainCode_BreaksIt(t *testing.T) {
	for release, want := range map[Release]Code{
		ReleaseDebian: CodeOK, Release38: CodeMarshallingError,
		Release39: CodeMarshallingError,
	} {
		inBubble(t, func(t *testing.T, s *Server, r *raw) {
			broken := part{OpCreate, createBody("/t", PersistentTTL)}
			require.Equal(t, CodeMarshallingError, r.do(OpMulti, multiBody(part{OpCreate, createBody("/a", 0)}, broken)))
			require.False(t, s.Exists("/a"))
			require.Equal(t, want, r.do(OpMulti, multiBody(part{OpDelete, versionBody("/none", -1)}, broken)), release)
		}, WithRelease(release))
	}
}

// TestMulti_NullACL_BreaksItWithoutAZxid, found by comparing with real servers: since 3.8.2 a null ACL breaks a multi
// before it has a zxid. 3.8 returns the error with an empty list of results, 3.9 without one.
func TestMulti_NullACL_BreaksItWithoutAZxid(t *testing.T) {
	for release, left := range map[Release]int{Release38: 9, Release39: 0} {
		inBubble(t, func(t *testing.T, s *Server, r *raw) {
			before := s.Zxid()
			f, _ := r.call(OpMulti, multiBody(part{OpCreate, func(e *proto.Encoder) {
				e.Str("/a")
				e.Bytes(nil)
				e.Int32(-1)
				e.Int32(0)
			}}))
			require.Equal(t, CodeMarshallingError, f.code)
			require.Len(t, f.body.B, left)
			require.Equal(t, before, s.Zxid())
		}, WithRelease(release))
	}
}

// TestMulti_NullPath_BreaksIt, found by comparing with real servers: a null path also makes 3.8 return an empty list of
// results, and 3.9 none.
func TestMulti_NullPath_BreaksIt(t *testing.T) {
	for release, left := range map[Release]int{ReleaseDebian: 9, Release38: 9, Release39: 0} {
		inBubble(t, func(t *testing.T, _ *Server, r *raw) {
			f, _ := r.call(OpMulti, multiBody(part{OpDelete, versionBody(proto.Null, -1)}))
			require.Equal(t, CodeMarshallingError, f.code)
			require.Len(t, f.body.B, left)
		}, WithRelease(release))
	}
}

func TestMultiRead_AnswersEachForItself(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		f, _ := r.call(OpMultiRead, multiBody(part{OpGetData, watchBody("/none", false)},
			part{OpGetChildren, watchBody("/", false)}))
		require.EqualValues(t, -1, f.body.Int32())
		f.body.Bool()
		f.body.Int32()
		require.EqualValues(t, CodeNoNode, f.body.Int32())
		require.EqualValues(t, OpGetChildren, f.body.Int32())
		f.body.Bool()
		f.body.Int32()
		require.Equal(t, []string{"zookeeper"}, f.body.Strs())
	})
}

func TestACL_DigestAuthAndSuper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithSuperUser("root:root"))
		r, super := attachRaw(t, s, "", 10*time.Second), attachRaw(t, s, "", 10*time.Second)
		secret := createFor("/s", ACL{proto.PermAll, "auth", ""})
		require.Equal(t, CodeInvalidACL, r.do(OpCreate, secret), "no identity yet")
		require.Equal(t, CodeOK, r.do(OpAuth, digestBody("bob:secret")))
		require.Equal(t, CodeOK, r.do(OpCreate, secret))
		n, _ := s.Node("/s")
		require.Equal(t, []ACL{{proto.PermAll, "digest", s.cfg.Access.Digest("bob:secret")}}, n.ACL)
		require.Equal(t, CodeNoAuth, super.do(OpGetData, watchBody("/s", false)))
		require.Equal(t, CodeOK, super.do(OpAuth, digestBody("root:root")))
		require.Equal(t, CodeOK, super.do(OpGetData, watchBody("/s", false)))

		require.Equal(t, CodeOK, r.do(OpSetACL, func(e *proto.Encoder) {
			e.Str("/s")
			putACLs(e, []ACL{{proto.PermRead, "world", "anyone"}, {proto.PermAll, "digest", s.cfg.Access.Digest("bob:secret")}})
			e.Int32(0)
		}))
		other := attachRaw(t, s, "", 10*time.Second)
		f, _ := other.call(OpGetACL, pathBody("/s"))
		require.Equal(t, "bob:x", takeACLs(f.body)[1].ID, "hashes are hidden from readers")
		require.Equal(t, CodeAuthFailed,
			other.do(OpAuth, func(e *proto.Encoder) { e.Int32(0); e.Str("kerberos"); e.Bytes(nil) }))
		other.closed()
	})
}

func TestACL_DigestOfAnotherHash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithDigest(sha256.New), WithSuperUser("super:test"))
		// Source: AuthSHA2Test.
		require.Equal(t, "super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=", s.cfg.Access.Digest("super:test"))
		r := attachRaw(t, s, "", 10*time.Second)
		super := func(credential string) Code {
			require.Equal(t, CodeOK, r.do(OpAuth, digestBody(credential)))
			return r.do(OpSetACL, func(e *proto.Encoder) { e.Str("/zookeeper/config"); putACLs(e, anyone); e.Int32(-1) })
		}
		require.Equal(t, CodeNoAuth, super("super:wrong"))
		require.Equal(t, CodeOK, super("super:test"))
	})
}
