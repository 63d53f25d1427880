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

// Config are the options of a session's life.
type Config struct {
	liveness.Terms
	SessionTimeout time.Duration  // to ask for
	ConnectTimeout time.Duration  // of one attempt; 0 is a part of the session timeout
	MaxReply       int            // bytes; 0 is 256 MiB
	NewBackOff     func() BackOff // nil is the default
	Log            *slog.Logger
	Dial           func(ctx context.Context, server Server) (net.Conn, error)
	SASL           sasl.Mechanism // nil is none
	Auth           []Credential
	Tracers        *trace.Tracers // nil is none
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
	Address string // host:port to dial: the same, unless names are looked up
}

// String returns the name as in the connect string, with the address that was found for it.
func (s Server) String() string {
	if s.Address == s.Name {
		return s.Name
	}
	host, _, _ := net.SplitHostPort(s.Address) // the client has joined host and port
	return fmt.Sprintf("%s (%s)", s.Name, host)
}
