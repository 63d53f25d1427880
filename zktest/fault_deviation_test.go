package zktest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeviations(t *testing.T) {
	for name, test := range map[string]struct {
		deviation Deviation
		check     func(t *testing.T, s *Server, r *raw)
	}{
		"it hangs up on containers": {HangsUpOnContainers, func(t *testing.T, s *Server, r *raw) {
			r.ask(OpCreateContainer, createBody("/c", Container))
			r.closed()
			require.False(t, s.Exists("/c"))
		}},
		"no resumption": {NoResumption, func(t *testing.T, s *Server, r *raw) {
			r.make("/e", Ephemeral)
			_ = r.nc.Close()
			again := dialRaw(t, s, "")
			require.True(t, again.connect(0, 10*time.Second, r.session, r.passwd))
			require.NotEqual(t, r.session, again.session)
			require.True(t, s.Exists("/e"), "the first session is there until it expires")
			time.Sleep(8 * time.Second)
			again.run(OpPing, nil)
			time.Sleep(6 * time.Second)
			synctest.Wait()
			require.False(t, s.Exists("/e"))
		}},
		"no zxid": {NoZxid, func(t *testing.T, s *Server, r *raw) {
			reply, _ := r.call(OpCreate, createBody("/n", Persistent))
			require.Zero(t, reply.zxid)
			n, _ := s.Node("/n")
			require.Positive(t, n.Stat.Czxid)
		}},
		"late events": {LateEvents, func(t *testing.T, s *Server, r *raw) {
			r.run(OpExists, watchBody("/n", true))
			_, err := s.Create("/n", nil, Persistent)
			require.NoError(t, err)
			_, told := r.call(OpSync, pathBody("/"))
			require.Empty(t, told, "the answer is first")
			time.Sleep(lateness)
			synctest.Wait()
			_, told = r.call(OpSync, pathBody("/"))
			require.Equal(t, []event{{NodeCreated, "/n"}}, told)
		}},
		"local sync": {LocalSync, func(t *testing.T, s *Server, r *raw) {
			s.Fronts()[0].Lag()
			require.Equal(t, CodeOK, r.do(OpSync, pathBody("/")))
		}},
		"no transactions": {NoMulti, func(t *testing.T, _ *Server, r *raw) {
			require.Equal(t, CodeUnimplemented, r.do(OpMulti, nil))
			r.closed()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Run(t, InMemory(), WithDeviations(test.deviation))
				test.check(t, s, attachRaw(t, s, "", 10*time.Second))
			})
		})
	}
}

// TestLateEvents_KeepTheirOrder: an event that is late is still behind those before it, including on a connection that
// ends meanwhile.
func TestLateEvents_KeepTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		gone := attachRaw(t, s, "", 10*time.Second)
		var sent, told []event
		for i := range 26 {
			sent = append(sent, event{NodeCreated, fmt.Sprintf("/%c", 'a'+i)})
			r.run(OpExists, watchBody(sent[i].path, true))
			gone.run(OpExists, watchBody(sent[i].path, true))
		}
		for i, e := range sent {
			_, err := s.Create(e.path, nil, Persistent)
			require.NoError(t, err)
			if i == len(sent)/2 {
				require.NoError(t, gone.nc.Close())
				time.Sleep(lateness / 2)
			}
		}
		require.Equal(t, lateness/2, took(func() {
			for range len(sent)/2 + 1 {
				told = append(told, r.next().event())
			}
		}))
		require.Equal(t, lateness/2, took(func() {
			for range len(sent)/2 - 1 {
				told = append(told, r.next().event())
			}
		}))
		require.Equal(t, sent, told)

		r.run(OpGetData, watchBody("/a", true))
		require.NoError(t, s.Delete("/a"))
		require.Zero(t, took(s.Close), "it does not wait for the event")
	}, WithDeviations(LateEvents))
}
