//go:build unix

package child

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSignal_SparesAnotherProcessWithTheSamePid simulates a command that the guard has reaped and whose pid another
// process has taken.
func TestSignal_SparesAnotherProcessWithTheSamePid(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "300")
	require.NoError(t, other.Start())
	c := &Child{pid: other.Process.Pid, guard: &guard{pid: 1}, host: &Host{list: processes}, done: make(chan struct{})}
	require.ErrorIs(t, c.Forward(syscall.SIGKILL), os.ErrProcessDone)
	c.host.list = func() ([]process, error) { return nil, syscall.ENOSYS }
	require.NoError(t, c.Forward(syscall.SIGTERM), "without a list of processes there is the pid alone")
	var ended *exec.ExitError
	require.ErrorAs(t, other.Wait(), &ended)
	status, ok := ended.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.Equal(t, syscall.SIGTERM, status.Signal())
}

// A guard that was stopped obeyed each of thousands of deadlines. On a busy machine it did not reach the newest one
// within its patience, and killed the command.
func TestRead_OnlyTheNewestDeadline(t *testing.T) {
	orders, host, err := os.Pipe()
	require.NoError(t, err)
	for at := range 1000 {
		_, err := host.WriteString(strconv.Itoa(at) + "\n")
		require.NoError(t, err)
	}
	lines := read(orders)
	assert.Equal(t, "999", <-lines)
	_, err = host.WriteString("done\n")
	require.NoError(t, err)
	assert.Equal(t, "done", <-lines)
	require.NoError(t, host.Close())
	_, more := <-lines
	assert.False(t, more)
}

func TestKillTree_PausesWhileAProcessCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans := 0
		began := time.Now()
		w := &watch{group: 1, list: func() ([]process, error) {
			scans++
			if time.Since(began) > time.Minute {
				return nil, nil
			}
			return []process{{pid: noProcess, parent: os.Getpid()}}, nil
		}}
		w.killTree()
		assert.Less(t, scans, 80, "one each second in the end")
	})
}

func TestLeft_IsNoneWhenTwoListsSaySo(t *testing.T) {
	lists := 0
	torn := func() []process { // the parent of the process ended while the first list was made
		if lists++; lists == 1 {
			return []process{{pid: noProcess, parent: noProcess + 1}}
		}
		return []process{{pid: noProcess, parent: os.Getpid()}}
	}
	host := &Host{list: func() ([]process, error) { return torn(), nil }}
	c := &Child{pid: noProcess, guard: &guard{pid: noProcess + 2}, host: host, done: make(chan struct{})}
	assert.Equal(t, 1, c.Left())

	lists = 0
	w := &watch{group: 1, list: func() ([]process, error) {
		if lists < 2 {
			return torn(), nil
		}
		lists++
		return nil, nil
	}}
	w.killTree()
	assert.Equal(t, 4, lists, "the torn one, one with the process, and two without it")
}

// TestDone_WaitsForACommandThatOutlivesItsGuard simulates a command that cannot be killed at once, such as one of
// another user.
func TestDone_WaitsForACommandThatOutlivesItsGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		host := &Host{list: func() ([]process, error) {
			if time.Since(began) > time.Minute {
				return nil, nil
			}
			return []process{{pid: noProcess, parent: os.Getpid()}}, nil
		}}
		killed := &guard{pid: noProcess + 2, report: bufio.NewReader(strings.NewReader(""))}
		c := &Child{pid: noProcess, ownGroup: true, guard: killed, host: host, done: make(chan struct{})}
		go c.reap()
		time.Sleep(50 * time.Second)
		select {
		case <-c.Done():
			require.Fail(t, "the command runs")
		default:
		}
		<-c.Done()
		assert.Zero(t, c.Left())
		assert.Equal(t, 137, c.Status().Code)
	})
}

// TestLook_BeginsAfterTheCall: callers that share a listing never get one that started before their call.
func TestLook_BeginsAfterTheCall(t *testing.T) {
	var looks atomic.Int64
	host := &Host{list: func() ([]process, error) {
		number := int(looks.Add(1))
		runtime.Gosched()
		return []process{{pid: number}}, nil
	}}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 200 {
				begun := int(looks.Load())
				assert.Greater(t, host.look().all[0].pid, begun)
			}
		})
	}
	callers.Wait()
	assert.LessOrEqual(t, looks.Load(), int64(8*200))
}

func TestLeft_ForgetsTheGroupOfAGuardThatHasEnded(t *testing.T) {
	if !orphansStay {
		t.Skip("on this system only the group tells the orphans")
	}
	c := &Child{
		ownGroup: true, unguarded: true, guard: &guard{pid: noProcess},
		host: &Host{list: func() ([]process, error) {
			return []process{{pid: noProcess + 1, parent: 1, group: noProcess}}, nil
		}},
	}
	assert.Zero(t, c.Left(), "another group may have the number")
}

// TestLeft_LeavesTheGuardThatHasItsPid simulates a guard that was killed and reaped, and whose pid the guard of another
// command has taken.
func TestLeft_LeavesTheGuardThatHasItsPid(t *testing.T) {
	const pid = noProcess
	host := &Host{guards: map[int]*Child{pid: {}}, list: func() ([]process, error) {
		return []process{{pid: pid, parent: os.Getpid(), group: pid}, {pid: pid + 1, parent: pid, group: pid}}, nil
	}}
	c := &Child{unguarded: true, guard: &guard{pid: pid}, host: host}
	assert.Zero(t, c.Left())
	host.guards[pid] = c
	c.unguarded = false
	assert.Equal(t, 1, c.Left())
}

// TestLeft_OfACommandBesideOneThatCannotBeKilled simulates a guard that was killed with its group, except for a process
// that waits for a device.
func TestLeft_OfACommandBesideOneThatCannotBeKilled(t *testing.T) {
	other := &Child{ownGroup: true, unguarded: true, guard: &guard{pid: noProcess}}
	host := &Host{groups: map[int]*Child{noProcess: other}, list: func() ([]process, error) {
		return []process{{pid: noProcess + 1, parent: os.Getpid(), group: noProcess}}, nil
	}}
	other.host = host
	c := &Child{ownGroup: true, guard: &guard{pid: noProcess + 2}, host: host}
	host.guards = map[int]*Child{c.guard.pid: c}
	assert.Zero(t, c.Left())
	assert.Equal(t, 1, other.Left())
}

// TestGuard_WaitsForNewerDeadlinesAfterItWasStopped lets the clock jump, as if the guard had not run in the meantime.
func TestGuard_WaitsForNewerDeadlinesAfterItWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var jump atomic.Int64
		clock := func() time.Duration { return time.Since(began) + time.Duration(jump.Load()) }
		killed := make(chan struct{})
		kill := sync.OnceFunc(func() { close(killed) })
		orders := make(chan string)
		w := &watch{group: 1, killAt: time.Minute, bootClock: clock, list: func() ([]process, error) {
			kill()
			return nil, nil
		}}
		var running sync.WaitGroup
		for i, stale := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute} {
			jump.Add(int64(time.Hour))
			if i == 0 { // it was stopped between its report and its loop
				running.Go(func() { w.run(nil, orders) })
			}
			orders <- strconv.FormatInt(int64(stale), 10)
			time.Sleep(500 * time.Millisecond) // the host was stopped as well
			select {
			case <-killed:
				assert.Fail(t, "killed while newer deadlines were on their way")
			default:
			}
			orders <- strconv.FormatInt(int64(clock()+time.Minute), 10)
			time.Sleep(time.Second)
		}
		jump.Add(int64(time.Hour))
		again := time.Now()
		<-killed
		assert.Less(t, time.Since(again), 2*time.Second, "no newer deadline has come")
		orders <- "done"
		running.Wait()
	})
}

// TestGuard_OnABusyMachine_IsPatientOnce: a guard that hardly runs looks stopped again and again, and gave a host that was
// stopped its patience each time.
func TestGuard_OnABusyMachine_IsPatientOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var jump atomic.Int64
		clock := func() time.Duration { return time.Since(began) + time.Duration(jump.Load()) }
		killed := make(chan time.Duration, 1)
		kill := sync.OnceFunc(func() { killed <- clock() })
		orders := make(chan string)
		const killAt = 10 * time.Second
		w := &watch{group: 1, killAt: killAt, bootClock: clock, list: func() ([]process, error) {
			kill()
			return nil, nil
		}}
		var running sync.WaitGroup
		running.Go(func() { w.run(nil, orders) })
		for range 100 { // it runs every 0.7 s
			time.Sleep(beat)
			jump.Add(int64(6 * beat))
		}
		orders <- "done"
		running.Wait()
		select {
		case at := <-killed:
			assert.Less(t, at, killAt+2*patience)
		default:
			assert.Fail(t, "not killed")
		}
	})
}

// noProcess exceeds the highest pid of every system.
const noProcess = 1 << 30
