package parity

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// An ensemble is three servers that lose two, so that the first one serves only reads, and gets them back.
type ensemble struct {
	Target

	lose, regain func() error
	wake         func(*testing.T) // called when the majority is back
}

// realEnsemble sets the option on its leader that read-only mode needs once it has no majority. Until then, its sessions
// take zxids as those of zktest do. That server leads because a leader has applied a change before it answers it. When a
// follower answers, the leader may not have applied the change yet, and may refuse the next request for that reason.
func realEnsemble(t *testing.T) (ensemble, zktest.Release) {
	t.Helper()
	e := zkserver.StartEnsemble(t, 3, zkserver.WithSyncLimit(40), zkserver.WithSessionTimeouts(least, longest),
		zkserver.WithContainerCheck(24*time.Hour), zkserver.WithProperty("readonlymode.enabled", "true"))
	alone, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(slices.Clone(e.Servers), func(s *zkserver.Server) bool { return s == alone })
	lose := func() error {
		for _, s := range e.Servers {
			if err := s.Stop(); err != nil {
				return err
			}
		}
		return errors.Join(alone.Configure(zkserver.WithSetting("localSessionsEnabled", "true")), alone.Restart())
	}
	regain := func() error { return errors.Join(others[0].Restart(), others[1].Restart()) }
	return ensemble{
			Target{Name: "zookeeper", Addr: alone.Addr()},
			lose, regain,
			func(t *testing.T) { keepAwake(t, alone.Addr()) },
		},
		release(t, alone)
}

// joins is how long a server of an ensemble may take to join the others on a busy machine.
const joins = 10 * time.Minute

// keepAwake pings a server until the connection or the test ends. A server of an ensemble may leave a request in its
// queue until another one arrives (ZOOKEEPER-4537, fixed in 3.8.1), and a script sends nothing more before it has its
// answers.
func keepAwake(t *testing.T, addr string) {
	t.Helper()
	r := newRun(addr)
	// Until the server has joined the others, it closes the connection.
	for deadline := time.Now().Add(joins); r.slots[0] == nil; time.Sleep(20 * time.Millisecond) {
		said, err := r.connect(Op{Code: stepConnect, Session: own, Timeout: 1_200_000})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the server does not take the session that keeps it awake: %s %v", said, err)
		}
	}
	s := r.slots[0]
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	hungUp := make(chan struct{})
	go func() { // until the connection ends
		defer close(hungUp)
		_, _ = io.Copy(io.Discard, s.in)
	}()
	over := t.Context().Done()
	go func() { // until the connection or the test ends
		defer func() { _ = s.Close() }()
		for {
			s.send(r, Op{Code: opPing})
			select {
			case <-hungUp:
				return
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

func zktestEnsemble(t *testing.T, r zktest.Release) ensemble {
	t.Helper()
	s := zktest.Run(t, zktest.WithRelease(r), zktest.WithSessionTimeouts(least, longest),
		zktest.WithContainerCheck(24*time.Hour), zktest.WithFronts(3), zktest.WithReadOnlyMode())
	others := s.Fronts()[1:]
	lose := func() error {
		others[0].Stop()
		others[1].Stop()
		return nil
	}
	regain := func() error { return errors.Join(others[0].Start(), others[1].Start()) }
	return ensemble{Target{Name: "zktest", Addr: s.Addr()}, lose, regain, func(*testing.T) {}}
}

// await returns once the first server answers isro as wanted.
func (e ensemble) await(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(joins); fourLetter(t, e.Addr, "isro") != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not become %s", e.Name, want)
		}
	}
}

// surviving is the number of a session that existed before the majority was lost.
const surviving = 1000

// fill creates nodes, and sessions that outlive the majority.
func (e *ensemble) fill(t *testing.T) {
	t.Helper()
	e.wake(t)
	e.before = newRun(e.Addr)
	if err := e.before.makeRoot(); err != nil {
		t.Fatal(err)
	}
	e.before.all(t, append(Generate(1, 300, false),
		[]Op{{Code: stepConnect, Session: surviving, Timeout: 1_200_000}},
		[]Op{{Code: opCreate, Path: "/kept", Flags: 1}},
	))
	e.before.finish()
}

// all plays steps, and returns their results.
func (r *run) all(t *testing.T, s Script) (lines []string) {
	t.Helper()
	for _, step := range s {
		more, err := r.step(step)
		if err != nil {
			t.Fatalf("%v: %v", step, err)
		}
		lines = append(lines, more...)
	}
	return lines
}

// A server that has lost the majority answers as zktest does, also once the majority is back.
func TestReadOnly_ZktestAgreesWithReal(t *testing.T) {
	a, r := realEnsemble(t)
	b := zktestEnsemble(t, r)
	for _, e := range []*ensemble{&a, &b} {
		e.fill(t)
		if err := e.lose(); err != nil {
			t.Fatal(err)
		}
		e.await(t, "ro")
	}
	scripts := []Script{neverGenerated}
	for seed := range uint64(10) {
		scripts = append(scripts, readsOnly(seed))
	}
	for i, s := range scripts {
		d, err := Compare(a.Target, b.Target, s)
		if err != nil {
			t.Fatalf("script %d: %v", i, err)
		}
		if d != nil {
			t.Fatalf("script %d: they differ at the end of\n%v", i, Shrink(d, a.Target, b.Target, 20*time.Second))
		}
	}
	if want, got := a.comeBack(t), b.comeBack(t); !slices.Equal(want, got) {
		t.Errorf("the majority is back:\nzookeeper %q\nzktest    %q", want, got)
	}
}

// neverGenerated is what generated scripts omit, because a server that is not read-only ends the connection or suffers
// damage.
var neverGenerated = Script{
	{{Code: stepConnect, Timeout: 10_000, Flag: acceptsReadOnly}},
	{{Code: opCheck, Path: "/a"}},
	{{Code: 20, Path: "/a"}}, // deleteContainer
	{{Code: stepConnect, Handshake: reattach, Session: surviving, Timeout: 10_000, Flag: acceptsReadOnly}},
	{{Code: stepConnect, Handshake: reattach, Session: surviving, Timeout: 10_000}},
}

// comeBack keeps a connection and its watch while the majority returns, and returns what clients see.
func (e *ensemble) comeBack(t *testing.T) []string {
	t.Helper()
	r := newRun(e.Addr)
	defer r.finish()
	r.follow(e.before)
	lines := r.all(t, Script{
		{{Code: stepConnect, Timeout: 1_200_000, Flag: acceptsReadOnly}},
		{{Code: opExists, Path: "/kept", Watch: true}},
	})
	if err := e.regain(); err != nil {
		t.Fatal(err)
	}
	e.await(t, "rw")
	e.wake(t)
	lines = append(lines, r.all(t, Script{
		{{Code: opPing}},
		{{Code: stepConnect, Handshake: reattach, Timeout: 1_200_000, Flag: acceptsReadOnly}}, // its session is gone
		{{Code: stepConnect, Session: 1, Timeout: 1_200_000, Flag: acceptsReadOnly}},
		{{Code: opExists, Path: "/kept"}},
		{{Code: stepConnect, Handshake: reattach, Session: surviving, Timeout: 1_200_000}},
		{{Code: opSetData, Path: "/kept"}},
		{{Code: opGetEphemerals, Path: "/kept"}},
	})...)
	for i, line := range lines { // the numbers of leaders may differ
		lines[i] = zxids.ReplaceAllString(line, "")
	}
	return lines
}

var zxids = regexp.MustCompile(`(zxid|[mp]z|mtime)=\S+`)

// readsOnly generates a script in which most handshakes accept a read-only server. It omits the node that lists the
// addresses of the servers.
func readsOnly(seed uint64) Script {
	// Not pipelined: the real server may send a refusal before the answers to earlier reads.
	s := Generate(seed, length, false)
	for _, step := range s {
		if o := &step[0]; o.Code == stepConnect && o.Session%8 != 7 {
			o.Flag = acceptsReadOnly
		}
	}
	return slices.DeleteFunc(s, func(step []Op) bool { return strings.Contains(step[0].String(), "/zookeeper/config") })
}
