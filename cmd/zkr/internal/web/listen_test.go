package web

import (
	"context"
	"log/slog"
	"net"
	"testing"
)

// idle is a listener that accepts nothing.
type idle struct{}

func (idle) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (idle) Close() error              { return nil }
func (idle) Addr() net.Addr            { return &net.UnixAddr{} }

// TestServeAt_AfterTheEnd: a signal, or another address that is in use, may end a site before it serves. Many rounds
// make the end overtake the start in one of them.
func TestServeAt_AfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := New(slog.New(slog.DiscardHandler))
	for range 50_000 {
		_ = s.serveAt(ctx, idle{}) // the error depends on which of them comes first
	}
}
