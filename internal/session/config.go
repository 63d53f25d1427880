package session

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	Servers []string // host:port
	Chroot  string   // "" for none

	SessionTimeout time.Duration // to ask for
	ConnectTimeout time.Duration // of one attempt
	Tick           time.Duration // of the ensemble; 0 is unknown
	Margin         float64       // the part of the session timeout that is taken off every deadline
	NewBackOff     func() backoff.BackOff
	Log            *slog.Logger
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	Auth           []Credential
	ACL            []zk.ACL
	Identity       string
}

// Credential is shown to every server.
type Credential struct {
	Scheme     string
	Credential []byte
}

// lag is how long before a request that the leader serves a contact must have been answered to count. Half a tick, for the
// leader is told of it by then; a tick and a half, for so long one that has been replaced may take itself for the leader.
//
// Source: Leader.lead of ZooKeeper counts its followers once a tick. One that was frozen misses them the first time. One
// that is cut off counts syncLimit ticks from the beginning of the next, they from its last ping, half a tick before.
func (c *Config) lag(timeout time.Duration) time.Duration {
	if c.Tick > 0 {
		return max(c.Tick/2, min(c.Tick*3/2, timeout/4))
	}
	return timeout / 4
}

func (c *Config) marginOf(timeout time.Duration) time.Duration {
	return time.Duration(c.Margin * float64(timeout))
}
