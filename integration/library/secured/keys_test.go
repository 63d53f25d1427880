package secured

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
)

// leash determines which servers clients reach: all of them, or only one.
type leash struct {
	mu   sync.Mutex
	only string // address; empty for all
	open []net.Conn
}

func (l *leash) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	only := l.only
	l.mu.Unlock()
	if only != "" && addr != only {
		return nil, fmt.Errorf("dial %s: not now", addr)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, c)
	}
	return c, err
}

// move makes all clients connect to one server.
func (l *leash) move(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.only = addr
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// holder is a client with a lock and a mechanism.
type holder struct {
	*conn.Client
	mechanism *zkkerberos.Mechanism
	hold      *zkrecipes.Hold
	session   int64
}

// The keys of three servers and of the clients are changed by the procedure of the guide, while eight clients hold
// locks and move between the servers.
func TestGuide_KeysAreChangedUnderHolds(t *testing.T) {
	releases(t, func(t *testing.T, release string) {
		block, k := guide(t), kdc.Start(t)
		dir := t.TempDir()
		keytab := func(s *zkserver.Server) (file, principal string) {
			host, _, err := net.SplitHostPort(s.Addr())
			require.NoError(t, err)
			return filepath.Join(dir, host+".keytab"), "zookeeper/" + host
		}
		e := zkserver.StartEnsemble(t, 3, zkserver.WithRelease(release), zkserver.WithSessionTimeouts(0, time.Minute))
		for _, s := range e.Servers {
			file, principal := keytab(s)
			k.Admin("addprinc -randkey "+principal, "ktadd -k "+file+" "+principal)
			jaas := file + ".jaas"
			text := strings.NewReplacer("/etc/zookeeper/zk.keytab", file, "zookeeper/zk1.example.com",
				principal).Replace(block("Krb5LoginModule"))
			require.NoError(t, os.WriteFile(jaas, []byte(text), 0o600))
			opts := append(settings(block("authProvider.sasl")),
				properties(block("-Djava.security.krb5.conf"), "/etc/zookeeper/jaas.conf", jaas, "/etc/krb5.conf", k.Config())...)
			require.NoError(t, s.Configure(opts...))
			require.NoError(t, s.Restart())
		}
		require.NoError(t, e.WaitReady())
		k.Admin("addprinc -randkey +requires_preauth worker")
		worker := filepath.Join(dir, "worker.keytab")
		k.Admin("ktadd -k " + worker + " worker")

		l := &leash{}
		var holders []*holder
		for i := range 8 {
			who, err := zkkerberos.Keytab(worker, "worker", zkkerberos.WithConfig(k.Config()))
			h := &holder{mechanism: made(t, who, err)}
			h.Client, err = conn.Dial(t.Context(), e.Addr(), conn.WithDialer(l.dial), conn.WithSASL(h.mechanism),
				conn.WithACL(zk.AuthACL(zk.PermAll)), long, silent)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, h.Close()) })
			m, err := mutex.New(h.Client, fmt.Sprintf("/lock-%d", i))
			require.NoError(t, err)
			h.hold, err = m.Lock(t.Context())
			require.NoError(t, err)
			h.session = h.Status().Session
			holders = append(holders, h)
		}
		// meet makes all clients resume their sessions on each of the servers, and a new client get a current ticket.
		meet := func(when string, servers ...*zkserver.Server) {
			t.Helper()
			for _, s := range servers {
				l.move(s.Addr())
				for _, h := range holders {
					_, _, err := h.Get(t.Context(), "/")
					require.NoError(t, err, when)
					require.Equal(t, h.session, h.Status().Session, when)
					require.NoError(t, h.hold.Err(), when)
				}
				who, err := zkkerberos.Keytab(worker, "worker", zkkerberos.WithConfig(k.Config()))
				c, err := conn.Dial(t.Context(), s.Addr(), conn.WithSASL(made(t, who, err)), long, silent)
				require.NoError(t, err, when)
				require.NoError(t, c.Close())
			}
		}
		meet("before", e.Servers...)
		admin := func(text string, oldnew ...string) {
			for line := range strings.SplitSeq(strings.NewReplacer(oldnew...).Replace(text), "\n") {
				if command := regexp.MustCompile(`^kadmin -q "(.*)"$`).FindStringSubmatch(line); command != nil {
					k.Admin(command[1])
					continue
				}
				out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
				require.NoError(t, err, string(out))
			}
		}
		onServers := func(command string) {
			for _, s := range e.Servers {
				file, principal := keytab(s)
				admin(block(command), "/etc/zookeeper/zk.keytab", file, "zookeeper/zk1.example.com", principal)
				meet(command, s)
			}
		}
		onServers("ktadd -k /etc/zookeeper")
		onServers("ktremove -k /etc/zookeeper")

		old, err := os.ReadFile(worker)
		require.NoError(t, err)
		admin(block("ktadd -k /etc/worker"), "/etc/worker", dir)
		now, err := os.ReadFile(worker)
		require.NoError(t, err)
		require.NotEqual(t, old, now)
		for _, h := range holders { // a ticket for another server needs the new key
			_, _, err := h.mechanism.Start(t.Context(), "localhost")
			require.ErrorContains(t, err, "the realm has no server zookeeper/localhost")
		}
		meet("after", e.Servers...)
		for _, h := range holders {
			require.NoError(t, h.hold.Release(t.Context()))
		}
	})
}
