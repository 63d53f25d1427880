package container_test

import (
	"context"
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
