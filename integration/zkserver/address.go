package zkserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
)

// subnet picks a block of loopback addresses. Nothing else binds to them, not even as the source of an outgoing
// connection (that is 127.0.0.1), so a port stays free while its server is down, whatever runs beside this test.
func subnet() func(member int) string {
	if runtime.GOOS != "linux" { // others have 127.0.0.1 only
		return func(int) string { return "127.0.0.1" }
	}
	a, b := 1+rand.IntN(254), 1+rand.IntN(254)
	return func(member int) string { return fmt.Sprintf("127.%d.%d.%d", a, b, member) }
}

func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("unexpected address %v", l.Addr())
	}
	return addr.Port, nil
}
