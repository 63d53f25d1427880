package lifetime_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/sasl"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// attempts are the attempts to connect that a tracer is notified of.
type attempts struct{ trial.Log[zkrecipes.Connect] }

func (a *attempts) option() conn.Option { return conn.WithTracer(&zkrecipes.Tracer{Connect: a.Add}) }

// outcomes returns the outcomes so far.
func (a *attempts) outcomes() (outcomes []string) {
	for _, c := range a.Values() {
		outcomes = append(outcomes, c.Outcome)
	}
	return outcomes
}

// TestConnect_Outcomes: a tracer is notified of each attempt, with its server, how long it took, and how it ended.
func TestConnect_Outcomes(t *testing.T) {
	const limit = 2 * time.Second
	for name, tt := range map[string]struct {
		outcome string
		dial    func(srv *zktest.Server) (net.Conn, error)
		fault   func(srv *zktest.Server)
		took    time.Duration
	}{
		"no server listens": {
			"unreachable", func(*zktest.Server) (net.Conn, error) { return nil, syscall.ECONNREFUSED }, nil,
			0,
		},
		"packets are lost": {"timeout", nil, func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.Both) }, limit},
		"no answer":        {"timeout", func(*zktest.Server) (net.Conn, error) { return trial.Silent(), nil }, nil, limit},
		"hangs up":         {"failed", func(*zktest.Server) (net.Conn, error) { return hungUp(), nil }, nil, 0},
		"no ZooKeeper": {
			"failed",
			func(*zktest.Server) (net.Conn, error) { return trial.Silent([]byte("HTTP/1.1 400")...), nil }, nil, 0,
		},
		"credential refused": {"refused", nil, func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpAuth}, zktest.Fail(zktest.CodeAuthFailed))
		}, 0},
	} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			board := trial.NewSwitchboard(func(ctx context.Context, network, address string) (net.Conn, error) {
				if tt.dial != nil {
					return tt.dial(srv)
				}
				return srv.DialAs(trial.Label)(ctx, network, address)
			})
			if tt.fault != nil {
				tt.fault(srv)
			}
			var told attempts
			c, err := conn.New("10.0.0.1", conn.WithDialer(board.Dial), conn.WithConnectTimeout(limit),
				conn.WithAuth("digest", "u:p"), told.option())
			require.NoError(t, err)
			begin := time.Now()
			time.Sleep(tt.took)
			synctest.Wait()
			first := told.Values()[0]
			require.Equal(t, tt.outcome, first.Outcome, name)
			require.Equal(t, "10.0.0.1:2181", first.Server, name)
			require.Equal(t, begin, first.Began, name)
			require.Equal(t, tt.took, first.Took, name)
			require.Error(t, first.Err, name)

			srv.Heal(trial.Ours)
			board.Connect(srv.DialAs(trial.Label))
			time.Sleep(time.Minute)
			outcomes := told.outcomes()
			require.Equal(t, "connected", outcomes[len(outcomes)-1], name)
			require.NoError(t, c.Close())
			require.Equal(t, outcomes, told.outcomes(), name)
		})
	}
}

// starting is a SASL mechanism whose exchange takes some time to begin, and then does not.
type starting struct {
	takes time.Duration
	err   error
}

func (starting) String() string { return "TEST" }

func (m starting) Start(ctx context.Context, _ string) (sasl.Exchange, []byte, error) {
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
	}
	return nil, nil, m.err
}

// TestConnect_SASL: the time that a mechanism takes before the server is dialed is part of the attempt.
func TestConnect_SASL(t *testing.T) {
	const limit = 2 * time.Second
	for name, tt := range map[string]struct {
		sasl    starting
		dial    conn.DialFunc
		outcome string
		took    time.Duration
		says    string
	}{
		"has no ticket":             {starting{0, errors.New("no ticket")}, silent, "failed", 0, "sasl TEST: no ticket"},
		"takes too long":            {starting{limit + 1, errors.New("late")}, silent, "timeout", limit, "late"},
		"takes half, then silence":  {starting{limit / 2, nil}, silent, "timeout", limit, "no session within 2s"},
		"takes half, then no line":  {starting{limit / 2, nil}, unreachable, "timeout", limit, "no connection within 2s"},
		"takes half, then refused":  {starting{limit / 2, nil}, trial.Refuse, "unreachable", limit / 2, "refused"},
		"takes half, then hangs up": {starting{limit / 2, nil}, hangsUp, "failed", limit / 2, "EOF"},
	} {
		trial.Run(t, func(t *testing.T, _ *zktest.Server) {
			var told attempts
			c, err := conn.New("10.0.0.1", conn.WithDialer(tt.dial), conn.WithConnectTimeout(limit),
				conn.WithSASL(tt.sasl), told.option())
			require.NoError(t, err)
			defer c.Close()
			time.Sleep(tt.took)
			synctest.Wait()
			require.NotEmpty(t, told.Values(), name)
			first := told.Values()[0]
			require.Equal(t, tt.outcome, first.Outcome, name)
			require.Equal(t, tt.took, first.Took, name)
			require.ErrorContains(t, first.Err, tt.says, name)
		})
	}
}

func silent(context.Context, string, string) (net.Conn, error)  { return trial.Silent(), nil }
func hangsUp(context.Context, string, string) (net.Conn, error) { return hungUp(), nil }

func unreachable(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// hungUp is a server that ends the connection.
func hungUp() net.Conn {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Read(make([]byte, 4<<10))
		_ = far.Close()
	}()
	return near
}

// TestConnect_SessionOver: the server answers that the session has expired, and the next attempt gets another one.
func TestConnect_SessionOver(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var told attempts
		c := trial.Dial(t, srv, told.option())
		require.Equal(t, []string{"connected"}, told.outcomes())
		s := trial.Live(t, c)
		trial.CutOff(srv, trial.Ours)
		srv.Expire(s.ID())
		synctest.Wait()
		srv.Accept(trial.Ours)
		<-s.Done()
		trial.Live(t, c)
		synctest.Wait()
		outcomes := told.outcomes()
		require.Equal(t, []string{"expired", "connected"}, outcomes[len(outcomes)-2:])
	})
}

// TestConnect_ClosedMeanwhile: an attempt that the client itself gives up proves nothing about a server.
func TestConnect_ClosedMeanwhile(t *testing.T) {
	for name, dial := range map[string]conn.DialFunc{
		"dialing": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, errors.New("gave up")
		},
		"waiting for an answer": func(context.Context, string, string) (net.Conn, error) { return trial.Silent(), nil },
	} {
		trial.Run(t, func(t *testing.T, _ *zktest.Server) {
			var told attempts
			c, err := conn.New("10.0.0.1", conn.WithDialer(dial), told.option())
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, c.Close())
			require.Empty(t, told.outcomes(), name)
		})
	}
}
