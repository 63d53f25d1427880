// Package access determines who a client is, and what an ACL allows it to do.
package access

import (
	"encoding/base64"
	"hash"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// principal matches a name with a realm, as in Kerberos. Source: KerberosName.
var principal = regexp.MustCompile(`^[^/@]*(/[^/@]*)?@[^/@]*$`)

// Policy configures how clients authenticate, and whether ACLs are enforced.
type Policy struct {
	Super      string            // "user:password" of scheme digest; may be empty
	Users      map[string]string // SASL users with their passwords; nil without SASL
	SASLSupers []string
	Hash       func() hash.Hash // of scheme digest; nil without it
	X509       bool             // certificates identify clients
	NoACLs     bool
	Required   []string // schemes one of which a client must use; may be nil
	IPv6       bool     // allowed in an ACL of scheme ip
}

// Identity is one id that a connection has authenticated as.
type Identity struct{ Scheme, Name string }

// SuperUser may do everything. Operators have this identity.
var SuperUser = Identity{"super", ""}

// CheckDigest returns the identities of a client with a credential of scheme digest.
func (p *Policy) CheckDigest(credential []byte) ([]Identity, bool) {
	if credential == nil || !p.Provides("digest") {
		return nil, false
	}
	id := Identity{"digest", p.Digest(string(credential))}
	if p.Super != "" && string(credential) == p.Super {
		return []Identity{SuperUser, id}, true
	}
	return []Identity{id}, true
}

// Digest returns the id that ZooKeeper derives from "user:password".
func (p *Policy) Digest(credential string) string {
	user, _, _ := strings.Cut(credential, ":")
	sum := p.Hash()
	_, _ = io.WriteString(sum, credential) // a hash accepts everything
	return user + ":" + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// Provides reports whether the server can authenticate clients in the scheme. Source: ProviderRegistry.
func (p *Policy) Provides(scheme string) bool {
	return scheme == "ip" || scheme == "digest" && p.Hash != nil || scheme == "sasl" && p.Users != nil ||
		scheme == "x509" && p.X509
}

// Requires reports whether the scheme is the required one, or one of several from which a client must choose.
func (p *Policy) Requires(scheme string) bool { return slices.Contains(p.Required, scheme) }

// Authenticated reports whether a connection with these ids may send requests. Source: AuthenticationHelper.
func (p *Policy) Authenticated(ids []Identity) bool {
	return len(p.Required) == 0 || slices.ContainsFunc(ids, func(i Identity) bool { return p.Requires(i.Scheme) })
}

// Allowed reports whether one of the ids has the permission. An empty list allows everything, as does scheme super.
// Source: ZooKeeperServer.checkACL.
func (p *Policy) Allowed(list []proto.ACL, perm int32, ids []Identity) bool {
	if p.NoACLs || len(list) == 0 || slices.ContainsFunc(ids, func(i Identity) bool { return i.Scheme == "super" }) {
		return true
	}
	for _, a := range list {
		if a.Perms&perm == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		if slices.ContainsFunc(ids, func(i Identity) bool { return i.Scheme == a.Scheme && i.matches(a.ID) }) {
			return true
		}
	}
	return false
}

// matches reports whether an entry of the identity's scheme names the identity. The SASL user super matches every user.
// Source: SASLAuthenticationProvider, IPAuthenticationProvider.
func (i Identity) matches(expr string) bool {
	if i.Scheme != "ip" {
		return i.Name == expr || i == Identity{"sasl", "super"}
	}
	addr, ok := ipAddr(i.Name)
	prefix, valid := ipPrefix(expr)
	return ok && valid && prefix.Contains(addr)
}

// ipPrefix parses an ip id: an address, optionally followed by the number of significant leading bits.
func ipPrefix(expr string) (netip.Prefix, bool) {
	expr, length, cut := strings.Cut(expr, "/")
	addr, ok := ipAddr(expr)
	bits := addr.BitLen()
	if cut {
		n, err := strconv.Atoi(length)
		bits, ok = n, ok && err == nil && n >= 0 && n <= addr.BitLen()
	}
	return netip.PrefixFrom(addr, bits), ok
}

func ipAddr(text string) (netip.Addr, bool) {
	if !strings.Contains(text, ":") {
		return ipv4(text)
	}
	addr, err := netip.ParseAddr(text)
	return addr, err == nil && !strings.ContainsAny(text, ".%")
}

// ipv4 parses an address as leniently as ZooKeeper does, allowing leading zeros.
func ipv4(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	var b [4]byte
	if len(parts) != len(b) {
		return netip.Addr{}, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 255 {
			return netip.Addr{}, false
		}
		b[i] = byte(n)
	}
	return netip.AddrFrom4(b), true
}

// Fix validates an ACL that a client wants to set: it removes duplicates, and replaces entries with the scheme auth
// by the IDs that the client has authenticated as. Any other scheme must have a provider. Source:
// PrepRequestProcessor.fixupACL.
func (p *Policy) Fix(list []proto.ACL, ids []Identity) ([]proto.ACL, proto.Code) {
	var fixed []proto.ACL
	for i, a := range list {
		if slices.Contains(list[:i], a) {
			continue
		}
		if a.ID == proto.Null && (a.Scheme == "world" || a.Scheme != "sasl" && p.Provides(a.Scheme)) {
			return nil, proto.CodeMarshallingError // the real server breaks on it
		}
		switch a.Scheme {
		case "world":
			if a.ID != "anyone" {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		case "auth":
			before := len(fixed)
			for _, id := range ids {
				if id.Scheme == "digest" || id.Scheme == "sasl" || id.Scheme == "x509" {
					fixed = append(fixed, proto.ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.Name})
				}
			}
			if len(fixed) == before {
				return nil, proto.CodeInvalidACL
			}
		case "digest":
			if !p.Provides("digest") || !validDigest(a.ID) {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		case "sasl":
			if !p.Provides("sasl") || a.ID == "" || a.ID == proto.Null || strings.Contains(a.ID, "@") &&
				!principal.MatchString(a.ID) {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		case "x509":
			if !p.Provides("x509") || !strings.Contains(a.ID, "=") {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		case "ip":
			if prefix, ok := ipPrefix(a.ID); !ok || prefix.Addr().Is6() && !p.IPv6 {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		default:
			return nil, proto.CodeInvalidACL
		}
	}
	if len(fixed) == 0 {
		return nil, proto.CodeInvalidACL
	}
	return fixed, proto.CodeOK
}

// validDigest reports whether the id splits in two at its colons, by the rule of Java's String.split, which drops
// trailing empty parts.
func validDigest(id string) bool {
	return len(strings.Split(strings.TrimRight(id, ":"), ":")) == 2
}

// Masked hides the hashes of digest ids from readers who may not change the list.
func Masked(list []proto.ACL) []proto.ACL {
	list = slices.Clone(list)
	for i, a := range list {
		if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			list[i].ID = user + ":x"
		}
	}
	return list
}
