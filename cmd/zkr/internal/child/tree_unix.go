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

// sight is what one look at all processes has found.
type sight struct {
	seen   bool
	all    []process
	guards map[int]*Child
	groups map[int]*Child
	err    error
}

// look looks at all processes. The look begins after the call. Callers that wait at the same time share one, so that many commands
// that end at once cost little more than one. No guard is started or reaped meanwhile: those in the list are known.
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
	h.next = nil // who asks from now on gets a later look
	h.asking.Unlock()
	s.all, s.err = h.list()
	maps.DeleteFunc(h.groups, func(group int, _ *Child) bool { // the number of an empty group passes on
		return !slices.ContainsFunc(s.all, func(p process) bool { return p.group == group })
	})
	s.guards, s.groups, s.seen = maps.Clone(h.guards), maps.Clone(h.groups), true
	return s
}

// Left is how many processes are left of the command and of what it has started. A list of processes takes time: a
// process whose parent ends in the meantime may be missing in it, so nothing is left when two lists say so.
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
	if c.cgroup.populated() { // by what /proc hides
		return 1
	}
	return 0
}

// Foreign returns the processes that the command has started and that this process cannot kill: it may not signal them, as they
// run as another user, and they are not in the control group.
func (c *Child) Foreign() (pids []int) {
	tree, _ := c.tree() // without a list of processes there is nothing to report
	for _, p := range tree {
		if errors.Is(p.signal(0), syscall.EPERM) && !c.cgroup.has(p.pid) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// tree lists the live processes that the command has started, with itself. What other commands have started stands below their
// guards. If another guard was killed, what it has left is here, too, until that is killed, but for the group of its command: what
// cannot be killed there must not hold up the others.
func (c *Child) tree() ([]process, error) {
	s := c.host.look()
	if s.err != nil {
		return nil, fmt.Errorf("list the processes: %w", s.err)
	}
	all := slices.DeleteFunc(slices.Clone(s.all), func(p process) bool {
		if of := s.guards[p.pid]; of != nil {
			return of != c
		}
		of := s.groups[p.group]
		return of != nil && of != c && p.parent == os.Getpid()
	})
	return slices.DeleteFunc(members(os.Getpid(), c.group(), all), func(p process) bool {
		since, strange := c.strange[p.pid]
		return strange && since == p.since || s.guards[p.pid] == c
	}), nil
}

// group is the group whose members the command has started, 0 if there is none. When the guard has ended, its number may
// become another group's. Where orphans stay below this process, the group is not needed then.
func (c *Child) group() int {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if !c.ownGroup || orphansStay && c.unguarded {
		return 0
	}
	return c.guard.pid
}
