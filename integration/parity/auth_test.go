package parity

import (
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How a client must authenticate, and what that permits, depends on the configuration of the server. In each case
// clients with different identities send the same requests.
var authCases = []struct {
	name       string
	properties []string // of the real server
	opts       []zktest.Option
}{
	{"no access lists", []string{"zookeeper.skipACL=yes"}, []zktest.Option{zktest.WithoutACLs()}},
	{
		"no digest",
		[]string{"zookeeper.DigestAuthenticationProvider.enabled=false"},
		[]zktest.Option{zktest.WithDigest(nil)},
	},
	{
		"super user",
		[]string{"zookeeper.DigestAuthenticationProvider.superDigest=" + digest("root:secret")},
		[]zktest.Option{zktest.WithSuperUser("root:secret")},
	},
	{
		"digest required",
		[]string{"zookeeper.enforce.auth.enabled=true", "zookeeper.enforce.auth.schemes=digest"},
		[]zktest.Option{zktest.WithRequiredAuth("digest")},
	},
	{
		"SASL",
		[]string{saslProvider, "zookeeper.superUser=root"},
		[]zktest.Option{zktest.WithSASLUsers(saslUsers), zktest.WithSASLSuperUsers("root")},
	},
	{
		"SASL required",
		[]string{saslProvider, "zookeeper.sessionRequireClientSASLAuth=true"},
		[]zktest.Option{zktest.WithSASLUsers(saslUsers), zktest.WithRequiredAuth("sasl")},
	},
}

const saslProvider = "zookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"

var saslUsers = map[string]string{"bob": "b", "root": "r", "super": "s"}

// logins are how clients authenticate; the first does not.
var logins = []Op{
	{},
	{Code: opAuth, Scheme: "digest", Auth: "u1:p1"},
	{Code: opAuth, Scheme: "digest", Auth: "root:secret"},
	{Code: opAuth, Scheme: "ip"},
	{Code: opSASL, Auth: "bob:b"},
	{Code: opSASL, Auth: "bob:wrong"},
	{Code: opSASL, Auth: "root:r"},
	{Code: opSASL, Auth: "super:s"},
	{Code: opSASL, Auth: "bob:b", Scheme: early},
	{Code: opSASL, Auth: "bob:b", Scheme: twice},
}

// How a SASL login differs from that of other clients.
const (
	early = "first token not empty"
	twice = "another token after the last"
)

func authRequests() (ops []Op) {
	for _, name := range []string{"open", "digest", "auth", "sasl"} {
		list := slices.IndexFunc(acls, func(list []acl) bool {
			return len(list) == 1 && list[0].scheme == name &&
				list[0].perms == 31
		})
		node := "/" + name
		ops = append(ops,
			Op{Code: opCreate, Path: node, ACL: max(0, list)},
			Op{Code: opGetData, Path: node, Watch: true},
			Op{Code: opSetData, Path: node},
			Op{Code: opGetACL, Path: node},
			Op{Code: opCreate2, Path: node + "/child", ACL: max(0, list)},
			Op{Code: opGetChildren2, Path: node},
			Op{Code: opMulti, Ops: []Op{{Code: opSetData, Path: node}, {Code: opCheck, Path: node}}},
			Op{Code: opDelete, Path: node + "/child"},
			Op{Code: opSetACL, Path: node, ACL: max(0, list)},
		)
	}
	return append(ops, Op{Code: opWhoAmI}, Op{Code: opPing}, Op{Code: opClose})
}

func TestAuth_ZktestAgreesWithReal(t *testing.T) {
	for _, c := range authCases {
		t.Run(c.name, func(t *testing.T) {
			// No session may expire meanwhile, because that takes a zxid.
			timeouts := zkserver.WithSessionTimeouts(time.Second, time.Hour)
			opts := []zkserver.Option{timeouts}
			if slices.Contains(c.properties, saslProvider) {
				opts = append(opts, zkserver.WithProperty("java.security.auth.login.config", loginConfig(t)),
					zkserver.WithProperty("zookeeper.fips-mode", "false")) // since 3.9.6 the default rules out MD5
			}
			for _, p := range c.properties {
				name, value, _ := strings.Cut(p, "=")
				opts = append(opts, zkserver.WithProperty(name, value))
			}
			s := zkserver.Start(t, opts...)
			z := zktest.Run(t, append(c.opts, zktest.WithRelease(release(t, s)),
				zktest.WithSessionTimeouts(time.Second, time.Hour))...)
			granted := 0
			for _, login := range logins {
				theirs, ours := converse(t, s.Addr(), login), converse(t, z.Addr(), login)
				for i := range theirs {
					if theirs[i] != ours[i] {
						t.Errorf("%v:\nzookeeper %s\nzktest    %s", login, theirs[i], ours[i])
					}
					if strings.Contains(theirs[i], "err=0") {
						granted++
					}
				}
			}
			t.Log(granted, "requests granted")
			if granted == 0 {
				t.Error("the case shows nothing")
			}
		})
	}
}

// loginConfig writes the SASL users in the format of a real server.
func loginConfig(t *testing.T) (file string) {
	t.Helper()
	var users strings.Builder
	for user, password := range saslUsers {
		fmt.Fprintf(&users, " user_%s=%q", user, password)
	}
	file = filepath.Join(t.TempDir(), "jaas.conf")
	text := "Server { org.apache.zookeeper.server.auth.DigestLoginModule required" + users.String() + "; };"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// converse is one connection of a client that authenticates, or not, and sends all requests. It returns the reply to
// each.
func converse(t *testing.T, addr string, login Op) []string {
	t.Helper()
	r := newRun(addr)
	defer r.finish()
	zxid := zxidWord.FindStringSubmatch(fourLetter(t, addr, "srvr"))
	base, err := strconv.ParseInt(zxid[1], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	r.base = base
	if _, err := r.connect(Op{Code: stepConnect, Timeout: 3_600_000}); err != nil {
		t.Fatal(err)
	}
	ops := authRequests()
	var all []string
	switch login.Code {
	case opAuth:
		ops = slices.Insert(ops, 0, login)
	case opSASL:
		all = append(all, fmt.Sprintf("sasl: %d", r.logIn(t, login)))
	default: // it stays unauthenticated
	}
	for _, o := range ops {
		var got []string
		if err := r.perform([]Op{o}, &got); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%v: %q", o, got))
	}
	return all
}

var zxidWord = regexp.MustCompile(`Zxid: 0x([0-9a-f]+)`)

// logIn authenticates with DIGEST-MD5, RFC 2831, as far as the server allows. It returns the last code.
func (r *run) logIn(t *testing.T, o Op) int32 {
	t.Helper()
	var first []byte
	if o.Scheme == early {
		first = []byte("x")
	}
	challenge, code := r.token(t, first)
	nonce := challengeNonce.FindSubmatch(challenge)
	if nonce == nil {
		return code // the server does not support SASL
	}
	user, password, _ := strings.Cut(o.Auth, ":")
	const realm, cnonce, uri = "zk-sasl-md5", "c", "zookeeper/zk-sasl-md5"
	hash := func(text string) string {
		sum := md5.Sum([]byte(text))
		return string(sum[:])
	}
	hex := func(text string) string { return fmt.Sprintf("%x", hash(text)) }
	a1 := fmt.Sprintf("%s:%s:%s", hash(user+":"+realm+":"+password), nonce[1], cnonce)
	response := hex(fmt.Sprintf("%s:%s:00000001:%s:auth:%s", hex(a1), nonce[1], cnonce, hex("AUTHENTICATE:"+uri)))
	_,
		code = r.token(t,
		fmt.Appendf(nil,
			`charset=utf-8,username=%q,realm=%q,nonce="%s",nc=00000001,cnonce=%q,digest-uri=%q,maxbuf=65536,response=%s,qop=auth`,
			user, realm, nonce[1], cnonce, uri, response))
	if o.Scheme == twice {
		_, code = r.token(t, nil)
	}
	return code
}

var challengeNonce = regexp.MustCompile(`nonce="([^"]*)"`)

// token sends a SASL token, and returns the server's answer.
func (r *run) token(t *testing.T, token []byte) (answer []byte, code int32) {
	t.Helper()
	s := r.slots[0]
	var w writer
	s.xid++
	w.int(s.xid)
	w.int(int32(opSASL))
	w.buffer(append([]byte{}, token...))
	if _, err := s.Write(framed(w)); err != nil {
		t.Fatal(err)
	}
	frame, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	in := reader{rest: frame}
	in.int()
	in.long()
	code = in.int()
	return in.buffer(), code
}
