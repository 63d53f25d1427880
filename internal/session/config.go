package session

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/trace"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	Servers []string // host:port; a host is an address or a name
	Chroot  string   // "" for none

	SessionTimeout time.Duration          // to ask for
	ConnectTimeout time.Duration          // of one attempt; 0 is a part of the session timeout
	Tick           time.Duration          // of the ensemble; 0 is unknown
	LeastTimeout   time.Duration          // that a server may grant; 0 is the least that one has granted
	MaxRequest     int                    // bytes; 0 is 1 MiB less 4 KiB
	MaxReply       int                    // bytes; 0 is 256 MiB
	Margin         float64                // the part of the session timeout that is taken off every deadline
	NewBackOff     func() backoff.BackOff // nil is the default
	Log            *slog.Logger
	Dial           func(ctx context.Context, server Server) (net.Conn, error)
	Lookup         func(ctx context.Context, host string) ([]string, error) // the addresses of a host; nil if Dial takes names
	Auth           []Credential
	ACL            []zk.ACL
	Identity       string
	Tracers        *trace.Tracers // nil is none
}

// Credential is sent on every connection.
type Credential struct {
	Scheme     string
	Credential []byte
}

// lag is how much older than a request that the leader serves an answered contact must be to count. Half a tick is enough for
// a follower to report the contact. A tick and a half is for a leader that was replaced and does not know it for so long.
//
// Source: Leader.lead of ZooKeeper counts its followers once a tick. A leader that was frozen notices at the first count that
// they are gone. A leader that is cut off counts syncLimit ticks from the beginning of the next tick; the followers count
// from its last ping, half a tick earlier.
func (c *Config) lag(timeout time.Duration) time.Duration {
	if c.Tick > 0 {
		return max(c.Tick/2, min(c.Tick*3/2, timeout/4))
	}
	return timeout / 4
}

func (c *Config) marginOf(timeout time.Duration) time.Duration {
	return time.Duration(c.Margin * float64(timeout))
}

// leastGrant is the least timeout that a server may grant to a session which was granted timeout before; see proof.
func (c *Config) leastGrant(timeout time.Duration) time.Duration {
	if c.LeastTimeout > 0 {
		return min(timeout, c.LeastTimeout)
	}
	return timeout
}
