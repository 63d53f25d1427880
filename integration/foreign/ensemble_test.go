package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// ensembles serves what the stand-ins of real servers ask for. The servers of an ensemble are the fronts of one.
type ensembles struct {
	mu    sync.Mutex
	known map[string]*ensemble // by the server lines, or the data directory of a single server
}

type ensemble struct {
	srv      *zktest.Server
	members  map[int]net.Listener // of those that run, by the number of their front
	leftover string               // a file in the data directory of the last that joined; if it is gone, so is the data
}

// startEnsembles returns the socket that stand-ins find in FOREIGN_ENSEMBLES.
func startEnsembles(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "zk") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	e := &ensembles{known: map[string]*ensemble{}}
	var all sync.WaitGroup
	var conns []net.Conn
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, nc)
			all.Go(func() { e.serve(nc) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		for _, nc := range conns {
			_ = nc.Close()
		}
		all.Wait()
		for _, x := range e.known {
			x.srv.Close()
		}
		_ = os.RemoveAll(dir)
	})
	return l.Addr().String()
}

// serve is a server from the request of a stand-in to the end of its connection.
func (e *ensembles) serve(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	var request struct{ Config, Flags string }
	if err := json.NewDecoder(nc).Decode(&request); err != nil {
		return
	}
	cfg, x, err := e.join(request.Config, request.Flags)
	if err != nil {
		_, _ = fmt.Fprint(nc, err) // the stand-in is gone
		return
	}
	_, _ = nc.Read(make([]byte, 1)) // until the stand-in is stopped
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = x.members[cfg.id].Close()
	delete(x.members, cfg.id)
	x.srv.Fronts()[cfg.id].Stop()
}

// join finds or makes the ensemble of a server, and starts its front.
func (e *ensembles) join(path, flags string) (config, *ensemble, error) {
	cfg, err := readConfig(path)
	if err != nil {
		return cfg, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.known[cfg.key()]
	if x != nil && len(x.members) == 0 && !exists(x.leftover) {
		x.srv.Close()
		x = nil
	}
	if x == nil {
		srv, err := zktest.Start(cfg.options(flags)...)
		if err != nil {
			return cfg, nil, err
		}
		for _, front := range srv.Fronts() {
			front.Stop()
		}
		x = &ensemble{srv: srv, members: map[int]net.Listener{}}
		e.known[cfg.key()] = x
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+cfg.port)
	if err != nil {
		return cfg, nil, err
	}
	x.leftover = filepath.Join(cfg.dataDir, "zktest")
	if err := os.WriteFile(x.leftover, nil, 0o600); err != nil {
		return cfg, nil, errors.Join(err, l.Close())
	}
	front := x.srv.Fronts()[cfg.id]
	x.members[cfg.id] = l
	go relay(l, front.DialAs(cfg.port)) // ends with the listener
	return cfg, x, front.Start()
}

// relay connects the clients that come in to a front, which listens in memory only.
func relay(l net.Listener, dial func(context.Context, string, string) (net.Conn, error)) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := dial(context.Background(), "tcp", "")
		if err != nil {
			_ = client.Close()
			continue
		}
		pass := func(to, from net.Conn) {
			_, _ = io.Copy(to, from) // either end may go first
			_ = to.Close()
			_ = from.Close()
		}
		go pass(server, client)
		go pass(client, server)
	}
}

// config is what matters of a zoo.cfg.
type config struct {
	port, dataDir string
	id            int // number of the front
	tick          time.Duration
	servers       []string
	reconfig      bool
}

func (c config) key() string {
	if len(c.servers) == 0 {
		return c.dataDir
	}
	return strings.Join(slices.Sorted(slices.Values(c.servers)), "\n")
}

// options are those of the server; what the flags of the virtual machine ask for is among them.
func (c config) options(flags string) []zktest.Option {
	list := []zktest.Option{zktest.InMemory(), zktest.WithTickTime(c.tick), zktest.WithFronts(max(1, len(c.servers)))}
	if strings.Contains(flags, "extendedTypesEnabled=true") {
		list = append(list, zktest.WithExtendedTypes())
	}
	if strings.Contains(flags, "readonlymode.enabled=true") {
		list = append(list, zktest.WithReadOnlyMode())
	}
	if strings.Contains(flags, "superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=") {
		list = append(list, zktest.WithSuperUser("super:test"))
	}
	if c.reconfig {
		list = append(list, zktest.WithReconfig())
	}
	return list
}

func readConfig(path string) (config, error) {
	c := config{tick: 2 * time.Second}
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "clientPort":
			c.port = value
		case key == "dataDir":
			c.dataDir = value
		case key == "reconfigEnabled":
			c.reconfig = value == "true"
		case key == "tickTime":
			if c.tick, err = time.ParseDuration(value + "ms"); err != nil {
				return c, err
			}
		case strings.HasPrefix(key, "server."):
			c.servers = append(c.servers, strings.TrimSpace(line))
		}
	}
	if len(c.servers) == 0 {
		return c, nil
	}
	number, err := os.ReadFile(filepath.Join(c.dataDir, "myid"))
	if err != nil {
		return c, err
	}
	c.id, err = strconv.Atoi(strings.TrimSpace(string(number)))
	c.id--
	return c, err
}
