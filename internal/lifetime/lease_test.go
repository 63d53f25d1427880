package lifetime_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// expiry returns when the server ended the session.
func expiry(t *testing.T, srv *zktest.Server, id int64) time.Time {
	t.Helper()
	for _, txn := range srv.History() {
		if txn.Op == zktest.OpCloseSession && txn.Session == id {
			return txn.Time
		}
	}
	t.Fatal("the server has not ended the session")
	return time.Time{}
}

// beat is the interval between syncs.
const beat = trial.Timeout / 11

// The promise: however the connection fails, and at whatever moment, the holder is notified at its deadline, and the
// server ends the session later.
func TestLease_EveryAsymmetricFault_LossIsToldAtTheDeadlineAndBeforeTheExpiry(t *testing.T) {
	faults := map[string]func(*zktest.Server){
		"both directions stalled": func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.Both) },
		"requests stalled":        func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.ToServer) },
		"replies stalled":         func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.FromServer) },
		"cut and refused":         func(srv *zktest.Server) { trial.CutOff(srv, trial.Ours) },
		"never answers a sync": func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1}, zktest.Ignore())
			srv.Intercept(zktest.Match{Op: zktest.OpConnect, Times: -1}, zktest.DropRequest())
		},
	}
	for name, fault := range faults {
		for _, moment := range []int{0, 1, 300, 624, 625, 626, 1249, 1250, 1251, 2000, 3333, 4999} {
			t.Run(fmt.Sprintf("%s after %dms", name, moment), func(t *testing.T) {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.Dial(t, srv)
					_, err := c.Create(t.Context(), "/held", nil, zk.FlagEphemeral)
					require.NoError(t, err)
					s := trial.Live(t, c)
					defer s.Retain()()
					answered := trial.Requests(srv, zktest.OpSync)
					losses := trial.OnLoss(t, s, false)
					time.Sleep(20*time.Second + time.Duration(moment)*time.Millisecond)
					synctest.Wait()
					require.Empty(t, losses.All())
					syncs := answered.All()
					newest := syncs[len(syncs)-1].At
					fault(srv)
					// Syncs are sent every T/11. The latest one answered T/4 before the latest is the third before it.
					deadline := s.ValidUntil()
					require.Equal(t, newest.Add(-3*beat).Add(trial.Timeout-trial.Timeout/20), deadline)
					<-s.Done()
					require.Len(t, losses.All(), 1)
					loss := losses.All()[0]
					require.Equal(t, deadline, loss.At, "to the millisecond")
					require.Equal(t, zkrecipes.LossDeadline, loss.What.Lost.Reason)
					require.Equal(t, deadline, loss.What.Lost.At)
					require.False(t, loss.At.After(loss.What.Until))
					time.Sleep(3 * trial.Timeout)
					require.True(t, loss.At.Before(expiry(t, srv, s.ID())), "before the server ends the session")
					require.False(t, srv.Exists("/held"))
					srv.Heal(trial.Ours)
				})
			})
		}
	}
}

func TestLease_OptionsMoveTheDeadline(t *testing.T) {
	tests := map[string]struct {
		opts []conn.Option
		left time.Duration // after a connect answer, and between the latest sync and the deadline
		sync time.Duration
	}{
		"default":   {nil, 9500 * time.Millisecond, 9500*time.Millisecond - 3*beat},
		"no margin": {[]conn.Option{conn.WithSafetyMargin(0)}, 10 * time.Second, 10*time.Second - 3*beat},
		"tick time 0.5 s": {
			[]conn.Option{conn.WithTickTime(time.Second / 2)},
			9500 * time.Millisecond,
			9500*time.Millisecond - trial.Timeout/12,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				start := time.Now()
				s := trial.Live(t, trial.Dial(t, srv, tt.opts...))
				require.Equal(t, trial.Timeout, s.Timeout())
				require.Equal(t, start.Add(tt.left), s.ValidUntil())
				defer s.Retain()()
				syncs := trial.Requests(srv, zktest.OpSync)
				time.Sleep(30*time.Second + 1)
				list := syncs.All()
				require.Equal(t, tt.sync, s.ValidUntil().Sub(list[len(list)-1].At))
			})
		})
	}
}

// The answer that resumes a session may come from a leader that has been replaced: only a write confirms it. If there
// is a hold, one that changes nothing is sent immediately.
func TestLease_Resumed_CountsFromTheConnectOnceAQuorumHasWritten(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		defer s.Retain()()
		stop, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
		require.True(t, ok)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		connects, multis := trial.Requests(srv, zktest.OpConnect), trial.Requests(srv, zktest.OpMulti)
		proven := func() time.Time {
			list := connects.All()
			return list[len(list)-1].At.Add(trial.Timeout - trial.Timeout/20)
		}

		before, txns := s.ValidUntil(), len(srv.History())
		deaf := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Delay(time.Hour))
		trial.Reconnect(srv, c)
		require.Equal(t, before, s.ValidUntil(), "resumed, and no write has been answered")
		time.Sleep(trial.Timeout / 5)
		require.Equal(t, 1, deaf.Hits(), "once for a connection")
		deaf.Remove()
		trial.Reconnect(srv, c)
		require.Equal(t, proven(), s.ValidUntil())
		require.Len(t, srv.History(), txns+1)

		srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Fail(zktest.CodeThrottled))
		trial.Reconnect(srv, c)
		time.Sleep(beat + trial.Timeout/64)
		require.Equal(t, proven(), s.ValidUntil(), "refused once, and sent again")

		stop()
		n := len(multis.All())
		trial.Reconnect(srv, c)
		time.Sleep(trial.Timeout / 5)
		require.Len(t, multis.All(), n, "nobody holds anything")
		stop, ok = s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
		require.True(t, ok)
		synctest.Wait()
		require.Len(t, multis.All(), n+1)
		require.Equal(t, proven(), s.ValidUntil(), "at once, for the old proof may not last until the next sync")
		stop()
	})
}

// A caller that is granted something after a reconnect, without a write of its own, does not wait for old contacts to
// count.
func TestProve_Resumed_TakesOneRoundTrip(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		time.Sleep(time.Minute)
		trial.Reconnect(srv, c)
		require.False(t, time.Now().Before(s.ValidUntil()))
		require.Zero(t, trial.After(func() { require.NoError(t, s.Prove(t.Context())) }))
		require.True(t, time.Now().Before(s.ValidUntil()))
	})
}

func TestLease_IdleSession_IsNotProvenAndIsNotLost(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		until := s.ValidUntil()
		syncs := trial.Requests(srv, zktest.OpSync)
		time.Sleep(time.Hour)
		require.Equal(t, until, s.ValidUntil(), "pings prove nothing")
		require.NoError(t, s.Err())
		require.Empty(t, syncs.All())
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
		require.False(t, ok)
		require.LessOrEqual(t, trial.After(func() { require.NoError(t, s.Prove(t.Context())) }),
			trial.Timeout/4+trial.Timeout/16)
		require.True(t, s.ValidUntil().After(time.Now()))
		release := s.Retain()
		time.Sleep(time.Minute)
		require.InDelta(t, 66, len(syncs.All()), 20, "every T/11")
		release()
		release()
		time.Sleep(time.Second)
		n := len(syncs.All())
		time.Sleep(time.Minute)
		require.LessOrEqual(t, len(syncs.All()), n+1)
	})
}

func TestProve_CannotBeProven_ReturnsWithItsContext(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		time.Sleep(time.Minute)
		srv.Stall(trial.Ours, zktest.Both)
		require.ErrorIs(t, s.Prove(trial.Within(t, time.Second)), trial.ErrTooLong)
		srv.Heal(trial.Ours)
	})
}

// The answer that reports the end of the session may be one that no caller waits for. The hold lasted until its deadline.
func TestHeartbeat_SyncSaysThatTheSessionExpired_HoldsEndAtOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		syncs := srv.Intercept(zktest.Match{Op: zktest.OpSync}, zktest.Fail(zktest.CodeSessionExpired))
		<-syncs.Done()
		synctest.Wait()
		require.Len(t, losses.All(), 1)
		require.Equal(t, zkrecipes.LossExpired, losses.All()[0].What.Lost.Reason)
		require.ErrorIs(t, s.Err(), zkrecipes.ErrLost)
	})
}

// A sync unanswered for T/4 makes the client try another server, long before the library's own 2T/3.
func TestHeartbeat_SyncUnanswered_AnotherServerIsTried(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		byAddress := func(ctx context.Context, network, address string) (net.Conn, error) {
			return srv.DialAs(address)(ctx, network, address)
		}
		c := trial.DialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(byAddress))
		s := trial.Live(t, c)
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		seen := trial.States(t, c)
		syncs := trial.Requests(srv, zktest.OpSync)
		time.Sleep(20 * time.Second)
		for range 5 {
			synctest.Wait()
			server := srv.Sessions()[0].Client
			srv.Stall(zktest.Label(server), zktest.Both)
			list := syncs.All()
			lastAnswered := list[len(list)-1].At
			before := len(seen.All())
			time.Sleep(time.Until(lastAnswered.Add(beat + trial.Timeout/4 + 1)))
			changes := seen.All()[before:]
			require.Len(t, changes, 2)
			require.Equal(t, zkrecipes.Suspended, changes[0].What)
			require.Equal(t, zkrecipes.Connected, changes[1].What)
			require.Equal(t, lastAnswered.Add(beat+trial.Timeout/4), changes[1].At)
			require.NotEqual(t, server, srv.Sessions()[0].Client)
			time.Sleep(20 * time.Second)
			srv.Heal(zktest.Label(server))
			time.Sleep(20 * time.Second)
		}
		require.Empty(t, losses.All())
		require.NoError(t, s.Err())
	})
}

func TestOnLoss_OnSuspend_IsToldAtTheDisconnect(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		defer s.Retain()()
		sensitive, patient := trial.OnLoss(t, s, true), trial.OnLoss(t, s, false)
		stop, ok := s.OnLoss(true, func(*zkrecipes.LostError) func() { t.Error("given up"); return nil })
		require.True(t, ok)
		stop()
		start := time.Now()
		trial.CutOff(srv, trial.Ours)
		synctest.Wait()
		require.Len(t, sensitive.All(), 1)
		require.Equal(t, zkrecipes.LossSuspended, sensitive.All()[0].What.Lost.Reason)
		require.Equal(t, start, sensitive.All()[0].At)
		require.Empty(t, patient.All())
		_, ok = s.OnLoss(true, func(*zkrecipes.LostError) func() { return nil })
		require.False(t, ok)
		stop, ok = s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
		require.True(t, ok, "it is still proven")
		stop()
		srv.Accept(trial.Ours)
		time.Sleep(time.Second)
		require.Equal(t, zkrecipes.Connected, c.Status().State)
		require.Empty(t, patient.All())
		require.Len(t, sensitive.All(), 1, "once")
		require.NoError(t, c.Close())
		require.Equal(t, zkrecipes.LossClosed, patient.All()[0].What.Lost.Reason)
	})
}

// All functions have returned before anything can happen in the next session.
func TestOnLoss_Expired_IsToldBeforeTheNextSession(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		var happened []string
		_, ok := s.OnLoss(false, func(lost *zkrecipes.LostError) func() {
			require.Equal(t, zkrecipes.LossExpired, lost.Reason)
			time.Sleep(time.Second)
			happened = append(happened, "told")
			select {
			case <-s.Done():
				t.Error("done before everybody was told")
			default:
			}
			return nil
		})
		require.True(t, ok)
		srv.Expire(s.ID())
		<-s.Done()
		trial.Live(t, c)
		happened = append(happened, "next")
		require.Equal(t, "told next", strings.Join(happened, " "))
	})
}

func TestSession_TimeoutGranted_IsTheServers(t *testing.T) {
	for asked, granted := range map[time.Duration]time.Duration{
		time.Second: 4 * time.Second, 9 * time.Second: 9 * time.Second, time.Hour: 40 * time.Second,
	} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			start := time.Now()
			s := trial.Live(t, trial.Dial(t, srv, conn.WithSessionTimeout(asked)))
			require.Equal(t, granted, s.Timeout())
			require.Equal(t, start.Add(granted-granted/20), s.ValidUntil())
			require.Equal(t, srv.SessionOf(trial.Label), s.ID())
		})
	}
}

// Sessions start and end for hours, and in every one of them the holder is notified before the server grants anybody
// else.
func TestLease_HoursOfFaults_IsNeverLate(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		start := time.Now()
		losses := map[int64]*trial.Log[trial.Told]{}
		faults := []func(){
			func() { srv.Cut(trial.Ours) },
			func() { srv.Stall(trial.Ours, zktest.Both) },
			func() { srv.Stall(trial.Ours, zktest.ToServer) },
			func() { srv.Stall(trial.Ours, zktest.FromServer) },
			func() { trial.CutOff(srv, trial.Ours) },
			func() { srv.Expire(srv.SessionOf(trial.Label)) },
		}
		for i := 0; time.Since(start) < 4*time.Hour; i++ {
			s := trial.Live(t, c)
			if s.Prove(trial.Within(t, trial.Timeout)) != nil {
				continue
			}
			defer s.Retain()()
			if losses[s.ID()] == nil {
				l := &trial.Log[trial.Told]{}
				if _, ok := s.OnLoss(false, func(lost *zkrecipes.LostError) func() {
					l.Add(trial.Told{Lost: lost, Until: s.ValidUntil()})
					return nil
				}); ok {
					losses[s.ID()] = l
				}
			}
			time.Sleep(time.Duration(i*7919%60_000) * time.Millisecond)
			faults[i%len(faults)]()
			time.Sleep(time.Duration(i*104_729%25_000) * time.Millisecond)
			srv.Heal(trial.Ours)
			srv.Accept(trial.Ours)
		}
		for _, txn := range srv.History() {
			if txn.Op != zktest.OpCloseSession || losses[txn.Session] == nil {
				continue
			}
			entries := losses[txn.Session].All()
			require.Len(t, entries, 1)
			if entries[0].What.Lost.Reason == zkrecipes.LossDeadline {
				require.True(t, entries[0].At.Before(txn.Time))
			}
		}
		require.Greater(t, len(losses), 20)
	})
}

// The proof runs out, and while the first hold is being notified, the server reports that the session has ended.
func TestOnLoss_LapsedJustBeforeTheEnd_AllAreToldBeforeTheNextSession(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		var told atomic.Int32
		for range 3 {
			_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() {
				time.Sleep(time.Second)
				told.Add(1)
				return nil
			})
			require.True(t, ok)
		}
		time.Sleep(time.Until(s.ValidUntil()))
		time.Sleep(100 * time.Millisecond) // the first hold is being notified
		srv.Expire(s.ID())
		<-s.Done()
		require.EqualValues(t, 3, told.Load(), "before done is closed")
	})
}

// A session created with 10 s is resumed on a server that grants no less than 20 s, because its configuration is being
// changed. The next leader applies the 10 s of the transaction that created the session.
func TestLease_ResumedWithALongerTimeout_CountsWithTheShorter(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, trial.Through(srv, trial.ConnectReplies(func(n int32, frame []byte) {
			if n == 2 {
				binary.BigEndian.PutUint32(frame[8:], 20_000)
			}
		})))
		s := trial.Live(t, c)
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		srv.Cut(trial.Ours)
		time.Sleep(time.Minute)
		require.Empty(t, losses.All())
		srv.Refuse(trial.Ours)
		srv.Cut(trial.Ours) // with the next leader the session has 10 s, as zktest counts
		<-s.Done()
		require.Len(t, losses.All(), 1)
		time.Sleep(trial.Timeout)
		late := losses.All()[0].At.Sub(expiry(t, srv, s.ID()))
		require.Negative(t, late, "told %v after the server had ended the session", late)
	})
}

func TestProve_OneServerFault_AsksAgain(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		time.Sleep(time.Minute)
		fault := srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: 1}, zktest.Fail(-1))
		require.NoError(t, s.Prove(trial.Within(t, time.Minute)))
		require.Equal(t, 1, fault.Hits())
	})
}

func TestProve_Resumed_OneServerFault_AsksAgain(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		time.Sleep(time.Minute)
		trial.Reconnect(srv, c)
		fault := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: 1}, zktest.Fail(-1))
		require.NoError(t, s.Prove(trial.Within(t, time.Minute)))
		require.Equal(t, 1, fault.Hits())
	})
}

// A caller that waits has no hold yet. Its syncs continue as soon as there is a connection again.
func TestRetain_AfterAnOutage_SyncsGoOn(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		defer trial.Live(t, c).Retain()()
		time.Sleep(20*time.Second + time.Millisecond)
		syncs := trial.Requests(srv, zktest.OpSync)
		trial.CutOff(srv, trial.Ours)
		time.Sleep(3 * time.Second)
		srv.Accept(trial.Ours)
		for synctest.Wait(); c.Status().State != zkrecipes.Connected; synctest.Wait() {
			time.Sleep(time.Millisecond)
		}
		up := time.Now()
		time.Sleep(beat)
		require.NotEmpty(t, syncs.All())
		require.LessOrEqual(t, syncs.All()[0].At.Sub(up), beat)
	})
}

// A server left a ping unanswered, so that an answer of the leader proves no contact. A proof then takes a lag.
func TestProve_NoOldContact_TakesALag(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		time.Sleep(2 * trial.Timeout)
		srv.Intercept(zktest.Match{Op: zktest.OpPing, Times: 2}, zktest.Ignore())
		time.Sleep(time.Until(s.LastContact().Add(6400 * time.Millisecond)))
		require.Equal(t, trial.Timeout/4, trial.After(func() { require.NoError(t, s.Prove(t.Context())) }))
	})
}

// A session of 20 s is resumed by a server that grants 4 s and does not answer the credentials. The deadline has
// passed.
func TestLease_ResumedWithAShorterTimeout_EndsBeforeTheCredentialsAreAnswered(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithSessionTimeout(20*time.Second), conn.WithAuth("digest", "a:b"),
			trial.Through(srv, grantsLess(4000)))
		s := trial.Live(t, c)
		trial.Held(t, s)
		losses := trial.OnLoss(t, s, false)
		time.Sleep(30*time.Second + time.Millisecond) // between two syncs
		srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Ignore())
		srv.Cut(trial.Ours)
		synctest.Wait()
		require.False(t, s.ValidUntil().After(time.Now()))
		require.Len(t, losses.All(), 1)
	})
}

// A server may answer reads without reporting to the leader that the session is alive, as those of ClickHouse Keeper
// do. A client that reads all the time therefore pings as often as an idle one.
func TestPings_GoOutWhateverIsRead(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		pings := trial.Requests(srv, zktest.OpPing)
		for began := time.Now(); time.Since(began) < 10*trial.Timeout; time.Sleep(trial.Timeout / 100) {
			for _, read := range []func() error{
				func() error { _, _, err := c.Get(t.Context(), "/"); return err },
				func() error { _, _, err := c.Exists(t.Context(), "/"); return err },
				func() error { _, err := c.Children(t.Context(), "/"); return err },
				func() error { _, _, err := c.ACL(t.Context(), "/"); return err },
			} {
				require.NoError(t, read())
			}
		}
		require.InDelta(t, 30, len(pings.All()), 1)
	})
}

// A sync is a sign of life, so a holder that is answered sends no pings. A server that sheds syncs may not have counted
// them: then pings are sent, and the session lives.
func TestPings_OnlyIfNoSyncIsAnswered(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		pings, syncs := trial.Requests(srv, zktest.OpPing), trial.Requests(srv, zktest.OpSync)
		count := func(d time.Duration) (int, int) {
			p, n := len(pings.All()), len(syncs.All())
			time.Sleep(d)
			return len(pings.All()) - p, len(syncs.All()) - n
		}
		p, n := count(10 * trial.Timeout)
		require.InDelta(t, 30, p, 1)
		require.Zero(t, n)
		defer s.Retain()()
		count(trial.Timeout)
		p, n = count(10 * trial.Timeout)
		require.Zero(t, p)
		require.InDelta(t, 110, n, 1)
		shed := srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1}, zktest.Fail(zktest.CodeThrottled))
		p, _ = count(10 * trial.Timeout)
		require.InDelta(t, 30, p, 1)
		require.NotZero(t, shed.Hits())
		require.NoError(t, s.Err())
	})
}
