package secured

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/kdc"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/sasl"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
)

var (
	renewals = flag.Int("renewals", 2, "how many tickets end during a hold")
	lifetime = flag.Duration("lifetime", 4*time.Second, "of these tickets, in whole seconds")
)

// life is slightly longer than the lifetime of a ticket of the principal short.
const life = 4*time.Second + later

const later = 200 * time.Millisecond

// realm returns a key distribution center with the users of the tests and the keytab of the servers.
func realm(t *testing.T) *kdc.KDC {
	t.Helper()
	k := kdc.Start(t)
	k.Admin("addprinc -randkey zookeeper/localhost", "addprinc -randkey zookeeper/elsewhere",
		"addprinc -randkey +requires_preauth alice",
		"addprinc -randkey bob/host.example", "addprinc -pw secret carol", "addprinc +requires_preauth -pw hunter2 dave",
		"addprinc -randkey -maxlife 4sec short",
		fmt.Sprintf("addprinc -randkey -maxlife %dsec brief", *lifetime/time.Second))
	k.Keytab("zk.keytab", "zookeeper/localhost")
	return k
}

// kerberosServer starts a server with GSSAPI and additional lines of zoo.cfg.
func kerberosServer(t *testing.T, k *kdc.KDC, release string, more ...zkserver.Option) *zkserver.Server {
	t.Helper()
	jaas := k.JAAS("Server", k.Path("zk.keytab"), "zookeeper/localhost")
	return zkserver.Start(t, append(more, zkserver.WithRelease(release), zkserver.WithSessionTimeouts(0, time.Minute),
		zkserver.WithProperty("java.security.auth.login.config", jaas),
		zkserver.WithProperty("java.security.krb5.conf", k.Config()),
		zkserver.WithSetting("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"))...)
}

// long is a session that outlives the pauses of a loaded machine.
var long = conn.WithSessionTimeout(30 * time.Second)

// line is a client's connection to a server, which it knows as localhost.
type line struct {
	mu   sync.Mutex
	addr string
	open []net.Conn
}

func (l *line) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, l.addr)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, c)
	}
	return c, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// fails retries a call that cannot succeed until its error contains the expected text. On a loaded machine the first
// call may end before there is an answer.
func fails(t *testing.T, says string, call func(ctx context.Context) error) {
	t.Helper()
	_ = failure(t, says, call) // it checks the text
}

// failure is fails, and returns the error.
func failure(t *testing.T, says string, call func(ctx context.Context) error) (err error) {
	t.Helper()
	for limit := 500 * time.Millisecond; limit < time.Minute; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = call(ctx)
		cancel()
		if err == nil || strings.Contains(err.Error(), says) {
			break
		}
	}
	require.ErrorContains(t, err, says)
	return err
}

// unknown calls a server without credentials, until the error states what the server requires.
func unknown(t *testing.T, addr string) {
	t.Helper()
	fails(t, "the server requires SASL", func(ctx context.Context) error {
		c, err := conn.Dial(ctx, addr, silent)
		if err != nil {
			return err
		}
		defer c.Close()
		_, _, err = c.Get(ctx, "/")
		return err
	})
}

// made returns a mechanism that is closed at the end of the test.
func made(t *testing.T, m *zkkerberos.Mechanism, err error) *zkkerberos.Mechanism {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func reach(t *testing.T, addr string, m sasl.Mechanism, more ...conn.Option) (*conn.Client, *line) {
	t.Helper()
	l := &line{addr: addr}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := conn.Dial(ctx, "localhost:2181", append(more, conn.WithDialer(l.dial), conn.WithSASL(m), silent)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, l
}

// keytabFile creates a keytab with the current key of the principal.
func keytabFile(t *testing.T, k *kdc.KDC, name string) string {
	t.Helper()
	file := k.Path(strings.ReplaceAll(name, "/", "-") + ".keytab")
	if _, err := os.Stat(file); err != nil {
		k.Keytab(filepath.Base(file), name)
	}
	return file
}

// keytab returns the mechanism of a principal.
func keytab(t *testing.T, k *kdc.KDC, name string, opts ...zkkerberos.Option) *zkkerberos.Mechanism {
	t.Helper()
	m, err := zkkerberos.Keytab(keytabFile(t, k, name), "", append(opts, zkkerberos.WithConfig(k.Config()))...)
	return made(t, m, err)
}

func TestKerberos_RecipesSurviveReconnects(t *testing.T) {
	k := realm(t)
	releases(t, func(t *testing.T, release string) {
		s := kerberosServer(t, k, release, zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
		m := keytab(t, k, "alice")
		client := func() *conn.Client {
			c, _ := reach(t, s.Addr(), m, only("alice@"+kdc.Realm), long)
			require.Equal(t, "GSSAPI as alice@EXAMPLE.COM", c.Status().Identity)
			return c
		}
		survive(t, s, client(), client())
	})
}

// Each source of tickets yields the identity of its principal.
func TestKerberos_EverySourceHasItsNodes(t *testing.T) {
	k := realm(t)
	t.Setenv("KRB5_CONFIG", k.Config())
	t.Setenv("KRB5CCNAME", k.Kinit("cc", "carol", "secret"))
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("enforce.auth.enabled", "true"),
		zkserver.WithSetting("enforce.auth.schemes", "sasl"))
	password, err := zkkerberos.Password("dave", "hunter2")
	require.NoError(t, err)
	cache, err := zkkerberos.Cache("")
	require.NoError(t, err)
	clients := map[string]*conn.Client{}
	for id, m := range map[string]*zkkerberos.Mechanism{
		"alice@EXAMPLE.COM": keytab(t, k, "alice"),
		"bob/host.example@EXAMPLE.COM": keytab(t, k, "bob/host.example",
			zkkerberos.WithServer("zookeeper/localhost@EXAMPLE.COM")),
		"carol@EXAMPLE.COM": made(t, cache, nil),
		"dave@EXAMPLE.COM":  made(t, password, nil),
	} {
		require.Equal(t, "GSSAPI as "+id, fmt.Sprintf("%v", m))
		require.Equal(t, "GSSAPI as "+id, fmt.Sprintf("%#v", m))
		clients[id], _ = reach(t, s.Addr(), m, only(id))
		require.NoError(t, clients[id].CreateAll(t.Context(), node(id), nil))
	}
	for id := range clients {
		for other, c := range clients {
			if _, _, err := c.Get(t.Context(), node(id)); id == other {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, zk.ErrNoAuth)
			}
		}
	}
	unknown(t, s.Addr())
}

func node(id string) string { return "/of-" + strings.ReplaceAll(id, "/", "-") }

// The tickets expire, one after another, and each time the session moves. The hold survives.
func TestKerberos_TicketsEndDuringAHold(t *testing.T) {
	t.Parallel() // it mostly waits
	k := realm(t)
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
	c, l := reach(t, s.Addr(), keytab(t, k, "brief"), only("brief@"+kdc.Realm), long)
	m, err := mutex.New(c, "/lock")
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	for range *renewals {
		time.Sleep(*lifetime + later)
		_, _, err := c.Get(t.Context(), "/lock")
		require.NoError(t, err, "the end of a ticket ends no connection")
		l.cut()
		_, _, err = c.Get(t.Context(), "/lock")
		require.NoError(t, err)
		require.NoError(t, h.Err())
	}
	require.NoError(t, h.Release(t.Context()))
}

// The key is changed, and the keytab only after the old ticket has expired. Meanwhile no connection can be made, and
// nothing is lost.
func TestKerberos_KeytabIsReplacedLate(t *testing.T) {
	t.Parallel() // it mostly waits
	k := realm(t)
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
	file := k.Keytab("short.keytab", "short")
	mechanism, err := zkkerberos.Keytab(file, "short", zkkerberos.WithConfig(k.Config()),
		zkkerberos.WithLogger(slog.New(slog.DiscardHandler)))
	c, l := reach(t, s.Addr(), made(t, mechanism, err), only("short@"+kdc.Realm), long)
	m, err := mutex.New(c, "/lock")
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	newer := k.Keytab("newer.keytab", "short")
	time.Sleep(life)
	l.cut()
	fails(t, "wrong key of short@EXAMPLE.COM", func(ctx context.Context) error {
		_, _, err := c.Get(ctx, "/lock")
		return err
	})
	require.NoError(t, os.Rename(newer, file))
	_, _, err = c.Get(t.Context(), "/lock")
	require.NoError(t, err)
	require.NoError(t, h.Err())
	require.NoError(t, h.Release(t.Context()))
}

// Nobody renews the credential cache. The log reports it while there is still a ticket.
func TestKerberos_CacheIsNotRenewed(t *testing.T) {
	t.Parallel() // it mostly waits
	k := realm(t)
	var log bubble.Buffer
	cache, err := zkkerberos.Cache(k.Kinit("cc", "carol", "secret", "-l", "10s"), zkkerberos.WithConfig(k.Config()),
		zkkerberos.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	m := made(t, cache, err)
	_, _, err = m.Start(t.Context(), "localhost")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "expires no later than the old one") },
		time.Minute, 10*time.Millisecond)
	_, _, err = m.Start(t.Context(), "localhost")
	require.NoError(t, err)
}

// A client with an old keytab reconnects without a pause. Its failed attempts must not lock the principal, with five
// failures allowed: the center sees only one attempt, and the new keytab is tried at once.
func TestKerberos_WrongKeyLocksNoPrincipal(t *testing.T) {
	k := realm(t)
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
	k.Admin("addpol -maxfailure 5 -failurecountinterval 0 -lockoutduration 0 strict",
		"addprinc -randkey +requires_preauth -policy strict erin")
	file := k.Keytab("erin.keytab", "erin")
	newer := k.Keytab("erin-newer.keytab", "erin")
	mechanism, err := zkkerberos.Keytab(file, "erin", zkkerberos.WithConfig(k.Config()))
	m := made(t, mechanism, err)
	for n := range 100 {
		_, _, err := m.Start(t.Context(), []string{"localhost", "elsewhere"}[n%2])
		require.ErrorContains(t, err, "wrong key of erin@EXAMPLE.COM")
		require.ErrorContains(t, err, "does not try the same key again before")
	}
	log, err := os.ReadFile(k.Path("kdc.log"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "PREAUTH_FAILED"))
	require.NoError(t, os.Rename(newer, file))
	c, _ := reach(t, s.Addr(), m)
	require.Equal(t, "GSSAPI as erin@EXAMPLE.COM", c.Status().Identity)
}

// A session moves without the center as long as its ticket is valid.
func TestKerberos_CenterIsDown(t *testing.T) {
	k := realm(t)
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
	m := keytab(t, k, "alice")
	c, l := reach(t, s.Addr(), m)
	k.Down()
	l.cut()
	_, _, err := c.Get(t.Context(), "/")
	require.NoError(t, err)
	_, _, err = m.Start(t.Context(), "elsewhere")
	require.ErrorContains(t, err,
		"no key distribution center answers: alice@EXAMPLE.COM cannot get a ticket for zookeeper/elsewhere")
	k.Up("")
	_, _, err = m.Start(t.Context(), "elsewhere")
	require.NoError(t, err)
	require.NoError(t, m.Close())
	_, _, err = m.Start(t.Context(), "localhost")
	require.ErrorIs(t, err, zkkerberos.ErrClosed)
}

// The key of the only server is changed, so that it rejects the ticket that the client has. The session and its hold
// survive, because the client first gets another ticket.
func TestKerberos_KeyOfTheServerIsReplaced(t *testing.T) {
	k := realm(t)
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
	c, _ := reach(t, s.Addr(), keytab(t, k, "alice"), long)
	m, err := mutex.New(c, "/lock")
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	before := c.Status().Session
	require.NoError(t, s.Stop())
	k.Keytab("zk.keytab", "zookeeper/localhost")
	require.NoError(t, s.Restart())
	_, _, err = c.Get(t.Context(), "/lock")
	require.NoError(t, err)
	require.Equal(t, before, c.Status().Session)
	require.NoError(t, h.Err())
	require.NoError(t, h.Release(t.Context()))
}

// A server rejects tickets for another server, and those of another time.
func TestKerberos_Refused(t *testing.T) {
	k := realm(t)
	refused := func(s *zkserver.Server, m sasl.Mechanism) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := conn.Dial(ctx, "localhost:2181", conn.WithDialer((&line{addr: s.Addr()}).dial), conn.WithSASL(m), silent)
		require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
		require.ErrorContains(t, err, "GSSAPI as alice@EXAMPLE.COM")
	}
	s := kerberosServer(t, k, "3.9")
	refused(s, keytab(t, k, "alice", zkkerberos.WithServer("zookeeper/elsewhere")))
	require.NoError(t, s.Configure(zkserver.WithEnv(kdc.Faketime(t, "+10m")...)))
	require.NoError(t, s.Restart())
	refused(s, keytab(t, k, "alice"))
}

// Each error describes the cause, and contains no secret.
func TestKerberos_Errors(t *testing.T) {
	k := realm(t)
	config := zkkerberos.WithConfig(k.Config())
	old := k.Keytab("old.keytab", "alice")
	k.Keytab("new.keytab", "alice")
	k.Admin("addprinc -randkey +requires_preauth mallory", "addprinc -pw secret -allow_tix locked")
	ended := k.Kinit("cc", "carol", "secret", "-l", "1s")
	other := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(other, []byte("include "+k.Config()+"\n"), 0o600))
	begin := func(m *zkkerberos.Mechanism, err error) error {
		if err != nil {
			return err
		}
		defer m.Close() //nolint:errcheck // it returns nil
		_, _, err = m.Start(t.Context(), "localhost")
		return err
	}
	require.NoError(t, begin(zkkerberos.Password("carol", "secret", zkkerberos.WithConfig(other),
		zkkerberos.WithoutFAST())))
	for says, f := range map[string]func() error{
		"wrong key of carol@EXAMPLE.COM": func() error {
			return begin(zkkerberos.Password("carol", "hunter2", config))
		},
		"wrong key of dave@EXAMPLE.COM": func() error {
			return begin(zkkerberos.Password("dave", "hunter", config))
		},
		"wrong key of alice@EXAMPLE.COM": func() error { return begin(zkkerberos.Keytab(old, "", config)) },
		"the realm has no principal nobody@EXAMPLE.COM": func() error {
			return begin(zkkerberos.Password("nobody", "hunter2", config))
		},
		"krb5.conf names no key distribution center": func() error {
			return begin(zkkerberos.Password("carol@OTHER",
				"secret", config))
		},
		"locked@EXAMPLE.COM is disabled or locked out": func() error {
			return begin(zkkerberos.Password("locked", "secret", config))
		},
		"the realm has no server zookeeper/nowhere": func() error {
			return begin(zkkerberos.Password("carol", "secret", config, zkkerberos.WithServer("zookeeper/nowhere")))
		},
		"there is no trust path from the realm of carol@EXAMPLE.COM to that of zookeeper/localhost@OTHER": func() error {
			return begin(zkkerberos.Password("carol", "secret", config, zkkerberos.WithServer("zookeeper/_HOST@OTHER")))
		},
		"has no key of bob, only of [alice@EXAMPLE.COM]": func() error {
			return begin(zkkerberos.Keytab(old, "bob", config))
		},
		"run kinit, or set KRB5CCNAME": func() error {
			return begin(zkkerberos.Cache("FILE:/nonexistent", config))
		},
		"only file caches": func() error {
			return begin(zkkerberos.Cache("KEYRING:persistent:0", config))
		},
	} {
		err := f()
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.Eventually(t, func() bool {
		err := begin(zkkerberos.Cache(ended, config))
		return err != nil && strings.Contains(err.Error(), "the ticket of carol@EXAMPLE.COM expired at")
	}, time.Minute, 100*time.Millisecond)
	k.Up("+10m")
	require.ErrorContains(t, begin(zkkerberos.Password("carol", "secret", config)), "synchronize them with NTP")
	require.ErrorContains(t, begin(zkkerberos.Keytab(k.Path("new.keytab"), "alice", config)), "synchronize them with NTP")
}
