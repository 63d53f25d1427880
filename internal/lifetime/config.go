package lifetime

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/liveness"
	"github.com/zkrecipes/zkrecipes/internal/trace"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// Config holds the options for the life of a session.
type Config struct {
	liveness.Terms
	SessionTimeout time.Duration  // the one to request
	ConnectTimeout time.Duration  // for one attempt; 0 means a fraction of the session timeout
	MaxReply       int            // bytes; 0 means 256 MiB
	NewBackOff     func() BackOff // nil means the default
	Log            *slog.Logger
	Dial           func(ctx context.Context, server Server) (net.Conn, error)
	SASL           sasl.Mechanism // nil for none
	Auth           []Credential
	Tracers        *trace.Tracers // nil for none
}

const maxReply = 256 << 20

// Credential is sent on every connection.
type Credential struct {
	Scheme     string
	Credential []byte
}

// Server is one address of a server.
type Server struct {
	Name    string // host:port, as in the connect string
	Address string // host:port to dial; the same as Name unless names are resolved
}

// String returns the name as in the connect string, with the address it was resolved to.
func (s Server) String() string {
	if s.Address == s.Name {
		return s.Name
	}
	host, _, _ := net.SplitHostPort(s.Address) // the client has joined host and port
	return fmt.Sprintf("%s (%s)", s.Name, host)
}
