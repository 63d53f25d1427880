//go:build unix

package child

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
)

// sight is the result of listing all processes once.
type sight struct {
	seen   bool
	all    []process
	guards map[int]*Child
	groups map[int]*Child
	err    error
}

// look lists all processes. The listing starts after the call. Concurrent callers share one, so that many commands
// ending at once cost little more than a single one. No guard is started or reaped during the listing, so all guards in
// the list are known.
func (h *Host) look() *sight {
	h.asking.Lock()
	if h.next == nil {
		h.next = &sight{}
	}
	s := h.next
	h.asking.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.seen {
		return s
	}
	h.asking.Lock()
	h.next = nil // later callers get a later listing
	h.asking.Unlock()
	s.all, s.err = h.list()
	maps.DeleteFunc(h.groups, func(group int, _ *Child) bool { // the number of an empty group may be reused
		return !slices.ContainsFunc(s.all, func(p process) bool { return p.group == group })
	})
	s.guards, s.groups, s.seen = maps.Clone(h.guards), maps.Clone(h.groups), true
	return s
}

// Left returns how many processes remain of the command and of what it has started. Since a list of processes takes
// time to make, a process whose parent ends in the meantime may be missing from it; Left therefore returns 0 only if
// two consecutive lists are empty.
func (c *Child) Left() int {
	for range 2 {
		tree, err := c.tree()
		if err != nil { // without a list, only the command itself is known
			select {
			case <-c.done:
				return 0
			default:
				return 1
			}
		}
		if len(tree) > 0 {
			return len(tree)
		}
	}
	if c.cgroup.populated() { // by processes that /proc hides
		return 1
	}
	return 0
}

// Foreign returns the processes started by the command that this process cannot kill: they run as another user, so it
// may not signal them, and they are not in the control group.
func (c *Child) Foreign() (pids []int) {
	tree, _ := c.tree() // without a list of processes there is nothing to report
	for _, p := range tree {
		if errors.Is(p.signal(0), syscall.EPERM) && !c.cgroup.has(p.pid) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// tree returns the live processes that the command has started, and the command itself. Processes that other commands
// have started are below their own guards, and whatever a strange process starts is below that one. If another guard
// was killed, its leftovers are included here, too, until they are killed, except for the group of its command: a
// process there that cannot be killed must not hold up other commands.
func (c *Child) tree() ([]process, error) {
	s := c.host.look()
	if s.err != nil {
		return nil, fmt.Errorf("list the processes: %w", s.err)
	}
	all := slices.DeleteFunc(slices.Clone(s.all), func(p process) bool {
		if of := s.guards[p.pid]; of != nil {
			return of != c
		}
		if since, strange := c.strange[p.pid]; strange && since == p.since {
			return true
		}
		of := s.groups[p.group]
		return of != nil && of != c && p.parent == os.Getpid()
	})
	return slices.DeleteFunc(members(os.Getpid(), c.group(), all), func(p process) bool {
		return s.guards[p.pid] == c
	}), nil
}

// group returns the group whose members the command has started, or 0 if there is none. Once the guard has ended, its
// number may be reused for another group; where orphans stay below this process, the group is then not needed.
func (c *Child) group() int {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if !c.ownGroup || orphansStay && c.unguarded {
		return 0
	}
	return c.guard.pid
}
