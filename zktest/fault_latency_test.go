package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func took(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func TestLatency_EveryRequestWaits_AndThoseSentTogetherWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 10 * time.Millisecond
		s := Run(t, InMemory(), WithLatency(d))
		var r *raw
		require.Equal(t, d, took(func() { r = attachRaw(t, s, "", 10*time.Second) }))
		require.Equal(t, d, took(func() { r.make("/a", Persistent) }))
		require.Equal(t, d, took(func() { r.run(OpExists, watchBody("/a", false)) }))
		require.Equal(t, d, took(func() {
			const many = 1000
			for range many {
				r.ask(OpSetData, setBody("/a", nil, -1))
			}
			for i := range int32(many) {
				require.Equal(t, r.xid-many+1+i, r.next().xid)
			}
		}))
		s.SetLatency(0)
		require.Zero(t, took(func() { r.make("/b", Persistent) }))
	})
}

func TestWriteLatency_WritesWait_AndReadsOfTheSameConnectionBehindThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 10 * time.Millisecond
		s := Run(t, InMemory(), WithWriteLatency(d))
		r, other := attachRaw(t, s, "", 10*time.Second), attachRaw(t, s, "", 10*time.Second)
		require.Equal(t, d, took(func() { r.make("/a", Persistent) }))
		require.Zero(t, took(func() { r.run(OpExists, watchBody("/a", false)) }))

		r.ask(OpDelete, versionBody("/a", -1))
		r.ask(OpExists, watchBody("/a", false))
		require.Equal(t, CodeOK, other.do(OpExists, watchBody("/a", false)), "not applied yet")
		require.Equal(t, d, took(func() {
			require.Equal(t, CodeOK, r.next().code)
			require.Equal(t, CodeNoNode, r.next().code)
		}))
	})
}

// TestLatency_ClientHangsUp_ItsRequestIsApplied: a request that has arrived is applied, even if its client hangs up
// while it waits.
func TestLatency_ClientHangsUp_ItsRequestIsApplied(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		s.SetWriteLatency(time.Second)
		r.ask(OpCreate, createBody("/a", Persistent))
		require.NoError(t, r.nc.Close())
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, s.Exists("/a"))
	})
}

func TestLatency_ServerClosedWhileRequestsWait_Returns(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		s.SetLatency(time.Hour)
		for range 4 {
			r.ask(OpPing, nil)
		}
		synctest.Wait()
		require.Zero(t, took(s.Close))
	})
}

// TestLatency_ManyBytesWait_TheServerReadsNoMore: memory is bounded. What is still in the socket is served later.
func TestLatency_ManyBytesWait_TheServerReadsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		const sets, size = 20, 1 << 19
		r.make("/a", Persistent)
		s.SetLatency(time.Second)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for range sets {
				r.ask(OpSetData, setBody("/a", make([]byte, size), -1))
			}
		}()
		synctest.Wait()
		select {
		case <-sent:
			t.Error("the server has read all requests")
		default:
		}
		for range sets {
			require.Equal(t, CodeOK, r.next().code)
		}
	})
}
