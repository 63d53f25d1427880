package shards

import (
	"fmt"
	"sync"
	"time"
)

// tally is what the members of a team serve, and what they have stopped.
type tally struct {
	shards []string

	mu      sync.Mutex
	serving map[string]string    // the member that now serves a shard
	last    map[string]string    // the member that last began to serve a shard
	since   map[string]time.Time // when a shard that nobody serves was stopped
	changed time.Time
	count
}

// count is the cost of a change.
type count struct {
	moved   int           // shards that began to be served by another member than before
	stopped int           // shards that a member stopped serving
	idle    time.Duration // the total time without an owner, of all shards
	longest time.Duration // of any shard
	doubled int           // shards that a member began to serve while another still did
}

func newTally(shards []string) *tally {
	return &tally{
		shards: shards, serving: map[string]string{}, last: map[string]string{}, since: map[string]time.Time{},
		changed: time.Now(),
	}
}

// start records that a member begins to serve a shard.
func (t *tally) start(member, shard string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.changed = now
	if last := t.last[shard]; last != "" && last != member {
		t.moved++
	}
	if t.serving[shard] != "" {
		t.doubled++
	}
	if stopped, idle := t.since[shard]; idle {
		t.idle += now.Sub(stopped)
		t.longest = max(t.longest, now.Sub(stopped))
		delete(t.since, shard)
	}
	t.serving[shard], t.last[shard] = member, member
}

// stop records that a member stops serving a shard.
func (t *tally) stop(member, shard string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = time.Now()
	t.stopped++
	if t.serving[shard] == member {
		delete(t.serving, shard)
		t.since[shard] = t.changed
	}
}

// reset starts a new count.
func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count = count{}
}

func (t *tally) counted() count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// isDivided reports whether these members serve all shards, and each at least one.
func (t *tally) isDivided(members []string) (divided bool, changed time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	serves := map[string]int{}
	for _, m := range t.serving {
		serves[m]++
	}
	for _, m := range members {
		if serves[m] == 0 {
			return false, t.changed
		}
	}
	return len(t.serving) == len(t.shards) && len(serves) == len(members), t.changed
}

// gone records that a member has ended, whatever it served.
func (t *tally) gone(member string) {
	t.mu.Lock()
	var lost []string
	for shard, serves := range t.serving {
		if serves == member {
			lost = append(lost, shard)
		}
	}
	t.mu.Unlock()
	for _, shard := range lost {
		t.stop(member, shard)
	}
}

// quietTime is how long nothing changes in a team that has settled.
const quietTime = 3 * settle

// settled waits until these members serve all shards and nothing changes any more, and returns the time of the last
// change.
func (t *tally) settled(members []string) (time.Time, error) { return t.await(members, quietTime) }

// served waits until these members serve all shards. It returns since when.
func (t *tally) served(members []string) (time.Time, error) { return t.await(members, 0) }

func (t *tally) await(members []string, quiet time.Duration) (time.Time, error) {
	const limit = 15 * time.Minute
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		divided, changed := t.isDivided(members)
		if divided && time.Since(changed) >= quiet {
			return changed, nil
		}
		if time.Since(begun) > limit {
			t.mu.Lock()
			defer t.mu.Unlock()
			return changed, fmt.Errorf("after %v, %d of %d shards are served: want all by %v", limit, len(t.serving),
				len(t.shards), members)
		}
	}
}
