package election_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// parliament is an election with the leader "a" and candidates, each with its own client, in order of arrival.
type parliament struct {
	*testing.T
	srv       *zktest.Server
	leader    *election.Election
	term      *election.Term
	elections map[string]*election.Election
	campaigns map[string]<-chan *election.Term
}

// convene starts the candidates. Those in deaf do not stand back.
func convene(t *testing.T, test func(p *parliament), deaf ...string) {
	t.Helper()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		p := &parliament{t, srv, nil, nil, map[string]*election.Election{}, map[string]<-chan *election.Term{}}
		for _, id := range []string{"a", "b", "c", "d"} {
			opts := []election.Option{election.WithData([]byte(id))}
			if !slices.Contains(deaf, id) {
				opts = append(opts, election.WithStandBack())
			}
			p.elections[id] = join(t, srv, id, opts...)
			p.campaigns[id] = campaign(t, p.elections[id])
		}
		p.leader, p.term = p.elections["a"], elected(t, p.campaigns["a"])
		require.Equal(t, "abcd", p.queue())
		test(p)
		synctest.Wait() // a request may be withdrawn in the background
		require.False(t, srv.Exists(path+"-next"))
		queue, err := p.leader.Queue(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, len(queue), len(p.elections), "nobody stands twice")
	})
}

// queue returns the names of those in the queue, in order.
func (p *parliament) queue() (names string) {
	p.Helper()
	queue, err := p.elections["d"].Queue(p.Context())
	require.NoError(p, err)
	for _, c := range queue {
		names += c.Name
	}
	return names
}

func (p *parliament) find(name string) zkrecipes.Participant {
	p.Helper()
	queue, err := p.leader.Queue(p.Context())
	require.NoError(p, err)
	i := slices.IndexFunc(queue, func(c zkrecipes.Participant) bool { return c.Name == name })
	require.GreaterOrEqual(p, i, 0, name)
	return queue[i]
}

// appoint appoints a candidate, within a second.
func (p *parliament) appoint(name string) error {
	p.Helper()
	return p.appointIt(p.find(name))
}

func (p *parliament) appointIt(to zkrecipes.Participant) error {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), time.Second)
	defer cancel()
	return p.leader.Appoint(ctx, p.term, to)
}

// waits requires that no one but the leader leads.
func (p *parliament) waits(names ...string) {
	p.Helper()
	for _, name := range names {
		requireNoLeader(p.T, p.campaigns[name])
	}
}

func TestAppoint_CandidateLeadsNext(t *testing.T) {
	convene(t, func(p *parliament) {
		require.NoError(p, p.appoint("d"))
		require.NoError(p, p.term.Err(), "the term goes on")
		synctest.Wait()
		require.Contains(p, []string{"adbc", "adcb"}, p.queue())
		p.waits("b", "c", "d")
		require.NoError(p, p.term.Release(p.Context()))
		d := elected(p.T, p.campaigns["d"])
		require.Greater(p, d.Token(), p.term.Token())
		p.waits("b", "c")

		// A candidate that stood back is appointed by the next leader. When it leads, no one is ahead of it any more.
		other := map[string]string{"b": "c", "c": "b"}[p.queue()[1:2]]
		p.leader, p.term = p.elections["d"], d
		require.NoError(p, p.appoint(other))
		require.NoError(p, d.Release(p.Context()))
		require.NoError(p, elected(p.T, p.campaigns[other]).Release(p.Context()))
		elected(p.T, p.campaigns[map[string]string{"b": "c", "c": "b"}[other]])
	})
}

// If the candidate is already next, no request is written.
func TestAppoint_IsNextAlready(t *testing.T) {
	convene(t, func(p *parliament) {
		to := p.find("b")
		sent := p.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Times: -1}, zktest.Proceed())
		require.NoError(p, p.leader.Appoint(p.Context(), p.term, to))
		require.Zero(p, sent.Hits())
		require.Equal(p, "abcd", p.queue())
	})
}

// The candidate is gone before it is appointed, or leaves while others that do not stand back are ahead of it. The term
// continues, and no one has lost a place.
func TestAppoint_CandidateGone(t *testing.T) {
	convene(t, func(p *parliament) {
		to := p.find("d")
		p.srv.Expire(p.srv.SessionOf("d"))
		require.ErrorIs(p, p.leader.Appoint(p.Context(), p.term, to), election.ErrNotStanding)
		time.Sleep(time.Second)
		require.Equal(p, "abcd", p.queue(), "d stands again")
	})
	convene(t, func(p *parliament) {
		to := p.find("d")
		time.AfterFunc(time.Minute, func() { p.srv.Expire(p.srv.SessionOf("d")) })
		require.ErrorIs(p, p.leader.Appoint(p.Context(), p.term, to), election.ErrNotStanding)
		require.NoError(p, p.term.Err())
		time.Sleep(time.Second)
		require.Equal(p, "abcd", p.queue(), "d stands again")
	}, "b", "c")
}

// Some candidates, such as those of Curator and kazoo, do not stand back. The error names the candidate ahead, the term
// continues, and candidates with the option have stood back.
func TestAppoint_SomeDoNotStandBack(t *testing.T) {
	convene(t, func(p *parliament) {
		err := p.appoint("d")
		require.ErrorIs(p, err, context.DeadlineExceeded)
		require.ErrorContains(p, err, "(b) is still ahead")
		require.NoError(p, p.term.Err())
		require.Equal(p, "abdc", p.queue())
		// The appointment has been withdrawn, so d leads after b.
		require.NoError(p, p.term.Release(p.Context()))
		require.NoError(p, elected(p.T, p.campaigns["b"]).Release(p.Context()))
		elected(p.T, p.campaigns["d"])
	}, "b")
	convene(t, func(p *parliament) { // the candidate ahead leaves in time, by itself
		time.AfterFunc(500*time.Millisecond, func() { p.srv.Expire(p.srv.SessionOf("b")) })
		require.NoError(p, p.appoint("d"))
		require.Equal(p, "ad", p.queue()[:2])
	}, "b")
}

// A candidate of Curator or kazoo keeps its place, like one without the option, and can itself be appointed.
func TestAppoint_OfOtherLibraries(t *testing.T) {
	for name, node := range map[string]string{
		"Curator": path + "/_c_7fe3a5a0-5b2e-4660-b045-f51d106afef3-latch-",
		"kazoo":   path + "/7fe3a5a05b2e4660b045f51d106afef3__lock__",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				stand := func(name string) (*election.Election, <-chan *election.Term) {
					e := join(t, srv, name, election.WithData([]byte(name)), election.WithStandBack(), election.WithKazoo())
					return e, campaign(t, e)
				}
				a, leads := stand("a")
				term := elected(t, leads)
				_, ahead := stand("b")
				foreign := bubble.Dial(t, srv, "foreign")
				made, err := foreign.Create(t.Context(), node, []byte("other"), zk.FlagEphemeralSequential)
				require.NoError(t, err)
				_, behind := stand("d")
				queue, err := a.Queue(t.Context())
				require.NoError(t, err)
				require.Len(t, queue, 4)
				require.NoError(t, a.Appoint(t.Context(), term, queue[2]), "b stands back for it")
				after, err := a.Queue(t.Context())
				require.NoError(t, err)
				require.Equal(t, made, after[1].Path)

				soon, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = a.Appoint(soon, term, queue[3])
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "(other) is still ahead")
				require.NoError(t, term.Release(t.Context()))
				requireNoLeader(t, ahead)
				requireNoLeader(t, behind)
				require.NoError(t, foreign.Delete(t.Context(), made, -1))
				require.NoError(t, elected(t, behind).Release(t.Context()))
				elected(t, ahead)
			})
		})
	}
}

// If the event is lost, a candidate reads again after a while, and stands back then.
func TestAppoint_EventLost(t *testing.T) {
	convene(t, func(p *parliament) {
		require.Equal(p, 1, p.srv.LoseWatch(zktest.Label("b"), path+"-next"))
		began := time.Now()
		require.NoError(p, p.leader.Appoint(p.Context(), p.term, p.find("d")))
		require.InDelta(p, 2.5, float64(time.Since(began))/float64(bubble.Timeout), 0.6, "in session timeouts")
		require.Equal(p, "ad", p.queue()[:2])
	})
}

// The appointment is deleted by hand before a candidate has read it, and the leader writes it again. It used to wait
// until its context was done.
func TestAppoint_DeletedByHand(t *testing.T) {
	convene(t, func(p *parliament) {
		to := p.find("d")
		require.Equal(p, 1, p.srv.LoseWatch(zktest.Label("b"), path+"-next"))
		ctx, cancel := context.WithTimeout(p.Context(), 10*bubble.Timeout)
		defer cancel()
		appointed := make(chan error, 1)
		go func() { appointed <- p.leader.Appoint(ctx, p.term, to) }()
		synctest.Wait()
		require.NoError(p, p.srv.Delete(path+"-next"))
		require.NoError(p, <-appointed)
		require.Equal(p, "ad", p.queue()[:2])
	})
}

// A leader that has lost its term withdraws its appointment after the next leader has appointed the same candidate. It
// used to withdraw that appointment too.
func TestAppoint_SameCandidateByTheNextLeader(t *testing.T) {
	convene(t, func(p *parliament) {
		to := p.find("d")
		failed := make(chan error, 2)
		go func() { failed <- p.leader.Appoint(p.Context(), p.term, to) }()
		synctest.Wait()
		read := make(chan struct{})
		p.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Path: "-next$"}, zktest.DelayUntil(read))
		p.srv.Expire(p.srv.SessionOf("a"))
		term := elected(p.T, p.campaigns["b"])
		ctx, cancel := context.WithCancel(p.Context())
		go func() { failed <- p.elections["b"].Appoint(ctx, term, to) }()
		synctest.Wait()
		close(read)
		require.ErrorIs(p, <-failed, zkrecipes.ErrLost)
		node, _ := p.srv.Node(path + "-next")
		require.Equal(p, p.srv.SessionOf("b"), node.Stat.EphemeralOwner)
		cancel()
		require.ErrorIs(p, <-failed, context.Canceled)
	}, "b", "c")
}

// The leader changes its mind while it waits for candidates that do not stand back. Its two calls must not replace
// each other's appointments forever.
func TestAppoint_AnotherWhileOneWaits(t *testing.T) {
	convene(t, func(p *parliament) {
		written := p.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "-next$", Times: -1},
			zktest.Proceed())
		ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
		defer cancel()
		failed := make(chan error, 2)
		for _, name := range []string{"c", "d"} {
			to := p.find(name)
			go func() { failed <- p.elections["a"].Appoint(ctx, p.term, to) }()
			synctest.Wait()
		}
		require.ErrorIs(p, <-failed, context.DeadlineExceeded)
		require.ErrorIs(p, <-failed, context.DeadlineExceeded)
		require.LessOrEqual(p, written.Hits(), 3)
	}, "b", "c")
}

// A candidate that could not read whether it is asked tries again. It used to keep its place for the rest of its
// campaign.
func TestStandBack_ReadFails(t *testing.T) {
	convene(t, func(p *parliament) {
		failed := p.srv.Intercept(zktest.Match{From: zktest.Label("b"), Path: "-next$", Times: 2},
			zktest.Fail(zktest.CodeRuntimeInconsistency))
		p.srv.Cut(zktest.Label("b")) // which makes it read again
		time.Sleep(10 * time.Second)
		require.Equal(p, 2, failed.Hits())
		require.NoError(p, p.appoint("d"))
		require.Equal(p, "ad", p.queue()[:2])
	})
}

// The candidate that is cut off is next when the leader leaves. No one leads until the servers have expired its
// session, and then the candidate behind it does.
func TestAppoint_CandidateIsCutOff(t *testing.T) {
	convene(t, func(p *parliament) {
		require.NoError(p, p.appoint("d"))
		p.srv.Stall(zktest.Label("d"), zktest.Both)
		require.NoError(p, p.term.Release(p.Context()))
		next := p.queue0()
		time.Sleep(bubble.Timeout / 2)
		p.waits("b", "c")
		term := elected(p.T, p.campaigns[next])
		require.Empty(p, p.campaigns["d"])
		p.srv.Heal(zktest.Label("d"))
		require.NoError(p, term.Release(p.Context()))
	})
}

// queue0 returns the names of those behind the first.
func (p *parliament) queue0() string {
	p.Helper()
	queue, err := p.leader.Queue(p.Context())
	require.NoError(p, err)
	return queue[1].Name
}

// The leader dies at each of the requests that it sends, or that a candidate sends in order to stand back. There is one
// leader, and all candidates are in the queue.
func TestAppoint_LeaderDiesAfterAsking(t *testing.T) {
	for _, who := range []string{"a", "b", "c"} {
		for step := range 8 {
			convene(t, func(p *parliament) {
				to := p.find("d")
				p.srv.Intercept(zktest.Match{
					From: zktest.Label(who), Skip: step,
					Where: func(r zktest.Request) bool { return r.Op != zktest.OpSync },
				},
					zktest.After(func(zktest.Request) { p.srv.Expire(p.srv.SessionOf("a")) }))
				ctx, cancel := context.WithTimeout(p.Context(), time.Second)
				defer cancel()
				_ = p.leader.Appoint(ctx, p.term, to)
				p.srv.Expire(p.srv.SessionOf("a"))
				time.Sleep(time.Second)
				require.ErrorIs(p, p.term.Err(), zkrecipes.ErrLost)
				leads := 0
				for _, name := range []string{"b", "c", "d"} {
					leads += len(p.campaigns[name])
				}
				require.Equal(p, 1, leads)
				require.Len(p, p.queue(), 3)
			})
		}
	}
}

// The request or its reply is lost, for each request of the leader and of the candidates that stand back.
func TestAppoint_RequestOrReplyLost(t *testing.T) {
	for _, who := range []string{"a", "b"} {
		for step := range 10 {
			for _, fault := range []zktest.Action{zktest.DropRequest(), zktest.DropReply()} {
				convene(t, func(p *parliament) {
					to := p.find("d")
					p.srv.Intercept(zktest.Match{
						From: zktest.Label(who), Skip: step,
						Where: func(r zktest.Request) bool { return r.Op != zktest.OpSync },
					}, fault)
					require.NoError(p, p.leader.Appoint(p.Context(), p.term, to), "%s %d", who, step)
					require.NoError(p, p.term.Release(p.Context()))
					elected(p.T, p.campaigns["d"])
					time.Sleep(time.Minute)
					p.waits("b", "c")
				})
			}
		}
	}
}

// The leader changes its mind. The candidate that was appointed first stands back itself, and its appointment fails.
func TestAppoint_Another(t *testing.T) {
	convene(t, func(p *parliament) {
		first, second := p.find("c"), p.find("d")
		failed := make(chan error)
		go func() { failed <- p.leader.Appoint(p.Context(), p.term, first) }()
		synctest.Wait()
		require.NoError(p, p.leader.Appoint(p.Context(), p.term, second), "b stays ahead, until it is asked to leave")
		err := <-failed
		if err != nil {
			require.ErrorIs(p, err, election.ErrNotStanding)
		}
		require.Equal(p, "ad", p.queue()[:2])
	})
}

// An appointment of an earlier leader is replaced; a node of another kind is not.
func TestAppoint_NodeOfAnother(t *testing.T) {
	convene(t, func(p *parliament) {
		c := bubble.Dial(p.T, p.srv, "earlier")
		_, err := c.Create(p.Context(), path+"-next", []byte("nobody 0x1"), zk.FlagEphemeral)
		require.NoError(p, err)
		require.NoError(p, p.appoint("d"))
		require.Equal(p, "ad", p.queue()[:2])
	})
	convene(t, func(p *parliament) {
		_, err := p.srv.Create(path+"-next", []byte("of a user"), zktest.Persistent)
		require.NoError(p, err)
		require.ErrorIs(p, p.appoint("d"), zk.ErrNodeExists)
		require.Equal(p, "abcd", p.queue())
		require.NoError(p, p.srv.Delete(path+"-next"))
	})
}

// The appointment of an earlier leader is replaced even if it is written only when this leader has found none.
func TestAppoint_NodeOfAnotherMeanwhile(t *testing.T) {
	convene(t, func(p *parliament) {
		c, written := bubble.Dial(p.T, p.srv, "earlier"), make(chan struct{})
		p.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, zktest.DelayUntil(written))
		failed := make(chan error)
		go func() { failed <- p.appoint("d") }()
		synctest.Wait()
		_, err := c.Create(p.Context(), path+"-next", []byte("nobody 0x1"), zk.FlagEphemeral)
		require.NoError(p, err)
		close(written)
		require.NoError(p, <-failed)
		require.Equal(p, "ad", p.queue()[:2])
	})
}

// An appointment moves no one if its node does not exist, is of another kind, or is behind.
func TestStandBack_Forged(t *testing.T) {
	convene(t, func(p *parliament) {
		first, second := p.find("b"), p.find("c")
		name := func(c zkrecipes.Participant) string { return strings.TrimPrefix(c.Path, path+"/") }
		for _, text := range []string{
			"", "nobody", "nobody 0x1", name(second), name(second) + " 0x1",
			fmt.Sprintf("%s 0x%x", name(first), int64(first.Token)),
		} {
			_, err := p.srv.Create(path+"-next", []byte(text), zktest.Persistent)
			require.NoError(p, err)
			synctest.Wait()
			require.Equal(p, "abcd", p.queue(), text)
			require.NoError(p, p.srv.Delete(path+"-next"))
		}
	})
}

func TestAppoint_BadInput(t *testing.T) {
	convene(t, func(p *parliament) {
		other, err := election.New(bubble.Dial(p.T, p.srv, "o"), "/app/other")
		require.NoError(p, err)
		for _, bad := range []struct {
			term *election.Term
			to   zkrecipes.Participant
			want string
		}{
			{nil, zkrecipes.Participant{}, "the term is nil"},
			{&election.Term{}, zkrecipes.Participant{}, "the term is nil"},
			{p.term, zkrecipes.Participant{}, "want two contenders of this election"},
			{p.term, zkrecipes.Participant{Path: p.term.Path()}, "want two contenders of this election"},
			{p.term, zkrecipes.Participant{Path: path + "/any"}, "want two contenders of this election"},
		} {
			require.ErrorContains(p, p.leader.Appoint(p.Context(), bad.term, bad.to), bad.want)
		}
		require.ErrorContains(p, other.Appoint(p.Context(), p.term, zkrecipes.Participant{Path: p.term.Path()}),
			"want two contenders of this election")
		require.NoError(p, p.term.Release(p.Context()))
		require.ErrorIs(p, p.leader.Appoint(p.Context(), p.term, p.find("d")), zkrecipes.ErrReleased)
		elected(p.T, p.campaigns["b"])
	})
}

// No candidate stands back for a node that is not the one appointed, so Appoint waited until its context was done.
func TestAppoint_TokenOfAnother(t *testing.T) {
	convene(t, func(p *parliament) {
		for _, token := range []zkrecipes.Token{0, p.term.Token()} {
			to := p.find("d")
			to.Token = token
			require.ErrorIs(p, p.appointIt(to), election.ErrNotStanding)
			require.Equal(p, "abcd", p.queue())
		}
	})
}

// Leaders appoint candidates at random while connections are cut, replies are lost, and clients are cut off for longer
// than their sessions last. Two terms are never alive at once, and in the end every candidate is in the queue once.
func TestStandBack_Random(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() || bubble.Race {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				random := rand.New(rand.NewPCG(seed, 5))
				srv.SetLatency(5 * time.Millisecond)
				var mu sync.Mutex
				var terms []*election.Term
				appointed, led := 0, 0
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				names := []string{"a", "b", "c", "d", "e"}
				for i, name := range names {
					opts := []election.Option{election.WithData([]byte(name))}
					if i > 0 { // one candidate does not stand back
						opts = append(opts, election.WithStandBack())
					}
					e := join(t, srv, name, opts...)
					choice := rand.New(rand.NewPCG(seed, uint64(i)))
					running.Go(func() {
						err := e.Run(ctx, func(ctx context.Context, term *election.Term) error {
							mu.Lock()
							for _, other := range terms {
								assert.Error(t, other.Err(), "%v and %v", other, term)
							}
							terms = append(terms, term)
							led++
							mu.Unlock()
							time.Sleep(time.Duration(choice.IntN(3000)) * time.Millisecond)
							queue, err := e.Queue(ctx)
							if err != nil || len(queue) < 2 {
								return nil
							}
							soon, cancel := context.WithTimeout(ctx, time.Second)
							defer cancel()
							if e.Appoint(soon, term, queue[1+choice.IntN(len(queue)-1)]) == nil {
								mu.Lock()
								appointed++
								mu.Unlock()
							}
							return nil
						})
						assert.ErrorIs(t, err, context.Canceled)
					})
				}
				for range 100 {
					who := names[random.IntN(len(names))]
					switch random.IntN(8) {
					case 0, 1:
						srv.Cut(zktest.Label(who))
					case 2:
						srv.Intercept(zktest.Match{From: zktest.Label(who), Skip: random.IntN(5)}, zktest.DropReply())
					case 3:
						srv.Intercept(zktest.Match{From: zktest.Label(who), Skip: random.IntN(5)}, zktest.DropRequest())
					case 4:
						srv.Stall(zktest.Label(who), zktest.Both)
						time.AfterFunc(time.Duration(random.IntN(15000))*time.Millisecond, func() { srv.Heal(zktest.Label(who)) })
					}
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				}
				time.Sleep(time.Minute)
				observer, found := join(t, srv, "observer"), 0
				for range 100 { // some may have just stood back, and be about to stand again
					queue, err := observer.Queue(t.Context())
					require.NoError(t, err)
					require.LessOrEqual(t, len(queue), len(names))
					if found = len(queue); found == len(names) {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				require.Equal(t, len(names), found)
				stop()
				running.Wait()
				t.Logf("%d terms, %d appointed", led, appointed)
				require.Greater(t, appointed, led/4)
				time.Sleep(time.Minute) // a deletion may still be repeated
				bubble.Clean(t, srv, path)
			})
		})
	}
}

// A campaign remains one acquisition, however often its candidate stands back. Tracers used to see one that was
// canceled each time.
func TestStandBack_IsOneAcquisition(t *testing.T) {
	convene(t, func(p *parliament) {
		var mu sync.Mutex
		var told []string
		add := func(what ...string) []string {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what...)
			return told
		}
		c := bubble.Dial(p.T, p.srv, "e", conn.WithTracer(&zkrecipes.Tracer{
			AcquireStart: func(ctx context.Context, _ zkrecipes.AcquireStart) context.Context {
				add("start")
				return ctx
			},
			AcquireEnd: func(_ context.Context, a zkrecipes.AcquireEnd) { add(a.Outcome()) },
		}))
		e, err := election.New(c, path, election.WithData([]byte("e")), election.WithStandBack())
		require.NoError(p, err)
		leads := campaign(p.T, e)
		for _, name := range []string{"f", "g"} {
			campaign(p.T, join(p.T, p.srv, name, election.WithData([]byte(name)), election.WithStandBack()))
			require.NoError(p, p.appoint(name))
			require.Equal(p, "a"+name, p.queue()[:2])
		}
		require.Equal(p, []string{"start"}, add())
		p.srv.Expire(p.srv.SessionOf("a"))
		for _, name := range []string{"b", "c", "d", "f", "g"} {
			p.srv.Refuse(zktest.Label(name))
			p.srv.Expire(p.srv.SessionOf(name))
		}
		elected(p.T, leads)
		require.Equal(p, []string{"start", "granted"}, add())
	})
}

// A candidate whose node was deleted by hand reads an appointment before it has found its new node, since the reply to
// the create was lost. It stands back with the new one.
func TestStandBack_AppointedBeforeTheNodeIsFound(t *testing.T) {
	convene(t, func(p *parliament) {
		p.srv.SetLatency(5 * time.Millisecond)
		p.srv.Refuse(zktest.Label("b"))
		p.srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpCreate}, zktest.DropReply())
		require.NoError(p, p.srv.Delete(p.find("b").Path))
		time.Sleep(time.Second)
		require.Equal(p, "acdb", p.queue())
		p.elections["e"] = join(p.T, p.srv, "e", election.WithData([]byte("e")))
		p.campaigns["e"] = campaign(p.T, p.elections["e"])
		time.AfterFunc(500*time.Millisecond, func() { p.srv.Accept(zktest.Label("b")) })
		ctx, cancel := context.WithTimeout(p.Context(), bubble.Timeout/2)
		defer cancel()
		require.NoError(p, p.leader.Appoint(ctx, p.term, p.find("e")))
		require.Equal(p, "ae", p.queue()[:2])
	})
}

// A term belongs to the client that has campaigned: another client could not withdraw what is written under it.
func TestAppoint_ByAnotherClient(t *testing.T) {
	convene(t, func(p *parliament) {
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		err := p.elections["d"].Appoint(ctx, p.term, p.find("d"))
		require.ErrorContains(p, err, "want the same client and root for both")
		require.Equal(p, "abcd", p.queue())
	}, "b", "c")
}
