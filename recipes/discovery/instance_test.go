package discovery

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirstReachable(t *testing.T) {
	at := func(ip string) net.Addr { return &net.IPNet{IP: net.ParseIP(ip)} }
	host := &net.TCPAddr{IP: net.ParseIP("10.0.0.1")} // not the address of an interface
	for want, addresses := range map[string][]net.Addr{
		"":            nil,
		"10.0.0.7":    {at("127.0.0.1"), at("169.254.1.1"), host, at("10.0.0.7"), at("10.0.0.8")},
		"2001:db8::7": {at("::1"), at("fe80::1"), at("2001:db8::7"), at("10.0.0.7")},
	} {
		require.Equal(t, want, firstReachable(addresses))
	}
	require.Empty(t, firstReachable([]net.Addr{host, at("127.0.0.1"), at("fe80::1")}))
}
