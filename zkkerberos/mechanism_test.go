package zkkerberos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const configText = "[libdefaults]\n default_realm = TEST.LOCAL\n"

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestNew_BadInput(t *testing.T) {
	t.Parallel()
	good := WithConfig(file(t, "krb5.conf", configText))
	for says, begin := range map[string]func() (*Mechanism, error){
		"option 1 is nil": func() (*Mechanism, error) {
			return Password("alice", "hunter2", good, nil)
		},
		"logger: nil": func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithLogger(nil))
		},
		"configuration: empty file name": func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithConfig(""))
		},
		`server "zookeeper/_HOST@": want`: func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithServer("zookeeper/_HOST@"))
		},
		`server "": want`: func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithServer(""))
		},
		"krb5.conf: open /nonexistent": func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithConfig("/nonexistent"))
		},
		"the password is empty":   func() (*Mechanism, error) { return Password("alice", "", good) },
		`principal "": want`:      func() (*Mechanism, error) { return Password("", "hunter2", good) },
		`principal "a@b@c": want`: func() (*Mechanism, error) { return Password("a@b@c", "hunter2", good) },
		"it has no realm": func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithConfig(os.DevNull))
		},
		"keytab /nonexistent: open":               func() (*Mechanism, error) { return Keytab("/nonexistent", "", good) },
		"credential cache FILE:/nonexistent":      func() (*Mechanism, error) { return Cache("FILE:/nonexistent", good) },
		"credential cache KCM:: only file caches": func() (*Mechanism, error) { return Cache("KCM:", good) },
		"malformed data":                          func() (*Mechanism, error) { return Cache(file(t, "empty", ""), good) },
		"has no keys: export it again": func() (*Mechanism, error) {
			return Keytab(file(t, "none", "\x05\x02\x00\x00\x00\x00"), "", good)
		},
		"more than 10 files include each other": func() (*Mechanism, error) {
			return Password("alice", "hunter2", WithConfig(circle(t)))
		},
		"error processing libdefaults section": func() (*Mechanism, error) {
			return Password("a", "b", WithConfig(file(t, "c", "[libdefaults]\nx\n")))
		},
	} {
		_, err := begin()
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "zkkerberos: ")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// A principal without a realm belongs to the default realm, even if the keytab only has its name in another one.
func TestKeytab_Principal(t *testing.T) {
	t.Parallel()
	config := WithConfig(file(t, "krb5.conf", configText))
	keys := keytabFile(t, time.Now(), map[string]string{"alice": "a", "bob@OTHER": "b"})
	for principal, want := range map[string]string{
		"alice": "alice@TEST.LOCAL", "alice@TEST.LOCAL": "alice@TEST.LOCAL", "bob@OTHER": "bob@OTHER",
	} {
		m, err := Keytab(keys, principal, config)
		require.NoError(t, err)
		require.Equal(t, "GSSAPI as "+want, m.String())
	}
	for principal, want := range map[string]string{
		"bob":         "has no key of bob@TEST.LOCAL, only of [alice@TEST.LOCAL bob@OTHER]",
		"alice@OTHER": "has no key of alice@OTHER",
		"":            "has 2 principals: name one of [alice@TEST.LOCAL bob@OTHER]",
		"@OTHER":      "want one such as name@REALM",
	} {
		_, err := Keytab(keys, principal, config)
		require.ErrorContains(t, err, want)
	}
	_, err := Keytab(keys, "alice", WithConfig(os.DevNull))
	require.ErrorContains(t, err, "principal alice: it has no realm, and krb5.conf has no default_realm")
}

func circle(t *testing.T) string {
	t.Helper()
	path := file(t, "krb5.conf", "")
	require.NoError(t, os.WriteFile(path, []byte("include "+path+"\n"), 0o600))
	return path
}

func TestMechanism_PrintsNoPassword(t *testing.T) {
	t.Parallel()
	m, err := Password("alice", "hunter2", WithConfig(file(t, "krb5.conf", configText)))
	require.NoError(t, err)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.Equal(t, "GSSAPI as alice@TEST.LOCAL", fmt.Sprintf(format, m))
	}
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
}

func TestStart_NilContext(t *testing.T) {
	t.Parallel()
	m, err := Password("alice", "hunter2", WithConfig(file(t, "krb5.conf", configText)))
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	var none context.Context
	_, _, err = m.Start(none, "zk1")
	require.ErrorContains(t, err, "the context is nil")
}

// The configuration is parsed as by MIT's library: files include others, sections with the same name are merged, and
// the first of two values counts.
func TestReadConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.conf": "[realms]\n A = {\n  kdc = a:88\n }\n[libdefaults]\n default_realm = A\n", ".hidden.conf": "[libdefaults\n",
		"b.conf~": "[libdefaults]\nx\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	first := file(t, "krb5.conf",
		"includedir "+dir+"\n# a comment\n[libdefaults]\n default_realm = B\n ticket_lifetime = 1h\n"+
			"[realms]\n B = {\n  kdc = b:88\n v4_name = x\n }\n")
	second := file(t, "more.conf", "[realms]\n C = {\n  kdc = c:88\n }\n")
	c, err := readConfig(first + string(os.PathListSeparator) + second)
	require.NoError(t, err)
	require.Equal(t, "A", c.LibDefaults.DefaultRealm)
	for _, realm := range []string{"A", "B", "C"} {
		n, _, err := c.GetKDCs(realm, true)
		require.NoError(t, err)
		require.Equal(t, 1, n, realm)
	}
}

// Of several files, those that cannot be read are skipped, as by MIT's library. This does not apply to included ones.
func TestReadConfig_FilesThatAreMissing(t *testing.T) {
	t.Parallel()
	const list = string(os.PathListSeparator)
	good, include := file(t, "krb5.conf", configText), file(t, "include", "include /nonexistent\n")
	for _, names := range []string{"/nonexistent" + list + good, good + list + "/nonexistent" + list + "/none"} {
		c, err := readConfig(names)
		require.NoError(t, err)
		require.Equal(t, "TEST.LOCAL", c.LibDefaults.DefaultRealm)
	}
	for _, names := range []string{"/nonexistent", "/none" + list + "/nonexistent", good + list + include} {
		_, err := readConfig(names)
		require.ErrorContains(t, err, "krb5.conf: open /none")
		require.ErrorContains(t, err, "/nonexistent")
	}
}

func TestParsePrincipal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]principal{
		"alice": {"alice", ""}, "zookeeper/zk1@A": {"zookeeper/zk1", "A"}, "x/y/z@A.B": {"x/y/z", "A.B"},
	} {
		got, err := parsePrincipal(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "@A", "alice@", "a b", "a@b@c", `a\@b`} {
		_, err := parsePrincipal(text)
		require.ErrorContains(t, err, "want one such as name@REALM")
	}
}
