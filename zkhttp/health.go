package zkhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
)

type healthBody struct {
	State     string  `json:"state"`
	Since     float64 `json:"sinceSeconds"` // how long it has been in that state
	Server    string  `json:"server,omitempty"`
	RoundTrip float64 `json:"roundTripSeconds,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// Health reports whether the client is healthy: 200 if it is connected, the leader of the ensemble answers within half
// a second, and the session is proven alive. Otherwise it responds with 503 and describes the problem. Without a
// connection, it responds immediately.
//
// Use it for readiness and for alerts, but not as a liveness probe. While ZooKeeper is down, a liveness probe would
// restart the process, which doesn't help.
//
// Health panics if the client is nil.
func Health(c *conn.Client) http.Handler {
	need(c != nil, "Health", "the client is nil: create one with conn.Dial")
	q := newQuestion(func(ctx context.Context) (struct{}, error) { return struct{}{}, prove(ctx, c) })
	return view(func(r *http.Request) (int, any) {
		wrong := trouble(c.Status())
		if wrong == nil {
			wrong = q.ask(r.Context()).err
		}
		now := c.Status()
		if lost := trouble(now); lost != nil {
			wrong = lost // which explains more than that there was no answer
		}
		body := healthBody{State: now.State.String(), Since: time.Since(now.Since).Seconds(), Server: now.Server}
		if wrong != nil {
			body.Error = wrong.Error()
			return http.StatusServiceUnavailable, body
		}
		body.RoundTrip = now.RoundTrip.Seconds()
		return http.StatusOK, body
	})
}

// trouble describes the problem if the client is not connected.
func trouble(now conn.Status) error {
	ago := time.Since(now.Since).Round(time.Millisecond)
	switch now.State {
	case zkrecipes.Connected:
		return nil
	case zkrecipes.Closed:
		return errors.New("the client is closed")
	case zkrecipes.Suspended:
		return because(fmt.Sprintf("no connection for %v, the session may still be alive", ago), now.LastError)
	case zkrecipes.Connecting, zkrecipes.Lost:
	}
	return because(fmt.Sprintf("no session for %v", ago), now.LastError)
}

func because(what string, why error) error {
	if why == nil {
		return errors.New(what)
	}
	return fmt.Errorf("%s: %w", what, why)
}

// prove queries the leader of the ensemble through the client's server. The sync is newer than any proof that the
// session already has. It takes one more request if the session was resumed and has had no hold since.
func prove(ctx context.Context, c *conn.Client) error {
	s, err := (*client.Client)(c).Session(ctx)
	if err != nil {
		return err
	}
	if err := s.Sync(ctx, "/"); err != nil {
		return fmt.Errorf("%s does not answer for the leader of the ensemble: %w", c.Status().Server, err)
	}
	if err := s.Prove(ctx); err != nil {
		return fmt.Errorf("the session is not proven alive: %w", err)
	}
	return nil
}
