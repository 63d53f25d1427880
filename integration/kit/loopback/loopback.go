// Package loopback assigns local addresses that stay free while their owner is down.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
)

// Block picks 254 loopback addresses, and returns a function that returns the one with a number. No other program binds
// to them, not even as the source of an outgoing connection, which is 127.0.0.1, so a server that was down finds its
// port free.
func Block() func(n int) string {
	if runtime.GOOS != "linux" { // other systems have only one address
		return func(int) string { return "127.0.0.1" }
	}
	a, b := 1+rand.IntN(254), 1+rand.IntN(254)
	return func(n int) string { return fmt.Sprintf("127.%d.%d.%d", a, b, n) }
}

// FreePorts finds n different free ports of the host.
func FreePorts(host string, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // only after all are found, so that none is found twice
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		if ports[i], err = strconv.Atoi(port); err != nil {
			return nil, err
		}
	}
	return ports, nil
}
