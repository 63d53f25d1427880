package supervise

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Each look for what a program has left running lists all processes of the machine, 200 times a second for as long as a
// daemon ran with --leftovers wait, or a killed process waited for a device.
func TestLeft_LooksLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &supervision{timeout: 15 * time.Second, ended: time.Now()}
		looks := func(limit time.Duration) (n int) {
			for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(s.interval()) {
				n++
			}
			return n
		}
		assert.InDelta(t, 64, looks(320*time.Millisecond), 1, "often at first")
		time.Sleep(time.Minute)
		assert.InDelta(t, 3600, looks(time.Hour), 70, "then once a second")
		assert.Equal(t, s.beat(), s.pause(), "but the clock is checked as before")
		s.leftovers, s.recount = 2, time.Now().Add(s.interval())
		assert.Equal(t, 2, s.left(), "without a look")
		s.killed = time.Now()
		assert.Equal(t, 5*time.Millisecond, s.pause(), "they end soon")
	})
}
