package zkserver

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process that has been reaped cannot be signaled, and the goroutine that reaped it may not have reported that yet.
func TestKill_OfAProcessThatHasJustBeenReaped(t *testing.T) {
	s := &Server{proc: exec.Command("true"), ended: make(chan struct{})}
	assert.NoError(t, s.proc.Run())
	time.AfterFunc(10*time.Millisecond, func() { close(s.ended) })
	assert.NoError(t, s.end(syscall.SIGKILL))
	assert.False(t, s.Running())
}

// A server that has had little processor time is merely slow: the machine is loaded.
func TestTooLong(t *testing.T) {
	for _, tt := range []struct {
		passed, cpu time.Duration
		over        bool
	}{
		{29 * time.Second, time.Minute, false},
		{31 * time.Second, 2 * time.Second, false},
		{31 * time.Second, 11 * time.Second, true},
		{179 * time.Second, 2 * time.Second, false},
		{181 * time.Second, 0, true},
	} {
		assert.Equal(t, tt.over, tooLong(tt.passed, tt.cpu), tt)
	}
}
