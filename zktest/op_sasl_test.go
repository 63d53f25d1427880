package zktest

import (
	"crypto/md5"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func saslBody(token string) func(*proto.Encoder) {
	return func(e *proto.Encoder) { e.Bytes([]byte(token)) }
}

func TestSASL_AuthenticatedConnection_HasItsUser(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		f, _ := r.call(OpSASL, saslBody(""))
		challenge := string(f.body.Bytes())
		require.Contains(t, challenge, `realm="zk-sasl-md5"`)
		f, _ = r.call(OpSASL, saslBody(digestAnswer("bob", "secret", nonceIn(challenge))))
		require.Equal(t, CodeOK, f.code)
		require.Contains(t, string(f.body.Bytes()), "rspauth=")
		require.Equal(t, CodeOK, r.do(OpCreate, createFor("/mine", ACL{proto.PermAll, "sasl", "bob"})))
		require.Equal(t, CodeOK, r.do(OpGetData, watchBody("/mine", false)))
		other := attachRaw(t, s, "", 10*time.Second)
		require.Equal(t, CodeNoAuth, other.do(OpGetData, watchBody("/mine", false)))

		f, _ = other.call(OpSASL, saslBody(""))
		nonce := nonceIn(string(f.body.Bytes()))
		require.Equal(t, CodeAuthFailed, other.do(OpSASL, saslBody(digestAnswer("bob", "wrong", nonce))))
		other.closed()
	}, WithSASLUsers(map[string]string{"bob": "secret"}))
}

// logIn authenticates with SASL.
func (r *raw) logIn(user, password string) Code {
	r.t.Helper()
	f, _ := r.call(OpSASL, saslBody(""))
	return r.do(OpSASL, saslBody(digestAnswer(user, password, nonceIn(string(f.body.Bytes())))))
}

func createFor(path string, acl ...ACL) func(*proto.Encoder) {
	return func(e *proto.Encoder) { e.Str(path); e.Bytes(nil); putACLs(e, acl); e.Int32(0) }
}

func TestSASL_UserSuper_IsEveryUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithSASLUsers(map[string]string{"bob": "1", "super": "2"}))
		bob, super := attachRaw(t, s, "", 10*time.Second), attachRaw(t, s, "", 10*time.Second)
		require.Equal(t, CodeOK, bob.logIn("bob", "1"))
		require.Equal(t, CodeOK, super.logIn("super", "2"))
		require.Equal(t, CodeOK, bob.do(OpCreate, createFor("/sasl", ACL{proto.PermAll, "sasl", "joe"})))
		require.Equal(t, CodeOK,
			bob.do(OpCreate, createFor("/digest", ACL{proto.PermAll, "digest", s.cfg.Access.Digest("joe:secret")})))
		require.Equal(t, CodeNoAuth, bob.do(OpGetData, watchBody("/sasl", false)))
		require.Equal(t, CodeOK, super.do(OpGetData, watchBody("/sasl", false)))
		require.Equal(t, CodeNoAuth, super.do(OpGetData, watchBody("/digest", false)))
	})
}

// nonceIn returns the nonce in a challenge.
func nonceIn(challenge string) string {
	_, rest, _ := strings.Cut(challenge, `nonce="`)
	nonce, _, _ := strings.Cut(rest, `"`)
	return nonce
}

// digestAnswer answers a challenge as a client does.
func digestAnswer(user, password, nonce string) string {
	fields := `charset=utf-8,username="` + user + `",realm="zk-sasl-md5",nonce="` + nonce +
		`",nc=00000001,cnonce="abc\"def",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,qop=auth`
	return fields + ",response=" + clientDigest(user, password, nonce)
}

func TestSASL_NotConfigured_IsAnsweredWithoutAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := attachRaw(t, Run(t, InMemory()), "", 10*time.Second)
		f, _ := r.call(OpSASL, saslBody(""))
		require.Equal(t, CodeOK, f.code)
		require.Nil(t, f.body.Bytes())
	})
}

// clientDigest returns the response of RFC 2831, section 2.1.2.1, for the fields of digestAnswer.
func clientDigest(user, password, nonce string) string {
	h := func(text string) string {
		sum := md5.Sum([]byte(text))
		return string(sum[:])
	}
	x := func(text string) string { return fmt.Sprintf("%x", h(text)) }
	const cnonce = `abc"def`
	a1 := h(user+":zk-sasl-md5:"+password) + ":" + nonce + ":" + cnonce
	return x(x(a1) + ":" + nonce + ":00000001:" + cnonce + ":auth:" + x("AUTHENTICATE:zookeeper/zk-sasl-md5"))
}

func TestSASL_NamesInACLs_AreThoseOfKerberos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := attachRaw(t, Run(t, InMemory(), WithSASLUsers(map[string]string{"bob": "secret"})), "", 10*time.Second)
		for id, want := range map[string]Code{
			"user": CodeOK, "service/host.name": CodeOK, "user@REALM": CodeOK, "service/host.name@REALM": CodeOK,
			"user@REALM/host": CodeInvalidACL, "user@REALM@REALM": CodeInvalidACL,
		} {
			path := "/" + strings.ReplaceAll(id, "/", "-")
			require.Equal(t, want, r.do(OpCreate, createFor(path, ACL{proto.PermAll, "sasl", id})), id)
		}
	})
}
