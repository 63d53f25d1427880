package access

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"slices"
	"strings"
)

// keywords are the attribute types that have a keyword in a name by RFC 2253. Source: AVAKeyword of the JDK.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
	"2.5.4.11":                   "OU",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// attribute is a part of a name.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeSET is a relative distinguished name, which may have several parts. The suffix makes package asn1 parse it as
// a SET.
type relativeSET []attribute

// OfCertificate returns the identity of a client with a certificate: its subject, formatted by RFC 2253 as Java does.
//
// Source: X509AuthenticationProvider.getClientId; X500Principal.getName, AVA.toRFC2253String.
func OfCertificate(c *x509.Certificate) (Identity, bool) {
	var name []relativeSET
	if rest, err := asn1.Unmarshal(c.RawSubject, &name); err != nil || len(rest) > 0 {
		return Identity{}, false
	}
	slices.Reverse(name)
	var all []string
	for _, one := range name {
		var parts []string
		for _, a := range one {
			parts = append(parts, a.String())
		}
		all = append(all, strings.Join(parts, "+"))
	}
	return Identity{"x509", strings.Join(all, ",")}, true
}

func (a attribute) String() string {
	word, known := keywords[a.Type.String()]
	if !known {
		return a.Type.String() + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return word + "=" + escaped(string(a.Value.Bytes))
}

// escaped returns a value as it appears in a name: with a backslash before some characters, and before blanks at its
// ends.
func escaped(value string) string {
	var b strings.Builder
	last := len(strings.TrimRight(value, " "))
	first := len(value) - len(strings.TrimLeft(value, " "))
	for i, r := range value {
		if strings.ContainsRune(`,=+<>#;"\`, r) || r == ' ' && (i < first || i >= last) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
