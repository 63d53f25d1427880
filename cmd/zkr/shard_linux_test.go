package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// shardStage is a directory in which the programs of shards record that they run.
type shardStage struct {
	*testing.T
	srv *zktest.Server
	dir string
}

func newShardStage(t *testing.T) *shardStage {
	t.Helper()
	s := &shardStage{t, zktest.Run(t), t.TempDir()}
	t.Cleanup(func() {
		for _, name := range numbered(4) {
			if pid := s.pid(name); pid > 0 && !gone(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return s
}

// shardProgram records its process, and any process of the previous owner that still runs. It starts another process.
// Both ignore SIGTERM, so they run until SIGKILL.
const shardProgram = `
trap '' TERM
old=$(cat "$DIR/$1.pid" 2>/dev/null)
for p in $old; do
	if grep -q '^State:.[^ZX]' "/proc/$p/status" 2>/dev/null; then echo "$1: $p runs, and $$ begins" >>"$DIR/overlap"; fi
done
sleep 600 &
echo "$$ $!" >"$DIR/$1.new" && mv "$DIR/$1.new" "$DIR/$1.pid"
echo "$1 $ZKR_SHARD $WHO $ZKR_TOKEN $ZKR_PATH" >>"$DIR/log"
wait`

// long is for tests in which no member may lose its session, even if the machine stalls for a while.
const long = "--session-timeout=30"

// start starts a member under a new label.
func (s *shardStage) start(who string, flags ...string) *zkr {
	s.Helper()
	args := slices.Concat([]string{"shard", "--count=4", "--settle=0", "--session-timeout=4", "--stop-timeout=0.3"}, flags,
		[]string{"/app/parts", "--", "sh", "-c", shardProgram, "sh", "{}"})
	z := command(s.T, address(s.T, s.srv, who), args...)
	z.Env = append(z.Env, "DIR="+s.dir, "WHO="+who)
	require.NoError(s, z.Start())
	return z
}

// pid returns the process that works on a shard, or 0 if there has been none.
func (s *shardStage) pid(name string) int {
	text, _ := os.ReadFile(filepath.Join(s.dir, name+".pid")) // 0 if there is none
	first, _, _ := strings.Cut(string(text), " ")
	pid, _ := strconv.Atoi(first)
	return pid
}

// owners returns which member currently works on each shard.
func (s *shardStage) owners() map[string]string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	owners := map[string]string{}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if pid := s.pid(fields[0]); pid > 0 && !gone(pid) {
			owners[fields[0]] = fields[2]
		}
	}
	return owners
}

// served waits until each member serves the given number of shards.
func (s *shardStage) served(want map[string]int) {
	s.Helper()
	eventually(s.T, fmt.Sprint(want), func() bool {
		have := map[string]int{}
		for _, who := range s.owners() {
			have[who]++
		}
		return fmt.Sprint(have) == fmt.Sprint(want)
	})
	s.alone()
}

// alone requires that no program has started while another one of its shard was running.
func (s *shardStage) alone() {
	s.Helper()
	text, _ := os.ReadFile(filepath.Join(s.dir, "overlap"))
	require.Empty(s, string(text))
}

func (s *shardStage) pids() (all []int) {
	for _, name := range numbered(4) {
		all = append(all, s.pid(name))
	}
	return all
}

func TestShard_DividesAndHandsOver(t *testing.T) {
	t.Parallel()
	s := newShardStage(t)
	socket := filepath.Join(t.TempDir(), "s")
	first := s.start("first", long, "--metrics-http", "unix:"+socket)
	s.served(map[string]int{"first": 4})
	_, text := ask(t, throughSocket(socket), "/metrics")
	assert.Contains(t, text, `zkrecipes_shards_owned{name="/app/parts"} 4`)
	before := s.pids()
	second := s.start("second", long)
	s.served(map[string]int{"first": 2, "second": 2})
	stayed := 0
	for i, pid := range s.pids() {
		if pid == before[i] {
			stayed++
		}
	}
	assert.Equal(t, 2, stayed, "what does not move goes on")
	assert.Equal(t, 0, first.after(t, syscall.SIGTERM))
	s.served(map[string]int{"second": 4})
	assert.Equal(t, 0, second.after(t, syscall.SIGINT))
	assert.Empty(t, s.owners())
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	require.NoError(t, err)
	for line := range bytes.Lines(log) {
		fields := strings.Fields(string(line))
		require.Equal(t, fields[0], fields[1])
		require.Equal(t, "/app/parts/own/"+fields[0], fields[4])
	}
}

// TestShard_Exclusion: the programs of a member that is held up end before those of the next one begin. The member then
// returns.
func TestShard_Exclusion(t *testing.T) {
	t.Parallel()
	slow := []string{"--session-timeout=16", "--grace=1", "--kill-lead=5"} // a busy machine may be late by seconds
	for name, hit := range map[string]func(s *shardStage, z *zkr){
		"stopped":   func(_ *shardStage, z *zkr) { _ = z.Process.Signal(syscall.SIGSTOP) },
		"partition": func(s *shardStage, _ *zkr) { s.srv.Stall(zktest.Label("first"), zktest.Both) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShardStage(t)
			first := s.start("first", slow...)
			s.served(map[string]int{"first": 4})
			s.start("second", slow...)
			s.served(map[string]int{"first": 2, "second": 2})
			hit(s, first)
			s.served(map[string]int{"second": 4})
			s.srv.Heal(zktest.Everyone)
			require.NoError(t, first.Process.Signal(syscall.SIGCONT))
			s.served(map[string]int{"first": 2, "second": 2})
			require.Equal(t, 0, first.after(t, syscall.SIGTERM))
		})
	}
}

// TestShard_ReturnGrace: the shards of a member that returns wait for it.
func TestShard_ReturnGrace(t *testing.T) {
	t.Parallel()
	s := newShardStage(t)
	first := s.start("first", long, "--id=m1", "--return-grace=10m")
	s.served(map[string]int{"first": 4})
	s.start("second", long, "--id=m2", "--return-grace=10m")
	s.served(map[string]int{"first": 2, "second": 2})
	before := s.owners()
	require.Equal(t, 0, first.after(t, syscall.SIGTERM))
	s.served(map[string]int{"second": 2})
	s.start("first", long, "--id=m1", "--return-grace=10m")
	s.served(map[string]int{"first": 2, "second": 2})
	require.Equal(t, before, s.owners())
}

// TestShard_AskedWhileNoServerAnswers: zkr ends once its programs have.
func TestShard_AskedWhileNoServerAnswers(t *testing.T) {
	t.Parallel()
	s := newShardStage(t)
	first := s.start("first")
	s.served(map[string]int{"first": 4})
	s.srv.Stall(zktest.Everyone, zktest.Both)
	require.Equal(t, 0, first.after(t, syscall.SIGTERM))
	require.Empty(t, s.owners())
}

// TestShard_GuardKilled: processes left behind by the killed guard of one program are killed, and the programs of the
// other shards continue.
func TestShard_GuardKilled(t *testing.T) {
	t.Parallel()
	s := newShardStage(t)
	s.start("first", long)
	s.served(map[string]int{"first": 4})
	before := s.pids()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", before[0]))
	require.NoError(t, err)
	guard, err := strconv.Atoi(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	eventually(t, "it is started again",
		func() bool { return gone(before[0]) && s.pid("0") != before[0] && !gone(s.pid("0")) })
	s.alone()
	require.Equal(t, before[1:], s.pids()[1:])
	for _, pid := range before[1:] {
		require.False(t, gone(pid))
	}
}

// TestShard_GivesAway: a shard whose program fails moves to another machine.
func TestShard_GivesAway(t *testing.T) {
	srv := zktest.Run(t)
	z := begin(t, srv.Addr(), "shard", "--shards=a,b", "--give-up=1", "--settle=0", "--id=m1", "/p", "--",
		"sh", "-c", `echo "in $1"; test "$1" = a && exit 3; exec sleep 300`, "sh", "{}")
	eventually(t, "b runs", func() bool { return strings.Contains(z.out.String(), "in b\n") })
	observer, err := shard.New(dial(t, srv), "/p")
	require.NoError(t, err)
	eventually(t, "a is given away", func() bool {
		view, err := observer.Owners(t.Context())
		return err == nil && len(view.Members) == 1 && slices.Equal(view.Members[0].Refuses, []string{"a"})
	})
	assert.Contains(t, z.out.String(), "in a\n")
	assert.Contains(t, z.err.String(), "status 3")
	assert.Equal(t, 0, z.after(t, syscall.SIGTERM))
}

// TestShard_Signals: zkr forwards a signal that does not stop it. At the first one that does, zkr asks its programs to
// stop, followed by SIGKILL.
func TestShard_Signals(t *testing.T) {
	t.Parallel()
	z := begin(t, zktest.Run(t).Addr(), "shard", "--count=2", "--settle=0", "/p", "--",
		"sh", "-c", `trap 'echo "usr1 $1"' USR1; trap 'echo "term $1"' TERM; echo "ready $1"; while :; do sleep 0.05; done`,
		"sh", "{}")
	says := func(words ...string) {
		eventually(t, fmt.Sprint(words), func() bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(z.out.String(), word) })
		})
	}
	says("ready 0", "ready 1")
	require.NoError(t, z.Process.Signal(syscall.SIGUSR1))
	says("usr1 0", "usr1 1")
	assert.Equal(t, 0, z.after(t, syscall.SIGTERM))
	says("term 0", "term 1")
}

// TestShard_Hangup: SIGHUP asks programs to reload their configuration. It does not start --stop-timeout, and a program
// that fails after it has failed.
func TestShard_Hangup(t *testing.T) {
	t.Parallel()
	z := begin(t, zktest.Run(t).Addr(), "shard", "--count=1", "--settle=0", "--stop-timeout=0.1", "/p", "--",
		"sh", "-c", `trap 'echo hup; n=$((n+1))' HUP; n=0; i=0; echo ready; while test $i -lt 20; do sleep 0.05; `+
			`i=$((i+n)); done; echo lasted; exit 3`)
	eventually(t, "it is ready", func() bool { return strings.Contains(z.out.String(), "ready\n") })
	require.NoError(t, z.Process.Signal(syscall.SIGHUP))
	eventually(t, "it goes on", func() bool { return strings.Contains(z.out.String(), "lasted\n") })
	eventually(t, "it has failed", func() bool { return strings.Contains(z.err.String(), "status 3") })
	assert.Equal(t, 0, z.after(t, syscall.SIGTERM))
}

func TestShard_WrongUsage(t *testing.T) {
	for _, args := range map[string][]string{
		"an empty name":   {"--shards=a,,b", "/p", "--", "true"},
		"no shards":       {"/p", "--", "true"},
		"two sets":        {"--count=3", "--shards=a", "/p", "--", "true"},
		"negative":        {"--count=-1", "/p", "--", "true"},
		"too many":        {"--count=100001", "/p", "--", "true"},
		"a slash":         {"--shards=a/b", "/p", "--", "true"},
		"twice":           {"--shards=a,a", "/p", "--", "true"},
		"grace and no id": {"--count=1", "--return-grace=1", "/p", "--", "true"},
		"weight":          {"--count=1", "--weight=0", "/p", "--", "true"},
		"long grace":      {"--count=1", "--grace=30", "/p", "--", "true"},
		"two paths":       {"--count=1", "/p", "/q", "--", "true"},
	} {
		ends(t, exit.Usage, zktest.Run(t).Addr(), append([]string{"shard"}, args...)...)
	}
	assert.Equal(t, []string{"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10"}, numbered(11))
	assert.Equal(t, []string{"0"}, numbered(1))
	all, err := shard.New(dial(t, zktest.Run(t)), "/p")
	require.NoError(t, err)
	require.NoError(t, all.SetNames(t.Context(), numbered(maxCount)...))
}

// TestShard_BelowOtherZkr: a member does not take the name of an outer zkr. A zkr below the program of a shard keeps
// the name of the shard.
func TestShard_BelowOtherZkr(t *testing.T) {
	t.Parallel()
	z := begin(t, zktest.Run(t).Addr(), "lock", "/outer", "--shell",
		`exec "$ZKR" shard --shards=a --settle=0 /p --shell 'echo "first $ZKR_SHARD"; "$ZKR" lock /inner --shell "echo `+
			`\"second \$ZKR_SHARD\""; exec sleep 300'`)
	eventually(t, "the inner programs run", func() bool {
		return strings.Contains(z.out.String(), "first a\n") && strings.Contains(z.out.String(), "second a\n")
	})
	assert.Equal(t, 0, z.after(t, syscall.SIGTERM), z.err.String())
}
