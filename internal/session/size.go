package session

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

const maxRequest = 1<<20 - belowJuteMax // for servers with the default jute.maxbuffer

// belowJuteMax leaves room for what servers add to a request when they forward it.
const belowJuteMax = 4 << 10

// suspect is the size of the smallest request that may have ended its connection by being too large. No server is
// useful with a lower limit.
const suspect = 64 << 10

// ReplyLost reports whether the outcome of a write is unknown because its reply was lost, in which case sending it
// again does not cost other calls their connection. It is false for a server that failed on the request, or hung up
// because of its size.
func ReplyLost(err error) bool {
	return errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err) && !errors.Is(err, zkrecipes.ErrTooLarge)
}

// Hangups counts the connections in a row that ended during one request. A server hangs up on a request above its
// jute.maxbuffer without an answer.
type Hangups int

// Judge takes the error of a try with the given number of bytes. From the second connection in a row on, the returned
// error also matches zkrecipes.ErrTooLarge, and the request must not be sent again.
func (h *Hangups) Judge(size int, err error) error {
	if size < suspect || !errors.Is(err, zk.ErrConnectionClosed) {
		*h = 0
		return err
	}
	if *h++; *h < 2 {
		return err
	}
	return fmt.Errorf(
		"%w: %d connections in a row ended during a request of %d bytes: jute.maxbuffer of the servers is probably lower: "+
			"raise it or set WithMaxRequestSize: %w",
		zkrecipes.ErrTooLarge, *h, size, err)
}
