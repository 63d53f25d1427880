package child

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroup is a version 2 control group for one command, below the group of this process. The kernel kills everything in
// it at once, including processes that have changed user and processes that are still being started. It requires Linux
// 5.14 or later. A process running as root can leave the group. A nil cgroup means that there is none.
type cgroup struct {
	name string
	dir  *os.File
}

// makeCgroup creates a group if this process may. Otherwise it returns nil, and the processes of the command are found
// only in /proc.
func makeCgroup() *cgroup {
	above, ok := ownCgroup()
	if !ok {
		return nil
	}
	name, err := os.MkdirTemp(above, "zkr-")
	if err != nil {
		return nil
	}
	g := openCgroup(name)
	if g == nil {
		_ = os.Remove(name)
		return nil
	}
	if err := unix.Faccessat(int(g.dir.Fd()), "cgroup.kill", unix.W_OK, unix.AT_EACCESS); err != nil {
		g.remove()
		return nil
	}
	return g
}

// openCgroup opens a group that the host has created. It returns nil for the name "".
func openCgroup(name string) *cgroup {
	if name == "" {
		return nil
	}
	dir, err := os.Open(name)
	if err != nil {
		return nil
	}
	return &cgroup{name, dir}
}

func (g *cgroup) path() string {
	if g == nil {
		return ""
	}
	return g.name
}

// start starts a program in the group, or outside it if the system refuses that.
func (g *cgroup) start(path string, args []string, attr *os.ProcAttr) (*os.Process, error) {
	if g != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(g.dir.Fd())
		if p, err := os.StartProcess(path, args, attr); err == nil {
			return p, nil
		}
		attr.Sys.UseCgroupFD = false
	}
	return os.StartProcess(path, args, attr)
}

// ownCgroup returns the directory of the group of this process.
func ownCgroup() (string, bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		own, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !found {
			continue
		}
		root, mounted, ok := cgroupMount()
		below, inside := cgroupBelow(root, own)
		return filepath.Join(mounted, below), ok && inside
	}
	return "", false
}

// cgroupBelow returns the path from one group to another one below it. The path of a group outside the namespace
// contains "..", which this process cannot follow.
func cgroupBelow(root, own string) (string, bool) {
	if slices.Contains(elements(root), "..") || slices.Contains(elements(own), "..") {
		return "", false
	}
	below, err := filepath.Rel(root, own)
	return below, err == nil && filepath.IsLocal(below)
}

func elements(path string) []string { return strings.Split(strings.TrimSpace(path), "/") }

// cgroupMount returns where the groups below root are mounted. A line of mountinfo has root and mount point as its
// fourth and fifth field, and the file system type after a dash.
func cgroupMount() (root, mounted string, ok bool) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", "", false
	}
	defer file.Close() //nolint:errcheck // read-only
	for lines := bufio.NewScanner(file); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if words := strings.Fields(before); len(words) >= 5 && strings.HasPrefix(after, "cgroup2 ") {
			return words[3], words[4], true
		}
	}
	return "", "", false
}

// has reports whether a process is in the group or in one below it.
func (g *cgroup) has(pid int) bool {
	if g == nil {
		return false
	}
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup") // it may have ended
	return isIn(string(text), filepath.Base(g.name))
}

// isIn reports whether the name occurs in the group paths of a process.
func isIn(groups, name string) bool {
	return slices.ContainsFunc(strings.Split(groups, "\n"),
		func(line string) bool { return slices.Contains(elements(line), name) })
}

// kill kills everything in the group.
func (g *cgroup) kill() {
	if g == nil {
		return
	}
	fd, err := unix.Openat(int(g.dir.Fd()), "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the group was removed, so it was empty
	}
	_, _ = unix.Write(fd, []byte("1")) // if this fails, the list of processes shows what is left, here and below
	_ = unix.Close(fd)
}

// populated reports whether the group contains a live process.
func (g *cgroup) populated() bool {
	if g == nil {
		return false
	}
	fd, err := unix.Openat(int(g.dir.Fd()), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	text := make([]byte, 256)
	n, _ := unix.Read(fd, text)
	_ = unix.Close(fd)
	return strings.Contains(string(text[:max(n, 0)]), "populated 1")
}

// remove removes the group if it is empty, together with the groups that the command left in it, innermost first.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	_ = g.dir.Close() // read-only
	var groups []string
	_ = filepath.WalkDir(g.name, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return nil // unreadable directories stay
	})
	for _, group := range slices.Backward(groups) {
		_ = os.Remove(group) // a group that is not empty stays
	}
}
