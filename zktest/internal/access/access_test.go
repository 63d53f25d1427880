package access

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// TestSASL_ExampleOfTheStandard is the example of RFC 2831, section 4.
func TestSASL_ExampleOfTheStandard(t *testing.T) {
	const nonce = "OA6MG9tEQGm2hh"
	token := `charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,` +
		`cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth`
	ids, proof, ok := (&Policy{Users: map[string]string{"chris": "secret"}}).CheckAnswer(token, nonce)
	require.True(t, ok)
	require.Equal(t, []Identity{{"sasl", "chris"}}, ids)
	require.Equal(t, "ea40f60335c427b5527b84dbabcdfffd", proof)
	for _, users := range []map[string]string{{"chris": "wrong"}, {"bob": "secret"}} {
		_, _, ok = (&Policy{Users: users}).CheckAnswer(token, nonce)
		require.False(t, ok)
	}
	_, _, ok = (&Policy{Users: map[string]string{"chris": "secret"}}).CheckAnswer(token, "another")
	require.False(t, ok)
}

func TestACL_IPMatchesLeadingBits(t *testing.T) {
	me := []Identity{{"ip", "127.0.0.1"}}
	for expr, want := range map[string]bool{
		"127.0.0.1": true, "127.1.2.3/8": true, "127.0.0.2/31": false, "127.0.0.1/33": false, "10.0.0.0/0": true, "x": false,
	} {
		require.Equal(t, want, (&Policy{}).Allowed([]proto.ACL{{Perms: proto.PermRead, Scheme: "ip", ID: expr}},
			proto.PermRead, me), expr)
	}
}
