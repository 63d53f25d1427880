package web

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// closed reports whether a connection was closed.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	return c.SetDeadline(time.Time{}) != nil
}

func TestGuests_TheIdleMakeWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(3, slog.New(slog.DiscardHandler))
		arrive := func() net.Conn {
			c, peer := net.Pipe()
			t.Cleanup(func() { _, _ = c.Close(), peer.Close() })
			time.Sleep(time.Second)
			g.admit(c, http.StateNew)
			return c
		}
		busy, first, second := arrive(), arrive(), arrive()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(withGuest(t.Context(), busy))
		g.answering(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			third := arrive()
			require.True(t, closed(t, first), "the one that has been idle for longest")
			require.False(t, closed(t, second))
			fourth := arrive()
			require.True(t, closed(t, second))
			g.mark(third, true)
			g.mark(fourth, true)
			require.True(t, closed(t, arrive()), "the others are busy")
			g.mark(fourth, false)
			g.admit(third, http.StateClosed)
			require.False(t, closed(t, arrive()), "there is room")
			require.False(t, closed(t, fourth))
		})).ServeHTTP(httptest.NewRecorder(), r)
		arrive()
		require.False(t, closed(t, busy), "a request has just been answered on it")
	})
}

func TestGuests_LeaveDescriptorsForTheRest(t *testing.T) {
	for descriptors, want := range map[uint64]int{1: 1, 64: 16, 256: 64, 1024: 256, 1 << 20: 512, 1<<64 - 1: 512} {
		require.Equal(t, want, mostGuests(descriptors))
	}
}
