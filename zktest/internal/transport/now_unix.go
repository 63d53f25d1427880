//go:build unix

package transport

import (
	"net"
	"syscall"
)

// nowWriter returns a function that writes what the buffer of the socket takes, without waiting, and returns how many
// bytes these are. After an error that is none: the next write meets the error too. It returns nil for connections of
// other types, TLS among them.
func nowWriter(nc net.Conn) func(p []byte) int {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil // closed already
	}
	var rest []byte
	var n int
	try := func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), rest)
		return true // even if the buffer was full
	}
	return func(p []byte) int {
		rest, n = p, 0
		_ = raw.Write(try)
		return max(0, n)
	}
}
