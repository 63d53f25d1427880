package conn

import (
	"crypto/tls"
	"errors"
	"sync"
)

// certificates supplies the TLS configuration of a client's connections, which may change.
type certificates struct {
	read func() (*tls.Config, error)

	mu   sync.Mutex
	last *tls.Config // the latest that was read without an error
}

// next returns the configuration of the next connection. If it cannot be read, next returns the error and the
// previous configuration.
func (c *certificates) next() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	config, err := c.read()
	if err == nil && config == nil {
		err = errors.New("the function given to WithTLSFunc returned neither a configuration nor an error")
	}
	if err == nil {
		c.last = config
	}
	return c.last, err
}
