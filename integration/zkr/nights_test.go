package zkr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// The job records when it starts and ends. The first run of a night does what the test has planned. Its parent is the
// guard of zkr.
const job = `#!/bin/sh
read -r _ _ _ zkr _ </proc/$PPID/stat
say() { echo "$1 $MACHINE $zkr $PPID $$ $(date +%FT%T)" >>"$NOTES"; }
say start
plan=$(cat "$PLAN"); echo well >"$PLAN"
case $plan in
slow) sleep 0.5 ;;
waits) until grep -q 'go on' "$PLAN"; do sleep 0.02; done ;;
fails) exit 1 ;;
dies) kill -9 $zkr; sleep 60 ;;
freezes) kill -STOP $zkr; kill -STOP $PPID; kill -STOP $$; sleep 1 ;;
dies-late) say end; kill -9 $zkr; sleep 60 ;;
esac
say end
`

// plans are the nights on which something happens. The others go well.
var plans = map[int]string{
	2: "slow", 4: "dies", 7: "away", 9: "fails", 12: "dies-late", 15: "freezes", 18: "dies", 21: "restarts",
	24: "slow", 27: "off",
}

// jobs are the nights on which the job itself does something other than what the night is named after.
var jobs = map[string]string{"away": "well", "off": "well", "restarts": "waits"}

// world is a server, and machines with one crontab.
type world struct {
	t           *testing.T
	srv         *zkserver.Server
	client      *conn.Client
	line        string // of the crontab
	env         []string
	notes, plan string // files
	random      *rand.Rand
	// of zkr: short where the machine dies or the server is down, so that the test is fast
	session, patience time.Duration
}

// firing is what cron starts on one machine.
type firing struct {
	machine string
	wrong   time.Duration // how far the clock of the machine is ahead when the shell reads it
	late    time.Duration // how long after the first machine cron starts the line
}

func newWorld(t *testing.T) *world {
	t.Helper()
	need.Program(t, "faketime", "apt-get install faketime")
	srv := zkserver.Start(t, zkserver.WithTickTime(100*time.Millisecond),
		zkserver.WithSessionTimeouts(time.Second, time.Minute))
	client, err := conn.Dial(t.Context(), srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	dir := t.TempDir()
	zkr, err := build()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nightly"), []byte(job), 0o700))
	w := &world{
		t: t, srv: srv, client: client, line: crontab(t), notes: filepath.Join(dir, "notes"),
		plan:   filepath.Join(dir, "plan"),
		random: rand.New(rand.NewPCG(1, 1)),
	}
	w.env = append(os.Environ(), "TZ=UTC", "PATH="+dir+":"+filepath.Dir(zkr)+":"+os.Getenv("PATH"), "NOTES="+w.notes,
		"PLAN="+w.plan, "ZKR_SERVERS="+srv.Addr())
	return w
}

// crontab returns the guide's line for a job once a night, as cron passes it to the shell.
func crontab(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guides/zkr.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^0 2-5 \* \* \* +(zkr lock --once .*)$`).FindSubmatch(guide)
	require.NotNil(t, found, "the line in docs/guides/zkr.md")
	return strings.ReplaceAll(string(found[1]), `\%`, "%")
}

// sweep removes the semaphores and the memory of faketimes that were killed. A new faketime with the number of such a
// process does not start.
func sweep() {
	left, _ := filepath.Glob("/dev/shm/*faketime_*") // the pattern is valid
	for _, name := range left {
		if _, err := os.Stat("/proc/" + name[strings.LastIndex(name, "_")+1:]); err != nil {
			_ = os.Remove(name) // another test may be faster
		}
	}
}

// start starts the line of the crontab on a machine whose cron takes it to be the given hour.
func (w *world) start(hour time.Time, f firing) *exec.Cmd {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 3*time.Minute)
	w.t.Cleanup(cancel)
	clock := hour.Add(f.wrong).Format(time.DateTime)
	sweep()
	cmd := exec.CommandContext(ctx, "faketime", clock, "/bin/sh", "-c", w.line)
	cmd.Env = slices.Concat(w.env, []string{
		"MACHINE=" + f.machine, "ZKR_ID=" + f.machine,
		"ZKR_CONNECT_TIMEOUT=" + w.patience.String(), "ZKR_SESSION_TIMEOUT=" + w.session.String(),
	})
	cmd.Stderr = &strings.Builder{}
	cmd.WaitDelay = 5 * time.Second
	time.Sleep(f.late)
	require.NoError(w.t, cmd.Start())
	return cmd
}

// fire starts the line on all machines, and returns the exit statuses by machine once all have ended.
func (w *world) fire(hour time.Time, firings []firing) map[string]int {
	statuses := map[string]int{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for _, f := range firings {
		running.Go(func() {
			cmd := w.start(hour, f)
			status := statusOf(cmd.Wait())
			mu.Lock()
			defer mu.Unlock()
			statuses[f.machine] = status
			if status != 0 {
				w.t.Logf("%s %s: status %d: %s", hour.Format(time.DateOnly), f.machine, status, cmd.Stderr)
			}
		})
	}
	running.Wait()
	return statuses
}

// statusOf returns an exit status as a shell reports it.
func statusOf(err error) int {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &ended):
		return -1
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return ended.ExitCode()
}

// clocks returns three machines at midnight: the clock of the first is slow, of the second fast, of the third either.
func (w *world) clocks() []firing {
	upTo := func(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }
	return []firing{
		{"slow", -time.Second - upTo(3*time.Minute), upTo(100 * time.Millisecond)},
		{"fast", time.Second + upTo(3*time.Minute), upTo(100 * time.Millisecond)},
		{"both", upTo(time.Minute) - 30*time.Second, upTo(200 * time.Millisecond)},
	}
}

// note is a line that the job has written.
type note struct {
	machine, clock  string
	zkr, guard, pid int
}

// noted returns the notes of this night with a given word.
func (w *world) noted(word string) (all []note) {
	text, err := os.ReadFile(w.notes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[0] != word {
			continue
		}
		zkr, _ := strconv.Atoi(fields[2])
		guard, _ := strconv.Atoi(fields[3])
		pid, _ := strconv.Atoi(fields[4])
		all = append(all, note{fields[1], fields[5], zkr, guard, pid})
	}
	return all
}

// begin plans a night.
func (w *world) begin(plan string) {
	require.NoError(w.t, os.RemoveAll(w.notes))
	require.NoError(w.t, os.WriteFile(w.plan, []byte(plan), 0o600))
}

// during does to a machine or the server what the job cannot do.
func (w *world) during(plan string) (done func()) {
	var working sync.WaitGroup
	working.Go(func() {
		switch plan {
		case "freezes": // until another machine runs the job
			if assert.Eventually(w.t, func() bool { return len(w.noted("start")) == 2 }, 2*time.Minute, 10*time.Millisecond) {
				frozen := w.noted("start")[0]
				for _, pid := range []int{frozen.zkr, frozen.guard, frozen.pid} {
					_ = syscall.Kill(pid, syscall.SIGCONT) // zkr kills the others when it resumes
				}
			}
		case "restarts": // while the job runs, and the others wait
			assert.Eventually(w.t, func() bool {
				queue, err := w.client.Children(w.t.Context(), "/jobs/nightly")
				return err == nil && len(queue) == 3 && len(w.noted("start")) == 1
			}, 2*time.Minute, 10*time.Millisecond)
			assert.NoError(w.t, w.srv.Kill())
			assert.NoError(w.t, w.srv.Restart())
			assert.NoError(w.t, os.WriteFile(w.plan, []byte("go on"), 0o600))
		}
	})
	return working.Wait
}

// night makes cron start the line at midnight and at one o'clock, and checks what has happened.
func (w *world) night(date time.Time, plan string) {
	first, other := jobs[plan]
	if !other {
		first = plan
	}
	w.begin(first)
	midnight, machines := date.AddDate(0, 0, 1), w.clocks()
	w.session, w.patience = 15*time.Second, 15*time.Second
	switch plan {
	case "dies", "dies-late", "freezes":
		w.session = 4 * time.Second
	case "restarts":
		w.session = time.Minute
	case "off":
		machines = machines[1:]
	case "away":
		w.patience = time.Second
		require.NoError(w.t, w.srv.Kill())
	}
	done := w.during(plan)
	statuses := w.fire(midnight, machines)
	done()
	if plan == "away" {
		assert.Empty(w.t, w.noted("start"), "no server, no lock, no job")
		require.NoError(w.t, w.srv.Restart())
		w.patience = 15 * time.Second
	}
	for machine, status := range w.fire(midnight.Add(time.Hour), machines) {
		assert.Zero(w.t, status, "%s at one o'clock", machine)
	}
	w.verify(date, plan, statuses)
}

// verify checks that the job of the night has run to its end once. The guide describes the exceptions.
func (w *world) verify(date time.Time, plan string, statuses map[string]int) {
	starts, ends, odd := 1, 1, map[int]int{}
	switch plan {
	case "fails":
		starts, odd = 2, map[int]int{1: 1}
	case "dies":
		starts, odd = 2, map[int]int{137: 1}
	case "freezes":
		starts, odd = 2, map[int]int{79: 1}
	case "dies-late": // after the job, before the record: the guide warns that the job runs again
		starts, ends, odd = 2, 2, map[int]int{137: 1}
	case "away":
		odd = map[int]int{69: 3}
	}
	night := date.Format(time.DateOnly)
	assert.Len(w.t, w.noted("start"), starts, "%s: %s", night, plan)
	assert.Len(w.t, w.noted("end"), ends, "%s: %s", night, plan)
	seen := map[int]int{}
	for _, status := range statuses {
		if status != 0 {
			seen[status]++
		}
	}
	assert.Equal(w.t, odd, seen, "%s: %s: the exit statuses at midnight that are not 0", night, plan)
	data, _, err := w.client.Get(w.t.Context(), "/jobs/nightly-done")
	require.NoError(w.t, err)
	assert.Equal(w.t, night, string(data), "the record")
}

// TestNights fires at midnight, the worst hour for the name of a night. The shell and the job have wrong clocks. zkr
// itself has the correct one: it does not use the time of day.
func TestNights(t *testing.T) {
	w := newWorld(t)
	w.control(t)
	began := time.Now()
	const nights = 30
	before, after := 0, 0
	for n := range nights {
		date := time.Date(2026, 12, 10+n, 0, 0, 0, 0, time.UTC)
		plan, planned := plans[n]
		if !planned {
			plan = "well"
		}
		w.night(date, plan)
		if t.Failed() {
			t.Fatalf("night %d, %s", n, plan)
		}
		for _, start := range w.noted("start") {
			if strings.HasPrefix(start.clock, date.Format(time.DateOnly)) {
				before++
			} else {
				after++
			}
		}
	}
	assert.Positive(t, before, "runs before midnight")
	assert.Positive(t, after, "runs after midnight")
	t.Logf("%d nights in %v; by the clock of its machine the job started %d times before midnight and %d times after",
		nights, time.Since(began).Round(time.Second), before, after)
}

// control shows that the check can fail: without the twelve hours, a job at midnight runs twice.
func (w *world) control(t *testing.T) {
	line := w.line
	defer func() { w.line = line }()
	w.line = strings.NewReplacer("-d '12 hours ago' ", "", "/jobs/nightly", "/jobs/control").Replace(line)
	w.session, w.patience = 15*time.Second, 15*time.Second
	w.begin("well")
	for _, f := range []firing{{machine: "slow", wrong: -2 * time.Second}, {machine: "fast", wrong: time.Second}} {
		cmd := w.start(time.Date(2026, 12, 11, 0, 0, 0, 0, time.UTC), f)
		require.NoError(t, cmd.Wait(), fmt.Sprint(cmd.Stderr))
	}
	require.Len(t, w.noted("end"), 2)
}
