package bench

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// most is how many clients a field starts with, each with its own session.
const most = 16

// nets are the distances of the server, as round-trip times.
var nets = []time.Duration{0, 4 * time.Millisecond, 10 * time.Millisecond}

// field has the clients of all libraries at one address.
type field struct {
	number  int // among the addresses of the Curator program
	away    time.Duration
	addr    string
	ours    []*conn.Client
	raw     []*zk.Conn
	curator *curator
	proxy   *proxy.Proxy // nil without a delay
}

// prepare connects the clients and creates the parents. The first field is connected to the server directly.
func prepare(ctx context.Context, server *zkserver.Server) (fields []*field, stop func(), err error) {
	var java *curator
	stop = func() {
		java.stop()
		for _, f := range fields {
			f.stop()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	var addrs []string
	for i, away := range nets {
		f := &field{number: i, away: away, addr: server.Addr()}
		fields = append(fields, f)
		if err := f.connect(ctx); err != nil {
			return nil, stop, err
		}
		addrs = append(addrs, f.addr)
	}
	if java, err = startCurator(addrs); err != nil {
		return nil, stop, err
	}
	for _, f := range fields {
		f.curator = java
	}
	paths := []string{"/bench", "/bench/bare"}
	for i := range most {
		paths = append(paths, bareParent(i))
	}
	for _, path := range paths {
		if _, err := fields[0].raw[0].Create(path, nil, 0, open); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, stop, err
		}
	}
	return fields, stop, nil
}

func (f *field) connect(ctx context.Context) (err error) {
	if f.away > 0 {
		if f.proxy, err = proxy.Open(f.addr); err != nil {
			return err
		}
		f.proxy.Delay(proxy.Both, f.away/2)
		f.addr = f.proxy.Addr()
	}
	if err := f.dial(ctx, most); err != nil {
		return err
	}
	for range most {
		raw, _, err := zk.Connect([]string{f.addr}, 15*time.Second, zk.WithLogInfo(false))
		if err != nil {
			return err
		}
		f.raw = append(f.raw, raw)
	}
	return nil
}

// dial connects our clients until there are n.
func (f *field) dial(ctx context.Context, n int) error {
	for len(f.ours) < n {
		c, err := conn.Dial(ctx, f.addr, conn.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		f.ours = append(f.ours, c)
	}
	return nil
}

func (f *field) stop() {
	for _, c := range f.ours {
		_ = c.Close() // it never fails
	}
	for _, c := range f.raw {
		c.Close()
	}
	if f.proxy != nil {
		f.proxy.Close()
	}
}
