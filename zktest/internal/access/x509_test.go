package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// TestOfCertificate: the first name and its text were recorded from a server. The integration tests compare more of
// them with a real one.
func TestOfCertificate(t *testing.T) {
	for want, name := range map[string]pkix.RDNSequence{
		`1.2.840.113549.1.9.1=#160161,CN=alice,OU=dev+UID=7,O=Example\, Inc.,C=DE`: {
			{{Type: asn1.ObjectIdentifier{2, 5, 4, 6}, Value: "DE"}},
			{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "Example, Inc."}},
			{
				{Type: asn1.ObjectIdentifier{2, 5, 4, 11}, Value: "dev"},
				{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "7"},
			},
			{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "alice"}},
			{{
				Type:  asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1},
				Value: asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("a")},
			}},
		},
		`CN=\ a\+b\=\"c\"\\\<d\>\;\#ü\ \ `: {{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: ` a+b="c"\<d>;#ü  `}}},
		"":                                 {},
	} {
		raw, err := asn1.Marshal(name)
		require.NoError(t, err)
		id, ok := OfCertificate(&x509.Certificate{RawSubject: raw})
		require.True(t, ok)
		require.Equal(t, Identity{"x509", want}, id)
	}
	_, ok := OfCertificate(&x509.Certificate{RawSubject: []byte("x")})
	require.False(t, ok)
}

func TestACL_X509(t *testing.T) {
	p := &Policy{X509: true, Required: []string{"x509"}}
	me := []Identity{{"ip", "127.0.0.1"}, {"x509", "CN=a"}}
	require.True(t, p.Authenticated(me))
	require.False(t, p.Authenticated(me[:1]))
	list, code := p.Fix([]proto.ACL{{Perms: proto.PermAll, Scheme: "auth"}}, me)
	require.Equal(t, proto.CodeOK, code)
	require.Equal(t, []proto.ACL{{Perms: proto.PermAll, Scheme: "x509", ID: "CN=a"}}, list)
	require.True(t, p.Allowed(list, proto.PermRead, me))
	require.False(t, p.Allowed(list, proto.PermRead, me[:1]))
	for _, policy := range []*Policy{p, {}} {
		for _, id := range []string{"x", "CN=a"} {
			_, code := policy.Fix([]proto.ACL{{Perms: proto.PermAll, Scheme: "x509", ID: id}}, me)
			require.Equal(t, policy.X509 && id == "CN=a", code == proto.CodeOK)
		}
	}
}
