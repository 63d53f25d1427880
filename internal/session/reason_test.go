package session_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// soon returns a context with a deadline and no cause.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// During an outage every call names the server and its refusal, and still matches the end of its context.
func TestOutage_ErrorsNameTheServerAndItsRefusal(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(trial.Refuse)
		_, err := conn.Dial(soon(t), srv.Addr(), conn.WithDialer(board.Dial), trial.EverySecond)
		refused := fmt.Sprintf("(connect to %s: %v)", srv.Addr(), syscall.ECONNREFUSED)
		require.EqualError(t, err, fmt.Sprintf("connect to %s: context deadline exceeded ", srv.Addr())+refused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		never := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		board.Connect(never)
		_, err = conn.Dial(soon(t), srv.Addr(), conn.WithDialer(board.Dial), conn.WithConnectTimeout(time.Minute))
		require.EqualError(t, err,
			fmt.Sprintf("connect to %[1]s: context deadline exceeded (no answer from %[1]s yet)", srv.Addr()))

		board.Connect(srv.DialAs(trial.Label))
		c := trial.Dial(t, srv, conn.WithDialer(board.Dial), trial.EverySecond)
		calls := map[string]func(ctx context.Context) error{
			"get /a":    func(ctx context.Context) error { _, _, err := c.Get(ctx, "/a"); return err },
			"create /a": func(ctx context.Context) error { _, err := c.Create(ctx, "/a", nil, 0); return err },
			"delete /a": func(ctx context.Context) error { return c.Delete(ctx, "/a", -1) },
			"sync /":    func(ctx context.Context) error { return c.Sync(ctx, "/") },
		}
		require.NoError(t, c.Sync(soon(t), "/"))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range calls {
			require.EqualError(t, call(ended), name+": context canceled", "nothing is in the way")
		}

		srv.Stall(trial.Ours, zktest.Both)
		for name, call := range calls {
			err := call(soon(t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "context deadline exceeded (no answer from "+srv.Addr()+", which last answered ", name)
		}
		srv.Heal(trial.Ours)

		board.Connect(trial.Refuse)
		time.Sleep(time.Minute)
		srv.Cut(trial.Ours)
		synctest.Wait()
		require.Equal(t, zkrecipes.Suspended, c.Status().State)
		for _, state := range []zkrecipes.State{zkrecipes.Suspended, zkrecipes.Lost} {
			for name, call := range calls {
				err := call(ended)
				require.ErrorIs(t, err, context.Canceled)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				err = call(ctx)
				cancel()
				require.EqualError(t, err, name+": context deadline exceeded "+refused, state)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "never sent")
				require.Equal(t, state, c.Status().State)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestNoAuth_NamesTheAccessList(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		ctx := t.Context()
		_, err := c.Create(ctx, "/secure", nil, 0, zk.DigestACL(zk.PermAll, "u", "p")...)
		require.NoError(t, err)
		notGranted := func(op, permission string) {
			t.Helper()
			require.EqualError(t, err, op+": not authorized: the ACL of /secure does not grant "+permission+
				": see WithAuth, WithACL")
		}
		_, err = c.Create(ctx, "/secure/a", nil, 0)
		notGranted("create /secure/a", "create")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, _, err = c.Get(ctx, "/secure")
		notGranted("get /secure", "read")
		_, _, err = c.Exists(ctx, "/secure") // since 3.8.4 and 3.9.2
		notGranted("exists /secure", "read")
		_, _, err = c.ACL(ctx, "/secure")
		notGranted("acl /secure", "read")
		_, err = c.SetACL(ctx, "/secure", zk.WorldACL(zk.PermAll), -1)
		notGranted("set acl /secure", "admin")
		_, err = c.Children(ctx, "/secure")
		notGranted("children /secure", "read")
		_, err = c.Set(ctx, "/secure", nil, -1)
		notGranted("set /secure", "write")
		_, err = c.Multi(ctx, zkrecipes.OpCreate("/secure/a", nil, 0))
		notGranted("multi: create /secure/a", "create")
	})
}

// listen returns the address of a listener that reads a little from each connection, sends answer, and hangs up.
func listen(t *testing.T, answer ...byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1000))
			_, _ = c.Write(answer)
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

func TestDial_PortsMixedUp_NamesTheOption(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(nil)
	web.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	const hungUp = "the server closed the connection without an answer: EOF (it may be starting, " +
		"or is this a TLS port? see WithTLS)"
	trusting := conn.WithTLS(&tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, //nolint:gosec // no server here is trusted
	})
	for name, tt := range map[string]struct {
		addr string
		opts []conn.Option
		says string
	}{
		"TLS port that hangs up":   {web.Listener.Addr().String(), nil, hungUp},
		"any port that hangs up":   {listen(t), nil, hungUp},
		"TLS port that says so":    {listen(t, 21, 3, 1, 0, 2, 2, 80), nil, "the server speaks TLS: see WithTLS"},
		"plain port that hangs up": {listen(t), []conn.Option{trusting}, "(is this a port without TLS? see WithTLS)"},
		"plain port that answers": {
			listen(t, []byte("HTTP/1.1 400 Bad Request")...),
			[]conn.Option{trusting},
			"(is this a port without TLS? see WithTLS)",
		},
		"ZooKeeper without TLS": {zktest.Run(t).Addr(), []conn.Option{trusting}, "(is this a port without TLS? see WithTLS)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			dials := 0
			again := conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials++; dials == 2 { // the first attempt has failed
					cancel()
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			})
			_, err := conn.Dial(ctx, tt.addr, append(tt.opts, again, conn.WithConnectTimeout(time.Minute))...)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

// The connection is lost, and the next attempt has no answer yet.
func TestOutage_DialHangs_ErrorsSayWhyTheConnectionWent(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.Dial(t, srv, conn.WithDialer(board.Dial))
		board.Connect(func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		srv.Cut(trial.Ours)
		synctest.Wait()
		require.ErrorContains(t, c.Sync(soon(t), "/"), "(connection to "+srv.Addr()+": the server closed the connection: "+
			"EOF)")
	})
}
