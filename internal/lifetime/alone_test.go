package lifetime

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

var errCut = errors.New("cut")

// heard is what a listener has received, in order.
type heard []string

func (h *heard) Up()            { *h = append(*h, "up") }
func (h *heard) Down(time.Time) { *h = append(*h, "down") }
func (h *heard) Event(zk.Event) { *h = append(*h, "event") }

func (h *heard) Over()                                        {}
func (h *heard) Closing(_ func(...Request) bool, then func()) { then() }

// alone stands in for the client of a session.
type alone struct {
	Client
	log  func() // called after the session has come up
	ups  int
	down Report // the latest
	why  error  // WhyDisconnected
}

func (a *alone) Up(Report) func() {
	a.ups++
	if a.log == nil {
		return func() {}
	}
	return a.log
}

func (a *alone) Down(now Report) func() {
	a.down = now
	return func() {}
}

func (a *alone) Ended(*zkrecipes.LostError, Report) {}

func (a *alone) WhyDisconnected() error { return a.why }

// connectionOf returns a connection of l on raw that never comes up.
func connectionOf(t *testing.T, l *Lifetime, raw net.Conn) *link.Connection {
	dial := func(context.Context) (net.Conn, error) { return raw, nil }
	c, err := link.Dial(t.Context(), time.Now(), time.Hour, "10.0.0.1:2181", dial, linkOwner{l})
	require.NoError(t, err)
	return c
}
