//go:build linux

package exclusion

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

// candidate is one zkr process.
type candidate struct {
	*exec.Cmd
	link  Link
	log   bubble.Buffer
	ended chan struct{} // closed when Wait has returned
}

// over reports whether zkr has exited.
func (c *candidate) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// status waits for zkr to exit, and returns its exit status, or minus the signal that killed it.
func (c *candidate) status() int {
	<-c.ended
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return c.ProcessState.ExitCode()
}

// event is an entry in zkr's log.
type event struct {
	Time    time.Time
	Event   string
	Token   string  // of acquired
	Seconds float64 // of late: how long zkr was not scheduled
	Pid     int     // of foreign: the process that zkr may not signal
}

// events returns what zkr has logged so far, without the entries of the connection.
func (c *candidate) events() (all []event) {
	for line := range strings.Lines(c.log.String()) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Event != "" {
			all = append(all, e)
		}
	}
	return all
}

// told returns the first event with one of the names.
func (c *candidate) told(names ...string) (event, bool) {
	for _, e := range c.events() {
		if slices.Contains(names, e.Event) {
			return e, true
		}
	}
	return event{}, false
}

// tokens returns the tokens that zkr has had. A zkr that divides shards keeps running after it loses its lock, and may
// acquire it again.
func (c *candidate) tokens() (all []int64) {
	for _, e := range c.events() {
		if token, err := strconv.ParseInt(e.Token, 10, 64); err == nil && e.Event == "acquired" {
			all = append(all, token)
		}
	}
	return all
}

// token returns the last token, or 0 for none.
func (c *candidate) token() int64 {
	all := append([]int64{0}, c.tokens()...)
	return all[len(all)-1]
}
