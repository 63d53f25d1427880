//go:build unix && !linux

package child

import "os"

// cgroup does nothing on these systems.
type cgroup struct{}

func makeCgroup() *cgroup { return nil }

func openCgroup(string) *cgroup { return nil }

func (*cgroup) path() string { return "" }

func (*cgroup) start(path string, args []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(path, args, attr)
}

func (*cgroup) has(int) bool { return false }

func (*cgroup) kill() {}

func (*cgroup) populated() bool { return false }

func (*cgroup) remove() {}
