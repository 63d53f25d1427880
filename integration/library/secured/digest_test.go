// Package secured runs the recipes against servers that require clients to authenticate.
package secured

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/sasl"
)

var silent = conn.WithLogger(slog.New(slog.DiscardHandler))

// The servers and clients are configured as the guide prints them.
func TestGuide_DigestIsAsPrinted(t *testing.T) {
	block := guide(t)
	releases(t, func(t *testing.T, release string) {
		jaas := filepath.Join(t.TempDir(), "jaas.conf")
		require.NoError(t, os.WriteFile(jaas, []byte(block("DigestLoginModule")), 0o600))
		opts := append(settings(block("authProvider.sasl")),
			properties(block("fips-mode"), "/etc/zookeeper/jaas.conf", jaas)...)
		s := zkserver.Start(t, append(opts, zkserver.WithRelease(release))...)
		parts := strings.SplitN(block("sasl:worker:a"), ":", 3)
		m, err := mutex.New(dial(t, s, as(t, parts[1], parts[2]), only("worker")), "/jobs/nightly")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		_, _, err = dial(t, s, as(t, "reader", "another one")).Get(t.Context(), "/jobs/nightly")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		unknown(t, s.Addr())
	})
}

// users of the servers. Names and passwords contain characters that are quoted, or hashed in another encoding.
var users = map[string]string{"bob": "secret", "eve": `s"e\c,r=et`, "jürgen": "grün", "日本": "語"}

// digestServer starts a server with DIGEST-MD5 and the given settings of zoo.cfg. A setting without a value is true.
func digestServer(t *testing.T, release string, settings ...string) *zkserver.Server {
	t.Helper()
	text := "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required"
	for user, password := range users {
		text += fmt.Sprintf("\n  \"user_%s\"=%q", user, password)
	}
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	require.NoError(t, os.WriteFile(jaas, []byte(text+";\n};\n"), 0o600))
	opts := []zkserver.Option{
		zkserver.WithRelease(release), zkserver.WithSessionTimeouts(0, time.Minute),
		zkserver.WithProperty("java.security.auth.login.config", jaas), zkserver.WithProperty("file.encoding", "UTF-8"),
		zkserver.WithSetting("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
	}
	if release != "debian" { // from 3.9.6 on, servers have no MD5 in FIPS mode, which is the default
		opts = append(opts, zkserver.WithProperty("zookeeper.fips-mode", "false"))
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		opts = append(opts, zkserver.WithSetting(name, cmp.Or(value, "true")))
	}
	return zkserver.Start(t, opts...)
}

func as(t *testing.T, user, password string) conn.Option {
	t.Helper()
	m, err := sasl.Digest(user, password)
	require.NoError(t, err)
	return conn.WithSASL(m)
}

func dial(t *testing.T, s *zkserver.Server, opts ...conn.Option) *conn.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := conn.Dial(ctx, s.Addr(), append(opts, silent)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// only returns an access list for a single user.
func only(user string) conn.Option {
	return conn.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: user}})
}

func releases(t *testing.T, test func(t *testing.T, release string)) {
	for _, release := range []string{"3.9", "debian"} {
		t.Run(release, func(t *testing.T) { test(t, release) })
	}
}

func TestDigest_EveryUserHasItsNodes(t *testing.T) {
	releases(t, func(t *testing.T, release string) {
		s := digestServer(t, release, "sessionRequireClientSASLAuth")
		clients := map[string]*conn.Client{}
		for user, password := range users {
			c := dial(t, s, as(t, user, password), only(user))
			require.Equal(t, "DIGEST-MD5 as "+user, c.Status().Identity)
			require.NoError(t, c.CreateAll(t.Context(), "/of-"+user, []byte("x")), user)
			clients[user] = c
		}
		for user := range users {
			for other, c := range clients {
				_, _, err := c.Get(t.Context(), "/of-"+user)
				if user == other {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, zk.ErrNoAuth, "%s reads what is %s's", other, user)
				}
			}
		}
	})
}

// A server closes each connection, the session is resumed, and the client authenticates again before the watches are
// set.
func TestDigest_RecipesSurviveReconnects(t *testing.T) {
	releases(t, func(t *testing.T, release string) {
		s := digestServer(t, release, "sessionRequireClientSASLAuth")
		client := func() *conn.Client {
			return dial(t, s, as(t, "bob", "secret"), only("bob"), long)
		}
		survive(t, s, client(), client())
	})
}

// survive runs the recipes of two clients while the server is killed twice.
func survive(t *testing.T, s *zkserver.Server, a, b *conn.Client) {
	t.Helper()
	ctx := t.Context()
	counter, err := value.NewCounter(a, "/counter", value.AtomicLong())
	require.NoError(t, err)
	sem, err := semaphore.New(a, "/semaphore", 1)
	require.NoError(t, err)
	leader, err := election.New(a, "/election")
	require.NoError(t, err)
	members, err := group.New(a, "/group")
	require.NoError(t, err)
	member, err := members.Join(ctx, "a", nil)
	require.NoError(t, err)
	term, err := leader.Campaign(ctx)
	require.NoError(t, err)
	lease, err := sem.Acquire(ctx, 1)
	require.NoError(t, err)

	sections := 0
	var mixed sync.WaitGroup
	for _, c := range []*conn.Client{a, b} {
		m, err := mutex.New(c, "/mutex")
		require.NoError(t, err)
		mixed.Go(func() {
			for range 40 {
				h, err := m.Lock(ctx)
				if !assertNoError(t, err) {
					return
				}
				sections++
				time.Sleep(10 * time.Millisecond)
				assertNoError(t, h.Release(ctx))
			}
		})
	}
	for range 2 {
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, s.Kill())
		require.NoError(t, s.Restart())
	}
	mixed.Wait()
	require.Equal(t, 80, sections)
	n, err := counter.Add(ctx, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	require.NoError(t, term.Err(), "the session was resumed")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, term.Release(ctx))
	require.NoError(t, member.Close(ctx))
}

func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// Servers before 3.9.3 accept an unknown user with the password of the last one that logged in (ZOOKEEPER-4839), so
// both the user and the password are wrong.
func TestDigest_Refused(t *testing.T) {
	releases(t, func(t *testing.T, release string) {
		for setting, is := range map[string]error{
			"sessionRequireClientSASLAuth": zkrecipes.ErrAuthFailed,
			"allowSaslFailedClients":       sasl.ErrUnproven, // the server accepts everyone
		} {
			s := digestServer(t, release, setting)
			for _, user := range []string{"bob", "nobody"} {
				err := failure(t, is.Error(), func(ctx context.Context) error {
					_, err := conn.Dial(ctx, s.Addr(), as(t, user, "hunter2"), silent)
					return err
				})
				require.ErrorIs(t, err, is, setting)
				require.ErrorContains(t, err, "DIGEST-MD5 as "+user)
				require.NotContains(t, err.Error(), "hunter2")
			}
		}
	})
}
