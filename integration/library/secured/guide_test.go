package secured

import (
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/kdc"
	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
)

// guide returns a function that finds a code block in the guide by a text in it.
func guide(t *testing.T) func(with string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/guides/secured.md")
	require.NoError(t, err)
	return func(with string) string {
		for _, text := range regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
			if strings.Contains(text[1], with) {
				return strings.TrimSpace(text[1])
			}
		}
		t.Fatalf("the guide has no block with %s", with)
		return ""
	}
}

// settings returns the lines of a zoo.cfg as options, after replacing texts.
func settings(text string, oldnew ...string) (opts []zkserver.Option) {
	for line := range strings.Lines(strings.NewReplacer(oldnew...).Replace(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		opts = append(opts, zkserver.WithSetting(name, value))
	}
	return opts
}

// properties returns Java properties as options, after replacing texts.
func properties(text string, oldnew ...string) (opts []zkserver.Option) {
	for property := range strings.FieldsSeq(strings.NewReplacer(oldnew...).Replace(text)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(property, "-D"), "=")
		opts = append(opts, zkserver.WithProperty(name, value))
	}
	return opts
}

// directory is where programs are built.
var directory string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "secured-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	directory = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // a directory left in /tmp is not a failure
	os.Exit(code)
}

// build builds zkr, once.
var build = sync.OnceValues(func() (string, error) {
	program := filepath.Join(directory, "zkr")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = "../../../cmd/zkr"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/zkr: %w: %s", err, out)
	}
	return program, nil
})

// zkr runs a command of the guide, after replacing texts, against other servers.
func zkr(t *testing.T, servers, text string, oldnew ...string) string {
	t.Helper()
	program, err := build()
	require.NoError(t, err)
	words := strings.Fields(strings.NewReplacer(append(oldnew, "-- nightly", "-- echo locked")...).Replace(text))
	require.Equal(t, "zkr", words[0])
	cmd := exec.CommandContext(t.Context(), program, words[1:]...)
	cmd.Env = append(os.Environ(), "ZKR_SERVERS="+servers)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestGuide_KerberosIsAsPrinted(t *testing.T) {
	block := guide(t)
	k := kdc.Start(t)
	k.Admin("addprinc -randkey zookeeper/zk1.example.com", "addprinc -randkey worker")
	k.Keytab("zk.keytab", "zookeeper/zk1.example.com")
	file := k.Keytab("worker.keytab", "worker")
	t.Setenv("KRB5_CONFIG", k.Config())
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	require.NoError(t, os.WriteFile(jaas, []byte(strings.ReplaceAll(block("Krb5LoginModule"), "/etc/zookeeper/zk.keytab",
		k.Path("zk.keytab"))), 0o600))
	opts := append(settings(block("authProvider.sasl")),
		properties(block("-Djava.security.krb5.conf"), "/etc/zookeeper/jaas.conf", jaas, "/etc/krb5.conf", k.Config())...)
	s := zkserver.Start(t, opts...)

	call := regexp.MustCompile(`zkkerberos.Keytab\("(.*)", "(.*)"\)`).FindStringSubmatch(block("zkkerberos.Keytab"))
	require.NotNil(t, call)
	who, err := zkkerberos.Keytab(file, call[2])
	c, err := conn.Dial(t.Context(), "zk1.example.com", conn.WithDialer((&line{addr: s.Addr()}).dial),
		conn.WithSASL(made(t, who, err)),
		conn.WithACL(zk.AuthACL(zk.PermAll)), silent)
	require.NoError(t, err)
	defer c.Close()
	lock(t, c, "/jobs/nightly")
	list, _, err := c.ACL(t.Context(), "/jobs/nightly")
	require.NoError(t, err)
	require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "worker@EXAMPLE.COM"}}, list, "as the guide says")

	t.Setenv("ZKR_KERBEROS_SERVER", "zookeeper/zk1.example.com") // here the server has only an address
	require.Equal(t, "locked\n", zkr(t, s.Addr(), block("zkr lock --kerberos"), "/etc/zkr/zkr.keytab", file))
	t.Setenv("KRB5CCNAME", k.Kinit("cc", "worker", "", "-k", "-t", file))
	require.Contains(t, zkr(t, s.Addr(), "zkr doctor --kerberos /jobs/nightly"),
		"access: sasl:worker@EXAMPLE.COM may delete the contenders below /jobs/nightly")
}

func TestGuide_CertificatesAreAsPrinted(t *testing.T) {
	block := guide(t)
	a := newAuthority(t)
	host := loopback.Block()(1)
	a.issue("server.pem", pkix.Name{CommonName: "zk1"}, net.ParseIP(host))
	a.issue("tls.crt", pkix.Name{CommonName: "worker", Organization: []string{"Example, Inc."}})
	opts := settings(block("secureClientPort"), "/etc/zookeeper", a.dir)
	s := zkserver.Start(t, append(opts, zkserver.WithSetting("secureClientPortAddress", host))...)
	addr := net.JoinHostPort(host, "2281")
	c, err := conn.Dial(t.Context(), addr, conn.WithTLSFunc(a.config("tls.crt")), conn.WithACL(zk.AuthACL(zk.PermAll)),
		silent)
	require.NoError(t, err)
	defer c.Close()
	lock(t, c, "/jobs/nightly")
	list, _, err := c.ACL(t.Context(), "/jobs/nightly")
	require.NoError(t, err)
	require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: `CN=worker,O=Example\, Inc.`}}, list,
		"as the guide says")
	require.Contains(t, block("zkr lock --tls-ca"), "/run/certs/tls.key")
	require.Equal(t, "locked\n", zkr(t, addr, block("zkr lock --tls-ca"), "/run/certs/tls.key", a.path("tls.crt"),
		"/run/certs", a.dir))

	unknown(t, s.Addr())
}

func lock(t *testing.T, c *conn.Client, path string) {
	t.Helper()
	m, err := mutex.New(c, path)
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Release(t.Context()))
}
