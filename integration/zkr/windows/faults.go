package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// serverStops stops the server. From then on, the deadline of the session is at most its timeout away.
func (s *stage) serverStops(ctx context.Context) (string, error) {
	var lags, margins spans
	err := s.each(func() error {
		h, err := s.hold(ctx)
		if err != nil {
			return err
		}
		lag, err := s.withoutServer(ctx, h)
		if err != nil {
			return err
		}
		margin, err := h.margin()
		lags, margins = append(lags, lag), append(margins, margin)
		return err
	})
	return fmt.Sprintf("program and descendant are gone after %v, %v before the deadline; zkr ends with 79",
		lags, margins), err
}

// withoutServer returns how long the program lived after the server had stopped.
func (s *stage) withoutServer(ctx context.Context, h *holder) (lag time.Duration, err error) {
	if err := s.server.Pause(); err != nil {
		return 0, err
	}
	stopped := time.Now()
	defer func() { err = errors.Join(err, s.server.Resume()) }()
	status, err := h.over(ctx)
	if lag = h.gone.Sub(stopped); err == nil && lag > timeout {
		err = fmt.Errorf("the program lived on for %v without a server, in a session of %v", lag, timeout)
	}
	return lag, want("zkr lock", status, lost, err)
}

// margin returns how long before the deadline the program was gone.
func (h *holder) margin() (time.Duration, error) {
	e, ok := h.told("suspect")
	if !ok {
		return 0, fmt.Errorf("zkr has not told its deadline: %s", h.log.String())
	}
	margin := e.ValidUntil.Sub(h.gone)
	if margin < 0 {
		return 0, fmt.Errorf("the program lived on for %v after the deadline: %s", -margin, h.log.String())
	}
	return margin, nil
}

// partition cuts zkr off, while the next holder waits on Linux.
func (s *stage) partition(ctx context.Context) (string, error) {
	var margins, gaps spans
	err := s.each(func() error {
		p, err := proxy.Open(s.server.Addr())
		if err != nil {
			return err
		}
		h, status, gap, err := s.overtaken(ctx, p.Addr(), func(*holder) error { p.Stall(proxy.Both); return nil })
		p.Close()
		if err := want("zkr lock", status, lost, err); err != nil {
			return err
		}
		margin, err := h.margin()
		margins, gaps = append(margins, margin), append(gaps, gap)
		return err
	})
	return fmt.Sprintf("all are gone %v before the deadline, %v before the next grant", margins, gaps), err
}

func (s *stage) taskkill(ctx context.Context) (string, error) {
	return s.ends(ctx, func(h *holder) error {
		return exec.CommandContext(ctx, "wine", "taskkill", "/F", "/PID", strconv.Itoa(h.program.parent)).Run()
	})
}

func (s *stage) killed(ctx context.Context) (string, error) {
	return s.ends(ctx, func(h *holder) error { return h.Process.Kill() })
}

// ends kills zkr, while the next holder waits on Linux.
func (s *stage) ends(ctx context.Context, end func(*holder) error) (string, error) {
	var lags, gaps spans
	err := s.each(func() error {
		var ended time.Time
		h, _, gap, err := s.overtaken(ctx, s.server.Addr(), func(h *holder) error {
			ended = time.Now()
			return end(h)
		})
		if err != nil {
			return err
		}
		lags, gaps = append(lags, h.gone.Sub(ended)), append(gaps, gap)
		return nil
	})
	return fmt.Sprintf("all are gone %v after the call, %v before the next grant", lags, gaps), err
}

// overtaken hits a holder with a fault. It returns the exit status of zkr, and how long before the next grant its
// program was gone.
func (s *stage) overtaken(ctx context.Context, servers string, fault func(*holder) error) (h *holder, status int,
	gap time.Duration, err error,
) {
	if h, err = hold(ctx, servers, s.path); err != nil {
		return nil, 0, 0, err
	}
	granted, stop, err := s.waiter(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	defer stop()
	if err := fault(h); err != nil {
		return nil, 0, 0, err
	}
	if status, err = h.over(ctx); err != nil {
		return nil, 0, 0, err
	}
	select {
	case at := <-granted:
		if gap = at.Sub(h.gone); gap <= 0 {
			err = fmt.Errorf("the program lived on for %v after the next grant", -gap)
		}
		return h, status, gap, err
	case <-ctx.Done():
		return nil, 0, 0, errors.New("no next grant")
	}
}

// waiter waits for the lock concurrently with zkr, and reports the time of its grant. stop releases the lock.
func (s *stage) waiter(ctx context.Context) (granted <-chan time.Time, stop func(), err error) {
	c, err := conn.Dial(ctx, s.server.Addr(), conn.WithSessionTimeout(timeout),
		conn.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, err
	}
	m, err := mutex.New(c, s.path)
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	grants := make(chan time.Time, 1)
	go func() { // until the client closes
		if _, err := m.Lock(ctx); err == nil {
			grants <- time.Now()
		}
	}()
	return grants, func() { _ = c.Close() }, nil // it never fails
}

// spans are the times of the rounds.
type spans []time.Duration

func (s spans) String() string {
	all := make([]string, len(s))
	for i, d := range s {
		all[i] = strconv.Itoa(int(d.Milliseconds()))
	}
	return strings.Join(all, ", ") + " ms"
}
