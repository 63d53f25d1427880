package zkserver

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process that has been reaped takes no signal, and the goroutine that reaped it may not have said so yet.
func TestKill_OfAProcessThatHasJustBeenReaped(t *testing.T) {
	s := &Server{proc: exec.Command("true"), ended: make(chan struct{})}
	assert.NoError(t, s.proc.Run())
	time.AfterFunc(10*time.Millisecond, func() { close(s.ended) })
	assert.NoError(t, s.end(syscall.SIGKILL))
	assert.False(t, s.Running())
}
