//go:build unix

package transport

import (
	"net"
	"syscall"
)

// nowWriter returns a function that writes as much as fits into the buffer of the socket, without blocking, and returns
// the number of bytes written. After an error the function returns 0, and the next write meets the error too. nowWriter
// returns nil for connections of other types, including TLS.
func nowWriter(nc net.Conn) func(p []byte) int {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil // already closed
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
