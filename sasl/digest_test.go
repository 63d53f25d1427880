package sasl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A challenge from ZooKeeper 3.8.0, which has no qop.
const challenge = `realm="zk-sasl-md5",nonce="MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw",charset=utf-8,algorithm=md5-sess`

func begun(t *testing.T, user, password, cnonce string) *digestExchange {
	t.Helper()
	m, err := Digest(user, password)
	require.NoError(t, err)
	e, first, err := m.Start(t.Context(), "zk1")
	require.NoError(t, err)
	require.NotNil(t, first, "the server ends the connection at null")
	require.Empty(t, first)
	of, ok := e.(*digestExchange)
	require.True(t, ok)
	of.cnonce = cnonce
	return of
}

// The values were computed by another implementation of RFC 2831: pure-sasl 0.6.2.
func TestDigest_AnswersTheChallenge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ user, password, username, response, rspauth string }{
		{`bob`, `secret`, `"bob"`, "443bbad6cb9601645ba16dd10532e059", "86475b2041076f7e8b3f632acc7cd784"},
		{`a"b\c`, `s,e=c`, `"a\"b\\c"`, "36e6a5428ebbab07e37378b507642e98", "9f564d2ba85892d1704322d6430a91f8"},
		{`日本`, `語`, `"日本"`, "025981f27b0c5c4469ccb5d6e0debeab", "0664cc4149cd4019d9c5cd1d45977b13"},
	} {
		e := begun(t, c.user, c.password, "b2Zm")
		token, done, err := e.Step([]byte(challenge))
		require.NoError(t, err)
		require.False(t, done)
		require.Equal(t,
			"charset=utf-8,username="+c.username+`,realm="zk-sasl-md5",nonce="MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw",`+
				`nc=00000001,cnonce="b2Zm",digest-uri="zookeeper/zk-sasl-md5",qop=auth,response=`+c.response, string(token))
		token, done, err = e.Step([]byte("rspauth=" + c.rspauth))
		require.NoError(t, err)
		require.True(t, done)
		require.Empty(t, token)
	}
}

func TestDigest_TakesNoServerWithoutAProof(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", "rspauth=", "rspauth=" + strings.Repeat("0", 32), challenge} {
		e := begun(t, "bob", "secret", "x")
		_, _, err := e.Step([]byte(challenge))
		require.NoError(t, err)
		_, done, err := e.Step([]byte(answer))
		require.False(t, done)
		require.ErrorContains(t, err, "did not prove")
	}
	e := begun(t, "bob", "secret", "x")
	_, done, err := e.Step(nil)
	require.False(t, done)
	require.ErrorIs(t, err, ErrUnproven)
	_, _, err = e.Step([]byte(challenge))
	require.NoError(t, err)
	_, done, err = e.Step(nil)
	require.False(t, done)
	require.ErrorIs(t, err, ErrUnproven)
}

func TestDigest_BadChallenge(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                              "has no nonce",
		`nonce="",algorithm=md5-sess`:   "has no nonce",
		`realm="x",algorithm=md5-sess`:  "has no nonce",
		`nonce="a",algorithm=md5`:       "md5-sess",
		`nonce="a"`:                     "md5-sess",
		`nonce="a",nonce="b"`:           "malformed challenge",
		`nonce="a`:                      "malformed challenge",
		`nonce="a"b,algorithm=md5-sess`: "malformed challenge",
		`nonce`:                         "malformed challenge",
		`="a"`:                          "malformed challenge",
		challenge + `,qop="auth-int"`:   "qop auth",
		challenge + `,x="` + strings.Repeat("a", 2048): "bytes",
	} {
		_, done, err := begun(t, "bob", "secret", "x").Step([]byte(text))
		require.False(t, done)
		require.ErrorContains(t, err, says, text)
	}
}

func TestDigest_ChallengeOfOtherServers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		challenge + `,qop="auth"`, challenge + `,qop="auth-conf, auth"`, challenge + `,stale=true`,
		strings.ReplaceAll(challenge, ",", ", "), `nonce="a\"b",algorithm=MD5-SESS`,
	} {
		token, _, err := begun(t, "bob", "secret", "x").Step([]byte(text))
		require.NoError(t, err, text)
		require.Contains(t, string(token), `realm="zk-sasl-md5"`)
	}
}

func TestDigest_BadInput(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"", "secret"}, {"bob", ""}, {"b\x00b", "secret"}, {"b\xffb", "secret"}} {
		_, err := Digest(c[0], c[1])
		require.ErrorContains(t, err, "sasl: ")
		require.NotContains(t, err.Error(), "secret")
	}
}

// The password used to be fixed when the client was created, so that each change required a new client. An exchange
// keeps the password with which it began.
func TestDigestFunc_AsksForEachExchange(t *testing.T) {
	t.Parallel()
	password, failure, calls := "secret", error(nil), 0
	type key struct{}
	m, err := DigestFunc("bob", func(ctx context.Context) (string, error) {
		calls++
		require.Equal(t, "of Start", ctx.Value(key{}))
		return password, failure
	})
	require.NoError(t, err)
	require.Zero(t, calls)
	ctx := context.WithValue(t.Context(), key{}, "of Start")
	first := func() *digestExchange {
		e, token, err := m.Start(ctx, "zk1")
		require.NoError(t, err)
		require.Empty(t, token)
		of, ok := e.(*digestExchange)
		require.True(t, ok)
		of.cnonce = "b2Zm"
		return of
	}
	response := func(e *digestExchange) string {
		token, _, err := e.Step([]byte(challenge))
		require.NoError(t, err)
		return string(token)
	}
	before := first()
	password = "hunter2"
	after := first()
	old, now := begun(t, "bob", "secret", "b2Zm"), begun(t, "bob", "hunter2", "b2Zm")
	require.Equal(t, response(old), response(before))
	require.Equal(t, response(now), response(after))
	require.Equal(t, 2, calls)
	password = ""
	_, _, err = m.Start(ctx, "zk1")
	require.ErrorContains(t, err, "the password of bob is empty")
	failure = errors.New("no such file")
	_, _, err = m.Start(ctx, "zk1")
	require.ErrorIs(t, err, failure)
	require.ErrorContains(t, err, "cannot get the password of bob")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.Equal(t, "DIGEST-MD5 as bob", fmt.Sprintf(format, m))
	}
}

func TestDigestFunc_BadInput(t *testing.T) {
	t.Parallel()
	good := func(context.Context) (string, error) { return "secret", nil }
	_, err := DigestFunc("bob", nil)
	require.ErrorContains(t, err, "sasl: ")
	for _, user := range []string{"", "b\x00b", "b\xffb"} {
		_, err := DigestFunc(user, good)
		require.ErrorContains(t, err, "sasl: ")
	}
}

func TestDigest_PrintsNoPassword(t *testing.T) {
	t.Parallel()
	m, err := Digest("bob", "hunter2")
	require.NoError(t, err)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.Equal(t, "DIGEST-MD5 as bob", fmt.Sprintf(format, m))
	}
}

// Whatever a server sends, the client does not panic, does not accept it as a proof, and never sends the password.
func FuzzDigest(f *testing.F) {
	f.Add([]byte(challenge), []byte("rspauth=0"))
	f.Add([]byte(`nonce="a\`), []byte(nil))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		e := begun(t, "bob", "hunter2", "x")
		token, done, err := e.Step(first)
		require.False(t, done)
		require.NotContains(t, string(token), "hunter2")
		require.LessOrEqual(t, len(token), 4096, "the server takes no more")
		if err != nil {
			return
		}
		_, done, err = e.Step(second)
		require.Equal(t, done, err == nil)
		require.Equal(t, done, string(second) == "rspauth="+e.proof)
	})
}
