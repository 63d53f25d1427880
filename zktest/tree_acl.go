package zktest

import (
	"encoding/base64"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// openACL is what operators create nodes with.
var openACL = []proto.ACL{{Perms: proto.PermAll, Scheme: "world", ID: "anyone"}}

// principal is a name with a realm, as Kerberos has them. Source: KerberosName.
var principal = regexp.MustCompile(`^[^/@]*(/[^/@]*)?@[^/@]*$`)

// identity is one id that a connection has authenticated as.
type identity struct{ scheme, id string }

// digest returns the id that ZooKeeper makes of "user:password".
func (c *config) digest(credential string) string {
	user, _, _ := strings.Cut(credential, ":")
	sum := c.hash()
	_, _ = io.WriteString(sum, credential) // a hash takes everything
	return user + ":" + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// provides says whether the server can authenticate clients in the scheme. Source: ProviderRegistry.
func (c *config) provides(scheme string) bool {
	return scheme == "ip" || scheme == "digest" && c.hash != nil || scheme == "sasl" && c.users != nil
}

// authenticated says whether a connection with these ids may send requests. Source: AuthenticationHelper.
func (c *config) authenticated(ids []identity) bool {
	return len(c.required) == 0 || slices.ContainsFunc(ids, func(i identity) bool { return slices.Contains(c.required, i.scheme) })
}

// allowed says whether one of the ids has the permission. An empty list allows everything, as does scheme super.
// Source: ZooKeeperServer.checkACL.
func (c *config) allowed(list []proto.ACL, perm int32, ids []identity) bool {
	if c.noACLs || len(list) == 0 || slices.ContainsFunc(ids, func(i identity) bool { return i.scheme == "super" }) {
		return true
	}
	for _, a := range list {
		if a.Perms&perm == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		if slices.ContainsFunc(ids, func(i identity) bool { return i.scheme == a.Scheme && i.matches(a.ID) }) {
			return true
		}
	}
	return false
}

// matches says whether the identity is what an entry of its scheme names. The user super of SASL is every user.
// Source: SASLAuthenticationProvider, IPAuthenticationProvider.
func (i identity) matches(expr string) bool {
	if i.scheme != "ip" {
		return i.id == expr || i == identity{"sasl", "super"}
	}
	addr, ok := ipAddr(i.id)
	prefix, valid := ipPrefix(expr)
	return ok && valid && prefix.Contains(addr)
}

// ipPrefix parses an ip id: an address, or one and the number of its leading bits that count.
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

// ipv4 parses an address as leniently as ZooKeeper does: leading zeros are fine.
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

// fixACL checks a list that a client wants to set: duplicates go, scheme auth becomes the ids the client has
// authenticated with. Other schemes must be provided. Source: PrepRequestProcessor.fixupACL.
func (c *config) fixACL(list []proto.ACL, ids []identity) ([]proto.ACL, proto.Code) {
	var fixed []proto.ACL
	for i, a := range list {
		if slices.Contains(list[:i], a) {
			continue
		}
		if a.ID == proto.Null && (a.Scheme == "world" || a.Scheme != "sasl" && c.provides(a.Scheme)) {
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
				if id.scheme == "digest" || id.scheme == "sasl" {
					fixed = append(fixed, proto.ACL{Perms: a.Perms, Scheme: id.scheme, ID: id.id})
				}
			}
			if len(fixed) == before {
				return nil, proto.CodeInvalidACL
			}
		case "digest":
			if !c.provides("digest") || !validDigest(a.ID) {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		case "sasl":
			if !c.provides("sasl") || a.ID == "" || a.ID == proto.Null || strings.Contains(a.ID, "@") && !principal.MatchString(a.ID) {
				return nil, proto.CodeInvalidACL
			}
			fixed = append(fixed, a)
		case "ip":
			if prefix, ok := ipPrefix(a.ID); !ok || prefix.Addr().Is6() && !c.traits.ipv6 {
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

// validDigest says whether the id splits in two at its colons, by the rule of Java's String.split, which drops empty
// parts at the end.
func validDigest(id string) bool {
	return len(strings.Split(strings.TrimRight(id, ":"), ":")) == 2
}

// masked hides the hashes of digest ids from readers who may not change the list.
func masked(list []proto.ACL) []proto.ACL {
	list = slices.Clone(list)
	for i, a := range list {
		if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			list[i].ID = user + ":x"
		}
	}
	return list
}
