//go:build unix

package supervise

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// TestSignal_BetweenGrantAndStart puts the signal where no test can time it: into the channel, after the context has
// ended.
func TestSignal_BetweenGrantAndStart(t *testing.T) {
	arrived := make(chan os.Signal, 2)
	arrived <- syscall.SIGWINCH
	arrived <- syscall.SIGTERM
	s := &supervision{program: &Program{Arrived: arrived}}
	err := (&Runner{}).start(context.WithoutCancel(t.Context()), s, nil)
	code, message := exit.Status(err)
	assert.Equal(t, 143, code)
	assert.Empty(t, message)
}

// TestSignal_BeforeOneOfSeveralStarts: signals that are passed on to all programs do not keep one of them from
// starting.
func TestSignal_BeforeOneOfSeveralStarts(t *testing.T) {
	arrived, asked := make(chan os.Signal, 2), make(chan struct{})
	arrived <- syscall.SIGHUP
	arrived <- syscall.SIGUSR1
	s := &supervision{program: &Program{Arrived: arrived}, asked: asked}
	assert.NoError(t, s.stoppedBefore(t.Context()))
	assert.Empty(t, arrived)
}
