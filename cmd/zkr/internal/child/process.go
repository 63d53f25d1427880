//go:build unix

package child

import "slices"

// process is one entry of the process list.
type process struct {
	pid, parent, group int
	dead               bool   // a zombie
	since              string // start time, if the list has it
}

// members returns the live processes below root and those of the group. The group finds orphans even where process 1
// adopts them.
func members(root, group int, all []process) []process {
	found := below(root, all)
	known := map[int]bool{root: true}
	for _, p := range found {
		known[p.pid] = true
	}
	for _, p := range all {
		if group != 0 && p.group == group && !known[p.pid] {
			found = append(found, p)
		}
	}
	return slices.DeleteFunc(found, func(p process) bool { return p.dead })
}

// below returns the descendants of root.
func below(root int, all []process) []process {
	byParent := map[int][]process{}
	for _, p := range all {
		byParent[p.parent] = append(byParent[p.parent], p)
	}
	var found []process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range byParent[next[0]] {
			if p.pid == root {
				continue
			}
			found = append(found, p)
			next = append(next, p.pid)
		}
	}
	return found
}
