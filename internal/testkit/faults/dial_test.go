package faults_test

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes/conn"
)

// counting counts the calls of dial.
func counting(n *atomic.Int64, dial conn.DialFunc) conn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, address)
	}
}
