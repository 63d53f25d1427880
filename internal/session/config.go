package session

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/liveness"
	"github.com/zkrecipes/zkrecipes/internal/trace"
)

// Config is what package conn makes of a connect string and its options.
type Config struct {
	Servers []string // host:port; a host is an address or a name
	Chroot  string   // "" for none

	liveness.Terms
	SessionTimeout time.Duration          // to ask for
	ConnectTimeout time.Duration          // of one attempt; 0 is a part of the session timeout
	MaxRequest     int                    // bytes; 0 is 1 MiB less 4 KiB
	MaxReply       int                    // bytes; 0 is 256 MiB
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
