// Package discovery runs our service discovery and Java's on the same znodes.
package discovery

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

var update = flag.Bool("update", false, "write the golden files of recipes/discovery")

const (
	session  = 8 * time.Second
	patience = time.Minute
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

// stage is a server with a Java process and one of our clients, behind its own proxy.
type stage struct {
	client *conn.Client
	proxy  *proxy.Proxy
	java   *peer.Peer
}

func open(t *testing.T) *stage {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	program := peer.Java{Product: versions.Discovery, Source: filepath.Join(filepath.Dir(here), "Peer.java")}
	classes := t.TempDir()
	program.Compile(t, classes)
	addr := zkserver.Start(t).Addr()
	s := &stage{java: program.Start(t, classes, addr, session, nil), proxy: proxy.Start(t, addr)}
	var err error
	s.client, err = conn.Dial(t.Context(), s.proxy.Addr(), conn.WithSessionTimeout(session))
	must(t, err)
	t.Cleanup(func() { must(t, s.client.Close()) })
	return s
}

func (s *stage) ask(t *testing.T, words ...any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := s.java.Ask(ctx, words...)
	must(t, err)
	return strings.TrimSpace(answer)
}

func (s *stage) discovery(t *testing.T, base string, opts ...discovery.Option) *discovery.Discovery {
	t.Helper()
	d, err := discovery.New(s.client, base, opts...)
	must(t, err)
	return d
}

func (s *stage) register(t *testing.T, d *discovery.Discovery, i discovery.Instance) *discovery.Registration {
	t.Helper()
	r, err := d.Register(t.Context(), i)
	must(t, err)
	return r
}

// TestMeet: our service discovery and those of Java share one ZooKeeper.
func TestMeet(t *testing.T) {
	s := open(t)
	t.Run("golden files of Curator", s.goldenOfCurator)
	t.Run("golden file of Spring", s.goldenOfSpring)
	t.Run("what Jackson reads", s.jackson)
	t.Run("each reads the other, Curator", s.withCurator)
	t.Run("each reads the other, Spring", s.withSpring)
	t.Run("no event at a reconnect", s.reconnect)
}

// registrationTime matches the time at which a golden file was written.
var registrationTime = regexp.MustCompile(`"registrationTimeUTC":1[0-9]{12}`)

// golden compares a node with a golden file of recipes/discovery, or writes the file.
func golden(t *testing.T, name string, data []byte) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	file := filepath.Join(filepath.Dir(here), "../../../recipes/discovery/testdata", name+".json")
	if *update {
		must(t, os.WriteFile(file, data, 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	timeless := func(b []byte) string { return registrationTime.ReplaceAllString(string(b), "when") }
	if timeless(data) != timeless(want) {
		t.Errorf("%s has\n%s\nand Java has written\n%s", name, want, data)
	}
}

// nodes returns the data of the nodes of a service.
func (s *stage) nodes(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	must(t, s.client.Sync(t.Context(), folder))
	names, err := s.client.Children(t.Context(), folder)
	must(t, err)
	all := map[string][]byte{}
	for _, name := range names {
		all[name], _, err = s.client.Get(t.Context(), folder+"/"+name)
		must(t, err)
	}
	return all
}

// goldenOfCurator: what Curator writes matches the golden files, and each of its instances is an entry with its node's
// name.
func (s *stage) goldenOfCurator(t *testing.T) {
	const base = "/golden"
	s.ask(t, "samples", base)
	services, err := s.discovery(t, base).Names(t.Context())
	must(t, err)
	if want := []string{"disabled", "full", "plain", "sequential", "text"}; !slices.Equal(services, want) {
		t.Fatalf("services %q: want %q", services, want)
	}
	for _, service := range services {
		for _, data := range s.nodes(t, path.Join(base, service)) {
			golden(t, "curator-"+service, data)
		}
		view, err := s.discovery(t, base).Instances(t.Context(), service)
		must(t, err)
		if len(view.Entries) != 1 || view.Entries[0].Err != nil || view.Entries[0].Service != service {
			t.Errorf("%s: %+v", service, view)
		}
	}
	s.ask(t, "unregister", base)
}

// goldenOfSpring: what Spring Cloud writes matches the golden file.
func (s *stage) goldenOfSpring(t *testing.T) {
	s.ask(t, "application", "a", "golden-spring")
	defer s.ask(t, "leave", "a")
	for name, data := range s.nodes(t, "/services/golden-spring") {
		if name != "spring-1" {
			t.Errorf("node %q", name)
		}
		golden(t, "spring", data)
	}
}

// jackson: how Curator parses nodes that other programs may have written matches the golden file.
func (s *stage) jackson(t *testing.T) {
	_, here, _, _ := runtime.Caller(0)
	file := filepath.Join(filepath.Dir(here), "../../../recipes/discovery/testdata/jackson.txt")
	want, err := os.ReadFile(file)
	must(t, err)
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		node, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		fmt.Fprintf(&got, "%s\t%s\n", node, s.ask(t, "read", hex.EncodeToString([]byte(node))))
	}
	if *update {
		must(t, os.WriteFile(file, []byte(got.String()), 0o600))
	} else if got.String() != string(want) {
		t.Errorf("%s has\n%s\nand Curator reads\n%s", file, want, got.String())
	}
}

// withCurator: Curator reads our instances with its own classes, and we read Curator's.
func (s *stage) withCurator(t *testing.T) {
	const base = "/both"
	d := s.discovery(t, base)
	uri, err := discovery.ParseURISpec("{scheme}://{address}:{ssl-port}/{id}?{service-type}")
	must(t, err)
	for _, i := range []discovery.Instance{
		{
			Service: "orders", ID: "go 1", Address: "10.0.0.8", Port: 80, TLSPort: 443, URI: uri,
			Metadata: map[string]string{"zone": "é\"\u2028\x01", "weight": "3"},
		},
		{Service: "orders", ID: "go 2", Address: "10.0.0.9"},
	} {
		defer func(r *discovery.Registration) { must(t, r.Close(t.Context())) }(s.register(t, d, i))
	}
	want := "go 1 10.0.0.8 80 443 {weight=3, zone=é\"\u2028\x01} https://10.0.0.8:443/go 1?dynamic; go 2 10.0.0.9 null null null"
	if got := s.ask(t, "query", base, "orders"); got != want {
		t.Errorf("Curator reads\n%s\nwant\n%s", got, want)
	}

	s.ask(t, "samples", base)
	defer s.ask(t, "unregister", base)
	for _, service := range []string{"full", "plain", "sequential", "text"} {
		ours, err := d.Instances(t.Context(), service)
		must(t, err)
		i := ours.Instances()[0]
		number := func(port int) string {
			if port == 0 {
				return "null"
			}
			return fmt.Sprint(port)
		}
		theirs := s.ask(t, "query", base, service)
		if want := i.ID + " " + i.Address + " " + number(i.Port) + " " + number(i.TLSPort) +
			" "; !strings.HasPrefix(theirs, want) {
			t.Errorf("Curator reads %q: want %q", theirs, want)
		}
		if i.URI != nil && !strings.HasSuffix(theirs, i.URL()) {
			t.Errorf("Curator reads %q: we make the URI %q", theirs, i.URL())
		}
	}
	_, err = d.Register(t.Context(), discovery.Instance{
		Service: "plain", ID: "11111111-2222-4333-8444-555555555555",
		Address: "10.0.0.8",
	})
	if !errors.Is(err, zkrecipes.ErrTaken) {
		t.Errorf("the id of a Java process: %v", err)
	}
}

// withSpring: Spring's DiscoveryClient reads our instances, and we read what a Spring application has registered.
func (s *stage) withSpring(t *testing.T) {
	d := s.discovery(t, "/services", discovery.WithCodec(discovery.Spring()))
	r := s.register(t, d, discovery.Instance{
		Service: "mixed", ID: "go-1", Address: "10.0.0.8", Port: 80,
		Metadata: map[string]string{"zone": "b"},
	})
	s.ask(t, "application", "a", "mixed")
	want := "http://10.0.0.7:8080 {instance_status=UP, zone=a}; http://10.0.0.8:80 {instance_status=UP, zone=b}"
	if got := s.ask(t, "discover", "a", "mixed"); got != want {
		t.Errorf("Spring reads\n%s\nwant\n%s", got, want)
	}
	view, err := d.Instances(t.Context(), "mixed")
	must(t, err)
	if got := view.Instances(); len(got) != 2 || got[1].URL() != "http://10.0.0.7:8080" || got[1].Metadata["zone"] != "a" {
		t.Errorf("we read %+v", got)
	}
	must(t, r.Close(t.Context()))
	poll(t, "Spring reads that ours has gone",
		func() bool { return !strings.Contains(s.ask(t, "discover", "a", "mixed"), "10.0.0.8") })
	s.ask(t, "leave", "a")
	poll(t, "the application has gone", func() bool {
		view, err := d.Instances(t.Context(), "mixed")
		must(t, err)
		return len(view.Entries) == 0
	})
}

// reconnect: a Java ServiceCache is notified when our instance appears and when it changes, but not when our client has
// lost its connection and resumed its session.
func (s *stage) reconnect(t *testing.T) {
	const base = "/quiet"
	d := s.discovery(t, base)
	r := s.register(t, d, discovery.Instance{Service: "orders", ID: "1", Address: "10.0.0.8", Port: 1})
	s.ask(t, "cache", "c", base, "orders")
	cached := func() (times int, instances string) {
		number, instances, _ := strings.Cut(s.ask(t, "cached", "c"), " ")
		times, err := strconv.Atoi(number)
		must(t, err)
		return times, instances
	}
	before, instances := cached()
	if instances != "1=10.0.0.8:1" {
		t.Fatalf("the cache has %q", instances)
	}
	mine, err := s.client.Session(t.Context())
	must(t, err)
	state := r.State()
	for range 3 {
		s.proxy.Refuse()
		s.proxy.Cut()
		poll(t, "disconnected", func() bool { return !r.State().Current })
		must(t, s.proxy.Accept())
		poll(t, "connected again", func() bool { return r.State().Current })
		must(t, r.Update(t.Context(), r.Instance())) // the same data: nothing is written
	}
	if again, err := s.client.Session(t.Context()); err != nil || again.ID() != mine.ID() ||
		r.State().Czxid != state.Czxid {
		t.Fatalf("the session was lost: %v", err)
	}
	// ZooKeeper delivers events in order.
	other := s.register(t, d, discovery.Instance{Service: "orders", ID: "2", Address: "10.0.0.9", Port: 2})
	var times int
	told := func(what string) { // the cache first has the change, then reports it
		t.Helper()
		poll(t, what, func() bool {
			times, instances = cached()
			return times > before && strings.Contains(instances, what)
		})
	}
	told("2=10.0.0.9:2")
	if times != before+1 {
		t.Errorf("the cache was told %d times of one new instance: a reconnect was an event", times-before)
	}
	before = times
	changed := r.Instance()
	changed.Port = 3
	must(t, r.Update(t.Context(), changed))
	told("1=10.0.0.8:3")
	if times != before+1 {
		t.Errorf("the cache was told %d times of one change", times-before)
	}
	must(t, r.Close(t.Context()))
	must(t, other.Close(t.Context()))
}
