package conn

import (
	"crypto/tls"
	"errors"
	"sync"
)

// certificates are what the connections of a client are encrypted with. They may change.
type certificates struct {
	read func() (*tls.Config, error)

	mu   sync.Mutex
	last *tls.Config // that was read without an error
}

// next returns the configuration of the next connection. If it cannot be read, there is an error, and the configuration is the one
// before.
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
