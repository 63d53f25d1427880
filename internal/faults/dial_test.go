package faults_test

import (
	"context"
	"net"

	"github.com/zkrecipes/zkrecipes/conn"
)

// counting counts the calls of dial, which come one at a time.
func counting(n *int, dial conn.DialFunc) conn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		*n++
		return dial(ctx, network, address)
	}
}
