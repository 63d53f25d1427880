package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/request"
)

func TestReplies_Unread_TheServerStopsReadingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reads, size = 200, 1 << 19
		s := Run(t, InMemory())
		r, other := attachRaw(t, s, "a", 10*time.Second), attachRaw(t, s, "b", 10*time.Second)
		r.make("/big", Persistent)
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/big", make([]byte, size), -1)))
		for range reads {
			r.ask(OpGetData, watchBody("/big", false))
		}
		synctest.Wait()
		require.LessOrEqual(t, queued(s, "a"), 4<<20+size+1000)
		require.Equal(t, CodeOK, other.do(OpPing, nil))
		for range reads {
			f := r.next()
			require.Len(t, f.body.Bytes(), size)
		}
		require.Equal(t, CodeOK, r.do(OpPing, nil))
		synctest.Wait()
		require.Zero(t, queued(s, "a"))
	})
}

// queued returns how many bytes wait for the client with the label.
func queued(s *Server, label string) (n int) {
	s.lock()
	defer s.unlock()
	for c := range s.conns {
		if c.Label == label {
			n += c.Unread()
		}
	}
	return n
}

// TestReplies_Unread_TheConnectionEndsWithItsSession: the session of a client that does not read expires, and its
// connection must end as well.
func TestReplies_Unread_TheConnectionEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "", 4*time.Second)
		r.make("/big", Persistent)
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/big", make([]byte, 1<<19), -1)))
		for range 50 {
			r.ask(OpGetData, watchBody("/big", false))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, s.Sessions())
		s.lock()
		defer s.unlock()
		require.Empty(t, s.conns)
	})
}

func TestConnection_WithoutAHandshake_IsClosedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		mute := dialRaw(t, s, "")
		time.Sleep(request.HandshakeLimit - 1)
		require.Equal(t, 1, s.Connections())
		require.Equal(t, time.Duration(1), took(mute.closed))

		half := dialRaw(t, s, "")
		_, err := half.nc.Write([]byte{0, 0})
		require.NoError(t, err)
		require.Equal(t, request.HandshakeLimit, took(half.closed))

		s.Freeze()
		frozen := dialRaw(t, s, "")
		time.Sleep(3 * request.HandshakeLimit)
		require.Equal(t, 1, s.Connections())
		go s.Thaw()
		require.True(t, frozen.connect(0, 10*time.Second, 0, nil))
	})
}

func TestViolations_AreBounded_AndMisuseIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told int
		s := Run(t, InMemory(), OnViolation(func(err error) {
			require.ErrorIs(t, err, ErrMisuse)
			told++
		}))
		r := attachRaw(t, s, "", 10*time.Second)
		for range maxViolations + 10 {
			r.run(OpCreate, createBody("/a", Container))
		}
		synctest.Wait()
		require.Len(t, s.Violations(), maxViolations)
		require.Equal(t, maxViolations+10, told)

		lenient := Run(t, InMemory()) // or this test would fail
		attachRaw(t, lenient, "", 10*time.Second).run(OpCreate, createBody("/a", Container))
		require.Len(t, lenient.Violations(), 1)
	})
}
