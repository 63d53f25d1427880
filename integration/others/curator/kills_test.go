package curator_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/others/contest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Two processes on each side contend, and are killed in turn while they hold or wait. MIXED_SECTIONS=10000 is the long
// form, on all recipes; see `make nightly PART=contention`.
func TestContentionWithKills(t *testing.T) {
	s := open(t)
	worker, err := chaos.Build(t.TempDir())
	must(t, err)
	mixes := []struct {
		peers   [2]string // kinds
		ours    []string
		arg     string
		limit   int
		parents []string
	}{
		{[2]string{"mutex", "mutex"}, []string{"-recipe", "mutex", "-mates", "1"}, "-", 1, []string{""}},
		{[2]string{"read", "write"}, []string{"-recipe", "rwlock", "-writes", "0.4"}, "-", 0, []string{""}},
		{[2]string{"latch", "latch"}, []string{"-recipe", "election", "-mates", "1"}, "-", 1, []string{""}},
		{[2]string{"write", "write"}, []string{"-recipe", "rwlock", "-writes", "1"}, "-", 1, []string{""}},
		{
			[2]string{"semaphore-mutex", "semaphore-mutex"},
			[]string{"-recipe", "semaphore", "-limit", "1"},
			"-", 1,
			[]string{"/locks", "/leases"},
		},
		{
			[2]string{"semaphore", "semaphore"},
			[]string{"-recipe", "semaphore", "-limit", "3"},
			"/curator/limit", 3,
			[]string{"/locks", "/leases"},
		},
	}
	if !contest.Long() {
		mixes = mixes[:2]
	}
	total, kills := 0, 0
	for i, m := range mixes {
		t.Run(fmt.Sprintf("%s and %s", m.peers[0], m.peers[1]), func(t *testing.T) {
			sets := fmt.Sprint("/mixed/", i)
			path := sets + "/deaf" // the name of the set that both sides write
			s.prepare(t, kind{arg: m.arg, limit: m.limit})
			c := contest.Contest{
				Ours: func(id string) *exec.Cmd {
					return exec.CommandContext(t.Context(), worker, append([]string{
						"-id", id, "-servers", s.addr, "-path", path, "-sets", sets,
						"-resource", s.socket, "-session-timeout", short.String(), "-section", "4ms",
					}, m.ours...)...)
				},
				Theirs: func(id string, event func(check.Event)) func() {
					p := s.start(t, short, event)
					p.Loop(t, id, m.peers[id[len("peer-")]-'0'], path, m.arg, 1<<30, s.socket)
					return p.Kill
				},
			}
			c.Sections, c.Kills = contest.Length(len(mixes))
			r := c.Run(t)
			r.Judge(t, m.limit, s.sets.Set(path).Updates())
			for _, parent := range m.parents {
				contest.Drained(t, s.clients[0], path+parent)
			}
			total, kills = total+len(r.Holds), kills+r.Kills
		})
	}
	t.Logf("%d sections, %d kills", total, kills)
}
