package foreign

import (
	"cmp"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// ensembles serves the requests of the stand-ins for real servers. The servers of an ensemble are the fronts of one
// zktest server.
type ensembles struct {
	release zktest.Release

	mu    sync.Mutex
	known map[string]*ensemble // by the server lines, or by the data directory of a single server
}

type ensemble struct {
	srv      *zktest.Server
	flags    string                // of the member that started it
	members  map[int]chan struct{} // by the number of its front, closed when a member has left
	leftover string                // of the member that joined last; if the file is gone, so is the data
}

// startEnsembles returns the socket that stand-ins find in FOREIGN_ENSEMBLES. The servers are of the release that the
// suite is compared with.
func startEnsembles(t *testing.T, release zktest.Release) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "zk") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	e := &ensembles{release: release, known: map[string]*ensemble{}}
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
	cfg, err := readConfig(request.Config)
	var x *ensemble
	if err == nil {
		x, err = e.join(cfg, request.Flags)
	}
	if err != nil {
		_ = json.NewEncoder(nc).Encode(map[string]string{"Error": err.Error()}) // fails if the stand-in is gone
		return
	}
	front := x.srv.Fronts()[cfg.id]
	_ = json.NewEncoder(nc).Encode(map[string]string{
		"Listen": net.JoinHostPort(cfg.host, cfg.port),
		"Server": front.Addr(),
	})
	_, _ = nc.Read(make([]byte, 1)) // until the stand-in is stopped
	front.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	close(x.members[cfg.id])
	delete(x.members, cfg.id)
}

// join finds or creates the ensemble of a server, and starts its front.
func (e *ensembles) join(cfg config, flags string) (*ensemble, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.known[cfg.key]
	for x != nil && x.members[cfg.id] != nil { // the previous one was killed, which has not been noticed yet
		left := x.members[cfg.id]
		e.mu.Unlock()
		<-left
		e.mu.Lock()
	}
	// An ensemble is replaced only while it has no node whose loss would be noticed.
	changed := x != nil && x.flags != flags && len(x.srv.Tree("/")) == 1
	if x != nil && len(x.members) == 0 && (changed || !exists(x.leftover)) {
		x.srv.Close()
		x = nil
	}
	if x == nil {
		srv, err := zktest.Start(append(cfg.options(flags), zktest.WithRelease(e.release))...)
		if err != nil {
			return nil, err
		}
		if members := cfg.members(); members != "" {
			if err := srv.Set("/zookeeper/config", fmt.Appendf(nil, "%sversion=%x", members, srv.Zxid())); err != nil {
				return nil, err
			}
		}
		for _, front := range srv.Fronts() {
			front.Stop()
		}
		x = &ensemble{srv: srv, flags: flags, members: map[int]chan struct{}{}}
		e.known[cfg.key] = x
	}
	x.leftover = cfg.leftover()
	if err := os.WriteFile(x.leftover, fmt.Appendf(nil, "%d\n%s", cfg.id, cfg.key), 0o600); err != nil {
		return nil, err
	}
	if err := x.srv.Fronts()[cfg.id].Start(); err != nil {
		return nil, err
	}
	x.members[cfg.id] = make(chan struct{})
	return x, nil
}

// config is the relevant part of a zoo.cfg.
type config struct {
	host, port, dataDir string
	key                 string // of the ensemble
	id                  int    // number of the front
	tick                time.Duration
	shortest, longest   time.Duration // session timeouts; 0 is the default
	servers             []string
	users               map[string]string // of SASL, in addition to those in a file
	reconfig            bool
}

// leftover returns the file that records which front of which ensemble has its data in the directory.
func (c config) leftover() string { return filepath.Join(c.dataDir, "zktest") }

// members returns the servers as /zookeeper/config shows them, or "" if the lines do not contain the client addresses.
func (c config) members() string {
	var b strings.Builder
	for _, line := range c.servers {
		server, client, ok := strings.Cut(line, ";")
		if !ok {
			return ""
		}
		if strings.Count(server, ":") == 2 {
			server += ":participant"
		}
		fmt.Fprintf(&b, "%s;%s\n", server, client)
	}
	return b.String()
}

// options returns the server's options, including those that the flags of the virtual machine request.
func (c config) options(flags string) []zktest.Option {
	list := []zktest.Option{
		zktest.WithTickTime(c.tick), zktest.WithFronts(max(1, len(c.servers))),
		zktest.WithSessionTimeouts(c.shortest, cmp.Or(c.longest, 20*c.tick)),
		// As long as a disk takes. Tests such as those of kazoo's locks hang if the next holder is granted before the
		// previous one is seen to leave.
		zktest.WithWriteLatency(2 * time.Millisecond),
	}
	if strings.Contains(flags, "extendedTypesEnabled=true") {
		list = append(list, zktest.WithExtendedTypes())
	}
	if strings.Contains(flags, "enforceQuota=true") {
		list = append(list, zktest.WithQuotas())
	}
	if n := maxBuffer.FindStringSubmatch(flags); n != nil {
		if n, err := strconv.Atoi(n[1]); err == nil {
			list = append(list, zktest.WithMaxBuffer(n))
		}
	}
	if words := whitelist.FindStringSubmatch(flags); words != nil && words[1] != "*" {
		list = append(list, zktest.WithFourLetterWords(strings.FieldsFunc(words[1],
			func(r rune) bool { return r == ',' || r == ' ' })...))
	}
	if strings.Contains(flags, "zookeeper.skipACL=yes") {
		list = append(list, zktest.WithoutACLs())
	}
	if user := saslSuper.FindStringSubmatch(flags); user != nil {
		list = append(list, zktest.WithSASLSuperUsers(user[1]))
	}
	if strings.Contains(flags, "readonlymode.enabled=true") {
		list = append(list, zktest.WithReadOnlyMode())
	}
	switch alg := digestAlg.FindStringSubmatch(flags); {
	case strings.Contains(flags, "DigestAuthenticationProvider.enabled=false"):
		list = append(list, zktest.WithDigest(nil))
	case alg == nil:
	case alg[1] == "SHA-256":
		list = append(list, zktest.WithDigest(sha256.New))
	case alg[1] == "SHA3-256":
		list = append(list, zktest.WithDigest(func() hash.Hash { return sha3.New256() }))
	}
	for hash, credential := range superUsers {
		if strings.Contains(flags, "superDigest="+hash) {
			list = append(list, zktest.WithSuperUser(credential))
		}
	}
	if c.reconfig {
		list = append(list, zktest.WithReconfig())
	}
	if every := containerCheck.FindStringSubmatch(flags); every != nil {
		if d, err := time.ParseDuration(every[1] + "ms"); err == nil {
			list = append(list, zktest.WithContainerCheck(d))
		}
	}
	users := readUsers(flags)
	maps.Copy(users, c.users) // of the section that the server uses
	saslRequired := strings.Contains(flags, "zookeeper.sessionRequireClientSASLAuth=true")
	if len(users) > 0 || saslRequired {
		list = append(list, zktest.WithSASLUsers(users))
	}
	if saslRequired {
		list = append(list, zktest.WithRequiredAuth("sasl"))
	}
	return list
}

// superUsers are the super users of the suites, by their servers' settings.
var superUsers = map[string]string{
	"super:D/InIHSb7yEEbrWz8b9l71RjZJU=":                 "super:test",
	"super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=": "super:test", // in SHA-256
	"super:cRy/KPYuDpW/dtsepniTMpuiuupnWgdU9txltIfv3hA=": "super:test", // in SHA3-256
	"curator-test:zghsj3JfJqK7DbWf0RQ1BgbJH9w=":          "curator-test",
}

var (
	maxBuffer = regexp.MustCompile(`jute\.maxbuffer=(\d+)`)
	digestAlg = regexp.MustCompile(`DigestAuthenticationProvider\.digestAlg=(\S+)`)
	saslSuper = regexp.MustCompile(`zookeeper\.superUser=(\S+)`)
	whitelist = regexp.MustCompile(`4lw\.commands\.whitelist=(.+)`)

	containerCheck = regexp.MustCompile(`znode\.container\.checkIntervalMs=(\d+)`)

	loginConfig = regexp.MustCompile(`java\.security\.auth\.login\.config=(\S+)`)
	loginUser   = regexp.MustCompile(`user_(\w+)="([^"]*)"`)
)

// readUsers reads the users that may log in with SASL from the file that the flags name.
func readUsers(flags string) map[string]string {
	users := map[string]string{}
	file := loginConfig.FindStringSubmatch(flags)
	if file == nil {
		return users
	}
	text, err := os.ReadFile(file[1])
	if err != nil {
		return users // nobody can log in then
	}
	for _, user := range loginUser.FindAllStringSubmatch(string(text), -1) {
		users[user[1]] = user[2]
	}
	return users
}

func readConfig(path string) (config, error) {
	c := config{host: "127.0.0.1", tick: 2 * time.Second, users: map[string]string{}}
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "clientPort":
			c.port = value
		case key == "clientPortAddress":
			c.host = value
		case key == "dataDir":
			c.dataDir = value
		case key == "reconfigEnabled":
			c.reconfig = value == "true"
		case key == "tickTime":
			c.tick, err = time.ParseDuration(value + "ms")
		case key == "minSessionTimeout":
			c.shortest, err = time.ParseDuration(value + "ms")
		case key == "maxSessionTimeout":
			c.longest, err = time.ParseDuration(value + "ms")
		case strings.HasPrefix(key, "standin.user."):
			c.users[strings.TrimPrefix(key, "standin.user.")] = value
		case strings.HasPrefix(key, "server."):
			c.servers = append(c.servers, strings.TrimSpace(line))
		}
		if err != nil {
			return c, fmt.Errorf("%s: %s: %w", path, key, err)
		}
	}
	if len(c.servers) == 0 {
		c.key = c.dataDir
		return c, nil
	}
	slices.Sort(c.servers)
	c.key = strings.Join(c.servers, "\n")
	if text, err := os.ReadFile(c.leftover()); err == nil { // the ensemble may have lost a member since
		number, key, _ := strings.Cut(string(text), "\n")
		c.key = key
		c.id, err = strconv.Atoi(number)
		return c, err
	}
	number, err := os.ReadFile(filepath.Join(c.dataDir, "myid"))
	if err != nil {
		return c, err
	}
	me := "server." + strings.TrimSpace(string(number)) + "="
	c.id = slices.IndexFunc(c.servers, func(line string) bool { return strings.HasPrefix(line, me) })
	if c.id < 0 {
		return c, fmt.Errorf("%s: no line %s", path, me)
	}
	return c, nil
}
