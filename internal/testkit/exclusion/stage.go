//go:build linux

package exclusion

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stage is a lock that one zkr after another holds, each until a fault hits it.
type stage struct {
	Setting
	path      string
	program   []string
	processes int           // of a program
	shards    bool          // zkr shard runs the program, for the only shard
	guarded   bool          // zkr does not run, so that its guard has to kill
	timeout   time.Duration // of the sessions
	lead      time.Duration // how long before the deadline zkr kills
	signs     *signs
	cast      *cast        // nil unless another user is involved
	queue     []*candidate // the running candidates, in order
	all       []*candidate
	disturbed int // how often a zkr has lost the lock by itself: a process that is not scheduled cannot keep a lock
}

func newStage(t *testing.T, setting Setting, path string, processes int, kind string, args ...string) *stage {
	t.Helper()
	if text, set := os.LookupEnv("ZKRECIPES_TEST_ROUNDS"); set {
		var err error
		setting.Rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	file := filepath.Join(t.TempDir(), "signs")
	return &stage{
		Setting: setting, path: path, processes: processes, timeout: timeout, lead: lead,
		signs:   &signs{file: file, of: map[int64]*life{}},
		program: append([]string{os.Args[0], asProgram, kind, file}, args...),
	}
}

// start starts a candidate, and kills it if it outlives the test.
func (s *stage) start(t *testing.T) *candidate {
	t.Helper()
	c := &candidate{link: s.Link(t), ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience())
	verb := []string{"lock"}
	if s.shards {
		verb = []string{"shard", "--count=1", "--settle=0"}
	}
	c.Cmd = s.Zkr(ctx, slices.Concat(verb, []string{
		"-v", "--log=json", "--connect-timeout", patience().String(), "--stop-timeout=50ms", "--grace=200ms",
		"--kill-lead", s.lead.String(),
		"--session-timeout", s.timeout.String(), "--cgroup=" + strconv.FormatBool(s.cgroup()),
		"--allow-setuid=" + strconv.FormatBool(s.cast != nil && s.cast.setuid), s.path, "--",
	}, s.program)...)
	if s.cast != nil {
		s.cast.prepare(c.Cmd)
	}
	c.Env = append(c.Environ(), "ZKR_SERVERS="+c.link.Address)
	c.Stderr = &c.log
	c.WaitDelay = 5 * time.Second // a frozen one exits late as well
	require.NoError(t, c.Start())
	s.all = append(s.all, c)
	go func() {
		defer close(c.ended)
		_ = c.Wait() // the caller asks for the status
	}()
	t.Cleanup(func() {
		cancel()
		<-c.ended
		if t.Failed() && slices.Contains(s.queue, c) {
			t.Logf("zkr said\n%s", c.log.String())
		}
	})
	return c
}

// cgroup reports whether the next zkr gets a control group. Unless other users are involved, every second one does.
func (s *stage) cgroup() bool {
	if s.cast != nil {
		return s.cast.cgroup
	}
	return len(s.all)%2 == 1
}

// life returns what the program of a candidate has shown so far, or nil.
func (s *stage) life(t *testing.T, c *candidate) *life {
	t.Helper()
	require.NoError(t, s.signs.read())
	return s.signs.of[c.token()]
}

// settle waits until all processes of a holder live and a candidate is queued behind it. It replaces candidates that
// have lost the lock without a fault. Candidates that lose their sessions while they wait may join in another order.
func (s *stage) settle(t *testing.T) (holder, next *candidate) {
	t.Helper()
	eventually(t, "a holder runs its program, and a candidate waits", func() bool {
		s.queue = slices.DeleteFunc(s.queue, func(c *candidate) bool {
			if !s.failed(t, c) {
				return false
			}
			s.disturbed++
			return true
		})
		if slices.IndexFunc(s.queue, func(c *candidate) bool { return c.token() != 0 }) == 1 {
			slices.Reverse(s.queue)
		}
		for _, c := range s.queue {
			if _, stands := c.told("waiting", "acquired"); !stands && (!s.shards || c == s.queue[0]) {
				return false // a member without a shard logs nothing
			}
		}
		if len(s.queue) < 2 {
			s.queue = append(s.queue, s.start(t))
			return false
		}
		alive := s.life(t, s.queue[0])
		return alive != nil && len(alive.processes) == s.processes
	})
	return s.queue[0], s.queue[1]
}

// failed reports whether a candidate has lost the lock without a fault, and has therefore exited. A zkr that divides
// shards would keep running, and is killed.
func (s *stage) failed(t *testing.T, c *candidate) bool {
	t.Helper()
	if s.shards && !c.over() {
		if _, lost := c.told("kill", "lost"); !lost {
			return false
		}
		_ = c.Process.Kill() // its guard kills what runs under its lock by now
		c.status()
		return true
	}
	if !c.over() {
		return false
	}
	require.Equal(t, lost, c.status(), c.log.String())
	return true
}

// succession waits until the program of the next candidate shows signs of life. It returns false if the candidate lost
// the lock before that.
func (s *stage) succession(t *testing.T, next *candidate) (succeeded bool) {
	t.Helper()
	eventually(t, "the next program runs", func() bool {
		over := next.over() // once it is over, it shows nothing more
		succeeded = s.life(t, next) != nil
		return succeeded || over
	})
	return succeeded
}

// apart compares each holder with the next. It returns the times from the last sign of the one to the first sign of the
// other. left is the least time from a sign to the deadline that its program could read. overloaded counts the holders
// whose zkr was not scheduled in time, as zkr reports. A process that is not scheduled cannot kill: the two may overlap
// only if zkr did not run from when it had to kill until it was too late. The guard of a zkr that was stopped has no
// such excuse.
func (s *stage) apart(t *testing.T) (gaps []time.Duration, left time.Duration, overloaded int) {
	t.Helper()
	left = time.Hour
	require.NoError(t, s.signs.read())
	late := map[int64]time.Duration{}
	for _, c := range s.all {
		for _, e := range c.events() {
			for _, token := range c.tokens() {
				late[token] = max(late[token], time.Duration(e.Seconds*float64(time.Second)))
			}
		}
		if late[c.token()] > 0 {
			overloaded++
		}
	}
	tokens := slices.Sorted(maps.Keys(s.signs.of))
	for i, token := range tokens[:max(len(tokens)-1, 0)] {
		one, next := s.signs.of[token], s.signs.of[tokens[i+1]]
		gap := next.first - one.last
		gaps = append(gaps, gap)
		if s.cast != nil && s.cast.escapes {
			continue
		}
		if gap <= 0 {
			require.False(t, s.guarded, "holder %d, next %d: %v\n%s", token, tokens[i+1], gap, s.logOf(token))
			require.Greater(t, late[token], s.lead-gap, "holder %d, next %d\n%s", token, tokens[i+1], s.logOf(token))
		}
		if late[token] == 0 {
			require.Positive(t, one.left, "a sign of life at the deadline that the program could read\n%s", s.logOf(token))
			left = min(left, one.left)
		}
	}
	require.True(t, s.signs.known(), "no program could read its deadline")
	return gaps, left, overloaded
}

// logOf returns the log of the holder with a token.
func (s *stage) logOf(token int64) string {
	i := slices.IndexFunc(s.all, func(c *candidate) bool { return slices.Contains(c.tokens(), token) })
	return s.all[i].log.String()
}

// stop ends all candidates, those that wait first.
func (s *stage) stop(t *testing.T) {
	t.Helper()
	for _, c := range slices.Backward(s.queue) {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have lost the lock, and exited
		s.end(t, c)
	}
}

// patience is how long anything may take on a busy machine. ZKRECIPES_TEST_PATIENCE overrides it for a longer
// measurement.
var patience = sync.OnceValue(func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("ZKRECIPES_TEST_PATIENCE")); err == nil {
		return d
	}
	return 2 * time.Minute
})

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	next := time.NewTicker(20 * time.Millisecond)
	defer next.Stop()
	for deadline := time.Now().Add(patience()); !condition(); <-next.C {
		require.True(t, time.Now().Before(deadline), "not within %v: %s", patience(), what)
	}
}
