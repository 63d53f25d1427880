//go:build unix && !linux && !darwin

package child

import (
	"errors"
	"syscall"
)

const needsGuard = true

func adoptOrphans() error { return nil } // they go to process 1

func attributes(ownGroup bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: ownGroup} }

func processes() ([]process, error) { return nil, errors.ErrUnsupported }

func (p process) signal(s syscall.Signal) {
	_ = syscall.Kill(p.pid, s) // if it has ended meanwhile, that is what was wanted
}
