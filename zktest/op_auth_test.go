package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func digestBody(credential string) func(*proto.Encoder) {
	return func(e *proto.Encoder) { e.Int32(0); e.Str("digest"); e.Bytes([]byte(credential)) }
}

func TestWithoutACLs_EverythingIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := attachRaw(t, Run(t, InMemory(), WithoutACLs()), "", 10*time.Second)
		list := ACL{proto.PermRead, "digest", "bob:hash"}
		require.Equal(t, CodeOK, r.do(OpCreate, createFor("/n", list)))
		require.Equal(t, CodeOK, r.do(OpCreate, createFor("/n/child", list)))
		f, _ := r.call(OpGetACL, pathBody("/n"))
		require.Equal(t, []ACL{list}, takeACLs(f.body), "not masked")
		require.Equal(t, CodeOK, r.do(OpGetData, watchBody("/n/child", true)))
		_, told := r.call(OpDelete, versionBody("/n/child", -1))
		require.Equal(t, []event{{NodeDeleted, "/n/child"}}, told)
		require.Equal(t, CodeInvalidACL, r.do(OpCreate, createFor("/m", ACL{proto.PermAll, "digest", "no hash"})))
	})
}

func TestWithDigest_Nil_SchemeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := attachRaw(t, Run(t, InMemory(), WithDigest(nil)), "", 10*time.Second)
		for _, id := range []string{"bob:hash", proto.Null} {
			require.Equal(t, CodeInvalidACL, r.do(OpCreate, createFor("/n", ACL{proto.PermAll, "digest", id})))
		}
		require.Equal(t, CodeAuthFailed, r.do(OpAuth, digestBody("bob:secret")))
		r.closed()
	})
}

// TestWithRequiredAuth_Fail_AnswersItsError: also to a client that has not authenticated, such as one that is about to.
func TestWithRequiredAuth_Fail_AnswersItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithRequiredAuth("digest"))
		r := attachRaw(t, s, "", 10*time.Second)
		s.Intercept(Match{Op: OpAuth}, Fail(CodeThrottled))
		require.Equal(t, CodeThrottled, r.do(OpAuth, digestBody("bob:secret")))
		require.Equal(t, CodeOK, r.do(OpAuth, digestBody("bob:secret")))
	})
}

func TestWithRequiredAuth_RefusesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithRequiredAuth("digest"))
		for i, op := range []Op{OpPing, OpSync, OpCreate, OpCloseSession, Op(99)} {
			other := attachRaw(t, s, "", 10*time.Second)
			zxid := s.Zxid()
			f, _ := other.call(op, nil)
			require.Equal(t, CodeNeedsSASL, f.code, op)
			require.Zero(t, f.zxid)
			other.closed()
			require.Equal(t, zxid, s.Zxid(), "it was not looked at")
			require.Len(t, s.Sessions(), i+1, "the session ends by its timeout alone")
		}
		r := attachRaw(t, s, "", 10*time.Second)
		require.Equal(t, CodeOK, r.do(OpAuth, digestBody("bob:secret")))
		r.make("/n", Persistent)
	})
}

func TestSASL_Required(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithSASLUsers(map[string]string{"bob": "secret"}), WithRequiredAuth("sasl"))
		digest, wrong, right := attachRaw(t, s, "", 10*time.Second), attachRaw(t, s, "", 10*time.Second),
			attachRaw(t, s, "", 10*time.Second)
		require.Equal(t, CodeOK, digest.do(OpAuth, digestBody("bob:secret")))
		require.Equal(t, CodeNeedsSASL, digest.do(OpPing, nil))
		require.Equal(t, CodeNeedsSASL, wrong.logIn("bob", "wrong"))
		wrong.closed()
		require.Equal(t, CodeOK, right.logIn("bob", "secret"))
		right.make("/n", Persistent)
	})
}

func TestSASL_SuperUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithSASLUsers(map[string]string{"bob": "1", "root": "2"}), WithSASLSuperUsers("root"))
		bob, root := attachRaw(t, s, "", 10*time.Second), attachRaw(t, s, "", 10*time.Second)
		require.Equal(t, CodeOK, bob.logIn("bob", "1"))
		require.Equal(t, CodeOK, root.logIn("root", "2"))
		require.Equal(t, CodeOK,
			bob.do(OpCreate, createFor("/n", ACL{proto.PermAll, "digest", s.cfg.Access.Digest("joe:secret")})))
		require.Equal(t, CodeNoAuth, bob.do(OpGetData, watchBody("/n", false)))
		require.Equal(t, CodeOK, root.do(OpGetData, watchBody("/n", false)))
	})
}

func TestOptions_OfAuthentication_AreChecked(t *testing.T) {
	for want, opts := range map[string][]Option{
		`scheme "ip" cannot be required`:     {WithRequiredAuth("digest", "ip")},
		`scheme "sasl" cannot be required`:   {WithRequiredAuth("sasl")},
		`scheme "x509" cannot be required`:   {WithRequiredAuth("x509")},
		`scheme "digest" cannot be required`: {WithRequiredAuth("digest"), WithDigest(nil)},
		`SASL super user "root" is not one of WithSASLUs`: {
			WithSASLUsers(map[string]string{"bob": "x"}),
			WithSASLSuperUsers("root"),
		},
	} {
		_, err := Start(append(opts, InMemory())...)
		require.ErrorContains(t, err, want)
	}
}
