package foreign

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// ensembles serves what the stand-ins of real servers ask for. All servers of one ensemble share a tree, and none
// answers without a majority of them.
type ensembles struct {
	t     *testing.T
	mu    sync.Mutex
	known map[string]*ensemble // by the server lines, or the data directory of a single server
}

type ensemble struct {
	srv      *zktest.Server
	size     int
	members  map[string]net.Listener // those that are up, by their port
	leftover string                  // a file in the data directory of the last that joined; if it is gone, so is the data
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
	e := &ensembles{t: t, known: map[string]*ensemble{}}
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
	_ = x.members[cfg.port].Close()
	delete(x.members, cfg.port)
	x.srv.Cut(zktest.Label(cfg.port))
	if !x.quorum() {
		x.srv.Down()
	}
}

func (x *ensemble) quorum() bool { return len(x.members) > x.size/2 }

// join finds or makes the ensemble of a server, and listens for it.
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
		options := []zktest.Option{zktest.InMemory(), zktest.WithTickTime(cfg.tick)}
		if strings.Contains(flags, "extendedTypesEnabled=true") {
			options = append(options, zktest.WithExtendedTypes())
		}
		if strings.Contains(flags, "superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=") {
			options = append(options, zktest.WithSuperUser("super:test"))
		}
		srv, err := zktest.Start(options...)
		if err != nil {
			return cfg, nil, err
		}
		x = &ensemble{srv: srv, size: max(1, len(cfg.servers)), members: map[string]net.Listener{}}
		srv.Down()
		e.known[cfg.key()] = x
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+cfg.port)
	if err != nil {
		return cfg, nil, err
	}
	x.leftover = filepath.Join(cfg.dataDir, "zktest")
	if err := os.WriteFile(x.leftover, nil, 0o600); err != nil {
		return cfg, nil, err
	}
	hadQuorum := x.quorum()
	x.members[cfg.port] = l
	go func() { _ = x.srv.ServeAs(cfg.port, l) }() // ends with the listener
	if !hadQuorum && x.quorum() {
		x.srv.Up()
	}
	return cfg, x, nil
}

// config is what matters of a zoo.cfg.
type config struct {
	port, dataDir string
	tick          time.Duration
	servers       []string
}

func (c config) key() string {
	if len(c.servers) == 0 {
		return c.dataDir
	}
	servers := slices.Sorted(slices.Values(c.servers))
	return strings.Join(servers, "\n")
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
		case key == "tickTime":
			if c.tick, err = time.ParseDuration(value + "ms"); err != nil {
				return c, err
			}
		case strings.HasPrefix(key, "server."):
			c.servers = append(c.servers, line)
		}
	}
	return c, nil
}
