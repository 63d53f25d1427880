package supervise

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLateness: zkr did not run for a second, as three programs notice, and then for another one, which the last
// program to look sees as longer.
func TestLateness(t *testing.T) {
	var log bytes.Buffer
	e, err := newEvents(slog.New(slog.NewTextHandler(&log, nil)), -1)
	require.NoError(t, err)
	l := lateness{events: e}
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	look := func(last, now int) { l.look(at(last), at(now), 300*time.Millisecond) }
	l.look(time.Time{}, at(0), 0) // the first look
	look(0, 300)
	look(0, 1000)
	look(10, 1001)
	look(90, 1090)
	look(1000, 1300)
	look(1001, 2002)
	look(1300, 2003)
	look(1090, 2400)
	look(3000, 3350)
	look(2500, 3400) // started earlier
	e.close()
	require.Equal(t, 5, strings.Count(log.String(), "event=late"), log.String())
	for _, gap := range []string{"1s", "1.001s", "1.31s", "350ms", "900ms"} {
		require.Contains(t, log.String(), "did not run for "+gap+":")
	}
}
