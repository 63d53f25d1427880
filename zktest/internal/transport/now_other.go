//go:build !unix

package transport

import "net"

// nowWriter returns nil: on these systems no write returns without blocking.
func nowWriter(net.Conn) func(p []byte) int { return nil }
