package zkhttp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkhttp"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	path     = "/app/leader"
	patience = 500 * time.Millisecond
)

func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, append([]zktest.Option{zktest.InMemory()}, opts...)...)) })
}

func join(t *testing.T, srv *zktest.Server, id string) *election.Election {
	t.Helper()
	e, err := election.New(bubble.Dial(t, srv, id), path)
	require.NoError(t, err)
	return e
}

func campaign(t *testing.T, e *election.Election) *election.Term {
	t.Helper()
	term, err := e.Campaign(t.Context())
	require.NoError(t, err)
	return term
}

// answer is the response of a handler.
type answer struct {
	code int
	took time.Duration
	body map[string]any
}

func get(t *testing.T, h http.Handler) answer {
	t.Helper()
	return getWith(t.Context(), t, h)
}

func getWith(ctx context.Context, t *testing.T, h http.Handler) answer {
	t.Helper()
	start, w := time.Now(), httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	a := answer{code: w.Code, took: time.Since(start)}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a.body))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, a.code != http.StatusOK, a.body["error"] != nil, "%v", a.body)
	return a
}

func TestLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := zkhttp.Leader(join(t, srv, "w"))
		none := get(t, h)
		require.Equal(t, http.StatusNotFound, none.code)
		require.NotEmpty(t, none.body["asOf"])
		for _, id := range []string{"a", "b"} {
			term := campaign(t, join(t, srv, id))
			a := get(t, h)
			require.Equal(t, http.StatusOK, a.code)
			require.Equal(t, id, a.body["leader"])
			require.EqualValues(t, term.Token(), a.body["token"])
			require.Equal(t, term.Path(), a.body["path"])
			require.Zero(t, a.took)
			require.NoError(t, term.Release(t.Context()))
		}
		require.Equal(t, http.StatusNotFound, get(t, h).code)
	})
}

// Any client can write any name. The name is passed on unchanged, in a response that is safe to print.
func TestLeader_NameThatTurnsTextAround_IsEscaped(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const name = "a\u202egnp.exe\u2066 <b> שרת"
		campaign(t, join(t, srv, name))
		w := httptest.NewRecorder()
		zkhttp.Leader(join(t, srv, "w")).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Contains(t, w.Body.String(), `a\u202egnp.exe\u2066 `)
		var body struct{ Leader string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		require.Equal(t, name, body.Leader)
	})
}

// Curator and this library request a resignation by writing data over the leader's name. No program should take that
// data for a name.
func TestLeader_AskedToResign_HasNoName(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "a")
		term := campaign(t, e)
		require.NoError(t, e.Revoke(t.Context()))
		a := get(t, zkhttp.Leader(e))
		require.Equal(t, http.StatusOK, a.code)
		require.NotContains(t, a.body, "leader")
		require.EqualValues(t, term.Token(), a.body["token"])
	})
}

// faults are the faults that a client can have between two requests.
var faults = map[string]struct{ begins, ends func(*zktest.Server) }{
	"cut": {
		func(srv *zktest.Server) { srv.Refuse(zktest.Label("w")); srv.Cut(zktest.Label("w")) },
		func(srv *zktest.Server) { srv.Accept(zktest.Label("w")) },
	},
	"expired": {
		func(srv *zktest.Server) { srv.Refuse(zktest.Label("w")); srv.Expire(srv.SessionOf("w")) },
		func(srv *zktest.Server) { srv.Accept(zktest.Label("w")) },
	},
	"frozen": {(*zktest.Server).Freeze, (*zktest.Server).Thaw},
	"silent": {
		func(srv *zktest.Server) { srv.Stall(zktest.Label("w"), zktest.FromServer) },
		func(srv *zktest.Server) { srv.Heal(zktest.Label("w")) },
	},
	"server away": {(*zktest.Server).Down, (*zktest.Server).Up},
	"behind": {
		func(srv *zktest.Server) { srv.Fronts()[0].Lag() },
		func(srv *zktest.Server) { srv.Fronts()[0].CatchUp() },
	},
}

// eachFault runs a script for each fault.
func eachFault(t *testing.T, f func(t *testing.T, srv *zktest.Server, begins, ends func())) {
	t.Helper()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				f(t, srv, func() { fault.begins(srv); synctest.Wait() }, func() { fault.ends(srv); time.Sleep(2 * bubble.Timeout) })
			}, zktest.WithFronts(3))
		})
	}
}

// After each fault, the next request is answered in time, and names no leader.
func TestLeader_EachFault_IsVisibleAtTheNextRequest(t *testing.T) {
	eachFault(t, func(t *testing.T, srv *zktest.Server, begins, ends func()) {
		e, err := election.New(bubble.Dial(t, srv, "a", conn.WithDialer(srv.Fronts()[1].DialAs("a"))), path)
		require.NoError(t, err)
		h := zkhttp.Leader(join(t, srv, "w"))
		never := zkhttp.Leader(join(t, srv, "w"))
		term := campaign(t, e)
		require.Equal(t, http.StatusOK, get(t, h).code)
		time.Sleep(time.Second)
		begins()
		for i := range 3 {
			a := get(t, h)
			require.Equal(t, http.StatusServiceUnavailable, a.code)
			require.Equal(t, patience, a.took)
			require.NotContains(t, a.body, "leader")
			require.NotContains(t, a.body, "token")
			require.InDelta(t, (time.Second + time.Duration(i+1)*patience).Seconds(), a.body["ageSeconds"], 1e-9)
			require.Contains(t, a.body["error"], "no answer within 500ms")
		}
		require.NotContains(t, get(t, never).body, "ageSeconds", "it has had no view yet")
		ends()
		if term.Err() != nil {
			campaign(t, e)
		}
		require.Equal(t, http.StatusOK, get(t, h).code)
	})
}

func TestLeader_ClientClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "w")
		e, err := election.New(c, path)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		a := get(t, zkhttp.Leader(e))
		require.Equal(t, http.StatusServiceUnavailable, a.code)
		require.Zero(t, a.took)
		require.Contains(t, a.body["error"], zkrecipes.ErrClosed.Error())
	})
}

// The first request has its own query. The others arrive after it was sent, and share the next one.
func TestLeader_ManyRequests_ShareQuestions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := zkhttp.Leader(join(t, srv, "w"))
		term := campaign(t, join(t, srv, "a"))
		answered := make(chan struct{})
		syncs := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpSync, Times: -1},
			zktest.DelayUntil(answered))
		var wg sync.WaitGroup
		request := func(want int) {
			wg.Go(func() {
				if got := get(t, h).code; got != want {
					t.Errorf("got %d, want %d", got, want)
				}
			})
			synctest.Wait()
		}
		request(http.StatusNotFound)
		require.NoError(t, term.Release(t.Context()))
		for range 100 {
			request(http.StatusNotFound)
		}
		require.Equal(t, 1, syncs.Hits())
		close(answered)
		wg.Wait()
		require.Equal(t, 2, syncs.Hits())
		require.Equal(t, http.StatusNotFound, get(t, h).code)
	})
}

// Requests that query are canceled one by one. Each returns at once, and the next one sends its own query.
func TestLeader_RequestGoes_OthersGetTheirAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := zkhttp.Leader(join(t, srv, "w"))
		campaign(t, join(t, srv, "a"))
		free := make(chan struct{})
		late := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpSync, Times: 2}, zktest.DelayUntil(free))
		var answers []chan answer
		var cancels []context.CancelFunc
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a := make(chan answer, 1)
			answers, cancels = append(answers, a), append(cancels, cancel)
			go func() { a <- getWith(ctx, t, h) }()
			synctest.Wait()
		}
		for i := range 2 {
			time.Sleep(patience / 4)
			cancels[i]()
			a := <-answers[i]
			require.Equal(t, http.StatusServiceUnavailable, a.code)
			require.Equal(t, time.Duration(i+1)*patience/4, a.took)
		}
		close(free)
		for _, a := range answers[2:] {
			a := <-a
			require.Equal(t, http.StatusOK, a.code)
			require.Equal(t, patience/2, a.took)
		}
		require.Equal(t, 2, late.Hits())
	})
}

// Self responds with 200 until the deadline of the term, and not a nanosecond longer.
func TestSelf_FollowsTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "w")
		h := zkhttp.Self(e)
		require.Equal(t, http.StatusServiceUnavailable, get(t, h).code)
		terms := make(chan *election.Term)
		leave := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			_ = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				terms <- term
				select {
				case <-leave:
				case <-ctx.Done():
				}
				return nil
			})
		}()
		term := <-terms
		time.Sleep(time.Minute + time.Millisecond) // between two heartbeats
		synctest.Wait()
		a := get(t, h)
		require.Equal(t, http.StatusOK, a.code)
		require.EqualValues(t, term.Token(), a.body["token"])
		require.Equal(t, term.Path(), a.body["path"])
		require.InDelta(t, time.Until(term.ValidUntil()).Seconds(), a.body["validForSeconds"], 1e-9)

		srv.Stall(zktest.Label("w"), zktest.Both)
		time.Sleep(time.Until(term.ValidUntil()) - time.Nanosecond)
		require.Equal(t, http.StatusOK, get(t, h).code)
		time.Sleep(time.Nanosecond)
		require.Equal(t, http.StatusServiceUnavailable, get(t, h).code)

		srv.Heal(zktest.Label("w"))
		term = <-terms
		require.Equal(t, http.StatusOK, get(t, h).code)
		srv.Expire(srv.SessionOf("w"))
		<-term.Done() // until the client has noticed
		require.Equal(t, http.StatusServiceUnavailable, get(t, h).code)
		term = <-terms
		require.NoError(t, srv.Delete(term.Path()))
		<-term.Done()
		require.Equal(t, http.StatusServiceUnavailable, get(t, h).code)
		<-terms
		require.Equal(t, http.StatusOK, get(t, h).code)
		leave <- struct{}{}
		synctest.Wait()
		require.Equal(t, http.StatusServiceUnavailable, get(t, h).code, "resigned")
	})
}

func TestHealth_EachFault_IsVisibleAtTheNextRequest(t *testing.T) {
	words := map[string]string{
		"cut":         "no connection for 0s, the session may still be alive: ",
		"expired":     "no connection for 0s, the session may still be alive: ",
		"frozen":      "does not answer for the leader of the ensemble: sync /: no answer within 500ms",
		"silent":      "does not answer for the leader of the ensemble: sync /: no answer within 500ms",
		"server away": "no connection for 0s, the session may still be alive: ",
		"behind":      "does not answer for the leader of the ensemble: sync /: no answer within 500ms",
	}
	eachFault(t, func(t *testing.T, srv *zktest.Server, begins, ends func()) {
		h := zkhttp.Health(bubble.Dial(t, srv, "w"))
		time.Sleep(time.Hour)
		a := get(t, h)
		require.Equal(t, http.StatusOK, a.code)
		require.Equal(t, "connected", a.body["state"])
		require.Equal(t, srv.Addr(), a.body["server"])
		begins()
		for i := range 3 {
			a = get(t, h)
			require.Equal(t, http.StatusServiceUnavailable, a.code)
			require.LessOrEqual(t, a.took, patience)
			if i == 0 {
				require.Contains(t, a.body["error"], words[t.Name()[len("TestHealth_EachFault_IsVisibleAtTheNextRequest/"):]])
			}
		}
		ends()
		require.Equal(t, http.StatusOK, get(t, h).code, "%v", get(t, h).body)
	})
}

// The response has the server's refusal.
func TestHealth_SaysWhyItIsNotConnected(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "w")
		h := zkhttp.Health(c)
		srv.Refuse(zktest.Label("w"))
		srv.Cut(zktest.Label("w"))
		time.Sleep(time.Second)
		a := get(t, h)
		require.Equal(t, "suspended", a.body["state"])
		require.InDelta(t, 1, a.body["sinceSeconds"], 1e-9)
		require.Contains(t, a.body["error"], "no connection for 1s, the session may still be alive: ")
		require.Contains(t, a.body["error"], srv.Addr())
		time.Sleep(2 * bubble.Timeout)
		a = get(t, h)
		require.Equal(t, "lost", a.body["state"])
		require.Contains(t, a.body["error"], srv.Addr())
		require.NoError(t, c.Close())
		a = get(t, h)
		require.Equal(t, http.StatusServiceUnavailable, a.code)
		require.Equal(t, "the client is closed", a.body["error"])
	})
}

// A request leaves the session proven, even if it was just resumed and no write has confirmed that, with or without a
// hold.
func TestHealth_Proves(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "w")
		h := zkhttp.Health(c)
		proves := func() {
			srv.Cut(zktest.Label("w"))
			time.Sleep(bubble.Timeout)
			require.Equal(t, http.StatusOK, get(t, h).code)
			require.Greater(t, time.Until(c.Status().ValidUntil), bubble.Timeout/4)
		}
		proves()
		proves()
		m, err := mutex.New(c, "/app/lock")
		require.NoError(t, err)
		_, err = m.Lock(t.Context())
		require.NoError(t, err)
		proves()
	})
}

// TestMethods uses a real connection, which removes the body of the response to HEAD.
func TestMethods(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "w")
		for name, h := range map[string]http.Handler{
			"leader": zkhttp.Leader(e), "self": zkhttp.Self(e),
			"health": zkhttp.Health(bubble.Dial(t, srv, "h")),
		} {
			s := httptest.NewServer(h)
			defer s.Close()
			codes := map[string]int{}
			for _, method := range []string{
				http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete,
				http.MethodOptions,
			} {
				q, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
				require.NoError(t, err)
				r, err := s.Client().Do(q)
				require.NoError(t, err)
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.NoError(t, r.Body.Close())
				require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
				require.Equal(t, method == http.MethodHead, len(body) == 0)
				codes[method] = r.StatusCode
				if r.StatusCode == http.StatusMethodNotAllowed {
					require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
				}
			}
			require.Equal(t, codes[http.MethodGet], codes[http.MethodHead], name)
			for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodOptions} {
				require.Equal(t, http.StatusMethodNotAllowed, codes[method], name)
			}
		}
	})
}

// The process leads through the object that campaigned, whichever method it was elected by.
func TestSelf_LeadsThroughCampaign(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "a")
		own, process := zkhttp.Self(e), zkhttp.Self(join(t, srv, "b"))
		for range 2 {
			term := campaign(t, e)
			a := get(t, own)
			require.Equal(t, http.StatusOK, a.code)
			require.EqualValues(t, term.Token(), a.body["token"])
			require.Equal(t, http.StatusServiceUnavailable, get(t, process).code)
			require.NoError(t, term.Release(t.Context()))
			require.Equal(t, http.StatusServiceUnavailable, get(t, own).code)
		}
	})
}

// A missing argument panics where the handler is created, not at the first probe.
func TestHandlers_Nil_PanicAtOnce(t *testing.T) {
	const election, client = "the election is nil: create one with election.New",
		"the client is nil: create one with conn.Dial"
	require.PanicsWithValue(t, "zkhttp.Leader: "+election, func() { zkhttp.Leader(nil) })
	require.PanicsWithValue(t, "zkhttp.Self: "+election, func() { zkhttp.Self(nil) })
	require.PanicsWithValue(t, "zkhttp.Health: "+client, func() { zkhttp.Health(nil) })
}
