package parity

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Environment variables, which make parity sets, choose what a run compares.
var (
	first    = setting("PARITY_SEED", 0, parseUint)
	seeds    = setting("PARITY_SEEDS", 20, parseUint)
	length   = setting("PARITY_OPS", 500, strconv.Atoi)          // operations of a seed
	duration = setting("PARITY_DURATION", 0, time.ParseDuration) // how long to continue with other seeds after these
)

func parseUint(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

func setting[T any](name string, otherwise T, parse func(string) (T, error)) T {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return v
}

// Servers grant session timeouts between least and longest, so that no session of a script expires on a busy machine.
const (
	least   = 40 * time.Second
	longest = 30 * time.Minute
)

// A profile is one configuration, applied to both servers.
type profile struct {
	name     string
	extended bool // nodes with a TTL are allowed
}

var profiles = []profile{{name: "default"}, {name: "extended", extended: true}}

// real starts a ZooKeeper for scripts. It reaps no containers, and no session expires before a script is over.
func (p profile) real(t *testing.T, name string) Target {
	t.Helper()
	s := p.zookeeper(t)
	release(t, s)
	return Target{Name: name, Addr: s.Addr()}
}

func (p profile) zookeeper(t *testing.T) *zkserver.Server {
	t.Helper()
	return zkserver.Start(t, zkserver.WithTickTime(2*time.Second), zkserver.WithSessionTimeouts(least, longest),
		zkserver.WithContainerCheck(24*time.Hour),
		zkserver.WithProperty("zookeeper.extendedTypesEnabled", fmt.Sprint(p.extended)))
}

// release returns the release that zktest must emulate to agree with a real server. The test is skipped if zktest does
// not know that release: the scripts are made for the releases that it knows.
func release(t *testing.T, s *zkserver.Server) zktest.Release {
	t.Helper()
	version, err := s.Version()
	for deadline := time.Now().Add(joins); err != nil; version, err = s.Version() {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Log("ZooKeeper", version)
	if strings.HasPrefix(version, "3.8.0-$") { // only Debian's build has a placeholder for the commit
		return zktest.ReleaseDebian
	}
	number, _, _ := strings.Cut(version, "-")
	r := zktest.Release(number)
	trial, err := zktest.Start(zktest.InMemory(), zktest.WithRelease(r))
	if err != nil {
		t.Skipf("nothing to compare ZooKeeper %s with: %v", number, err)
	}
	trial.Close()
	return r
}

func (p profile) zktest(t *testing.T, r zktest.Release) Target {
	t.Helper()
	opts := []zktest.Option{
		zktest.WithRelease(r), zktest.WithSessionTimeouts(least, longest),
		zktest.WithContainerCheck(24 * time.Hour), zktest.OnViolation(func(err error) {
			if !strings.Contains(err.Error(), "with the container flag") { // scripts do that on purpose
				t.Errorf("zktest: %v", err)
			}
		}),
	}
	if p.extended {
		opts = append(opts, zktest.WithExtendedTypes())
	}
	return Target{Name: "zktest", Addr: zktest.Run(t, opts...).Addr()}
}

// Seeds rotate through the profiles.
func TestParity_ZktestAgreesWithReal(t *testing.T) {
	total, start := 0, time.Now()
	for i, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			s := p.zookeeper(t)
			r := release(t, s)
			a, b := Target{Name: "zookeeper", Addr: s.Addr()}, p.zktest(t, r)
			handshakes(t, a, b)
			bareCheck(t, a, b, r)
			began, share := time.Now(), duration/time.Duration(len(profiles))
			for seed := first; seed < first+seeds || time.Since(began) < share; seed++ {
				if seed%uint64(len(profiles)) == uint64(i) {
					total += compare(t, a, b, seed, false) + compare(t, a, b, seed, true)
				}
			}
		})
	}
	t.Logf("%d operations compared in %v", total, time.Since(start).Round(time.Millisecond))
}

// Two real servers must agree. If they do not, the comparison is stricter than ZooKeeper.
func TestParity_RealAgreesWithReal(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			a, b := p.real(t, "one"), p.real(t, "other")
			for seed := range uint64(2) {
				compare(t, a, b, seed, false)
				compare(t, a, b, seed, true)
			}
			handshakes(t, a, b)
		})
	}
}

// compare plays the script of a seed against both targets, and returns the number of its operations.
func compare(t *testing.T, a, b Target, seed uint64, pipelined bool) int {
	t.Helper()
	s := Generate(seed, length, pipelined)
	d, err := Compare(a, b, s)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if d != nil {
		d = Shrink(d, a, b, 20*time.Second)
		t.Fatalf("seed %d, pipelined %v: %s and %s differ at the end of\n%v\nrepeat with: "+
			"PARITY_SEED=%d PARITY_SEEDS=1 PARITY_OPS=%d go test -count=1 ./parity -run '^%s$'",
			seed, pipelined, a.Name, b.Name, d, seed, length, t.Name())
	}
	return s.Len()
}

// handshakes compares how sessions are negotiated, refused and ended.
func handshakes(t *testing.T, a, b Target) {
	t.Helper()
	var s Script
	for i, timeout := range []int32{0, -1, 1, 39_999, 40_000, 40_001, 1_799_999, 1_800_000, 1_800_001, 3_600_000, 1<<31 - 1} {
		s = append(s,
			[]Op{{Code: stepConnect, Session: i, Timeout: timeout, Flag: Flag(i % 3)}},
			[]Op{{Code: opCreate, Path: "/a", Flags: 1}},
			[]Op{{Code: stepConnect, Session: i, Handshake: wrongPassword, Timeout: timeout}},
			[]Op{{Code: stepConnect, Session: i, Handshake: reattach, Timeout: 30_000 - timeout%2}},
			[]Op{{Code: opGetData, Path: "/a"}},
			// The server closes the connection of slot 0.
			[]Op{{Code: stepConnect, Slot: 1, Session: i, Handshake: reattach, Timeout: 30_000}},
			[]Op{{Slot: 1, Code: opClose}},
			[]Op{{Code: stepConnect, Session: i, Handshake: reattach, Timeout: 30_000}}, // the session has ended
			[]Op{{Code: stepConnect, Session: i, Handshake: unknownSession, Timeout: 30_000}},
			[]Op{{Code: stepConnect, Session: i, Handshake: fromTheFuture, Timeout: 30_000}},
		)
	}
	d, err := Compare(a, b, s)
	if err != nil || d != nil {
		t.Errorf("handshakes differ: %v\n%v", err, d)
	}
}

// bareCheck sends a check that is not part of a multi, which does lasting damage to a server before 3.8.5 and 3.9.3.
func bareCheck(t *testing.T, a, b Target, r zktest.Release) {
	t.Helper()
	if r < "3.8.5" || strings.HasPrefix(string(r), "3.9.") && r < "3.9.3" {
		return
	}
	d, err := Compare(a, b, Script{{{Code: stepConnect, Timeout: 10_000}}, {{Code: opCheck, Path: "/a"}}})
	if err != nil || d != nil {
		t.Fatalf("bare checks differ: %v\n%v", err, d) // its session expires during a later script
	}
}

// The comparison must be able to fail. It detects that two servers differ in one setting, with a script of a few steps.
func TestParity_TellsDifferentServersApart(t *testing.T) {
	a, b := profiles[0].real(t, "without ttl"), profiles[1].real(t, "with ttl")
	d, err := Compare(a, b, Generate(1, 500, true))
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		t.Fatal("no difference seen")
	}
	d = Shrink(d, a, b, 20*time.Second)
	t.Logf("shrunk to %d steps:\n%v", len(d.Script), d)
	if len(d.Script) > 4 {
		t.Errorf("shrunk to %d steps only", len(d.Script))
	}
}
