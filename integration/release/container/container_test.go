package container_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/release/container"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

func TestStandalone(t *testing.T) {
	began := time.Now()
	s := container.Start(t)
	ctx, c := dial(t, s.Addr())
	t.Logf("%s serves after %v", container.Image(), time.Since(began))
	m, err := mutex.New(c, "/container/lock")
	must(t, err)
	h, err := m.Lock(ctx)
	must(t, err)
	must(t, h.Check(ctx))
	must(t, h.Release(ctx))
}

// A hold survives the death of the ensemble's leader, and its waiters continue. A client that was connected to the
// leader notices only when a sync is unanswered for a quarter of the session timeout, because Docker's proxy keeps the
// connection open. Then it must find the servers that serve among servers that accept connections but do not serve yet.
func TestEnsemble_HoldOutlivesTheLeader(t *testing.T) {
	began := time.Now()
	servers, addr := container.StartEnsemble(t, 3)
	ctx, c := dial(t, addr)
	t.Logf("%s: three serve after %v", container.Image(), time.Since(began))
	m, err := mutex.New(c, "/container/lock")
	must(t, err)
	h, err := m.Lock(ctx)
	must(t, err)

	leader := leaderOf(t, servers)
	must(t, leader.Stop(ctx, new(time.Duration)))
	began = time.Now()
	must(t, h.Check(ctx))
	t.Logf("answered %v after the leader was stopped", time.Since(began))
	must(t, h.Err())
	must(t, h.Release(ctx))
	next, err := m.Lock(ctx)
	must(t, err)
	if next.Token() <= h.Token() {
		t.Errorf("token %d after %d", next.Token(), h.Token())
	}
	must(t, next.Release(ctx))
}

func leaderOf(t *testing.T, servers []*container.Server) *container.Server {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, s := range servers {
			if strings.Contains(s.FourLetter(t.Context(), "srvr"), "\nMode: leader") {
				return s
			}
		}
	}
	t.Fatal("no server leads")
	return nil
}

func dial(t *testing.T, addr string) (context.Context, *conn.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	c, err := conn.Dial(ctx, addr, conn.WithSessionTimeout(40*time.Second), conn.WithConnectTimeout(time.Second))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return ctx, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
