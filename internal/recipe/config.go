// Package recipe has the configuration that the recipes share.
package recipe

import (
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/conn"
)

// Config is what every recipe can be told.
type Config struct {
	Data          []byte // of the contenders; default the client's identity
	LossOnSuspend bool
	Kazoo         bool // kazoo's contenders count
}

// SetData sets a copy of data.
func (c *Config) SetData(data []byte) { c.Data = append([]byte{}, data...) }

// Configure sets the defaults of shared, which is part of config, and applies the options.
//
// Errors: those of the options, joined; a nil option.
func Configure[C any, O ~func(*C) error](client *conn.Client, config *C, shared *Config, opts []O) error {
	if client != nil {
		shared.Data = []byte(client.Identity())
	}
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("option %d is nil", i))
			continue
		}
		errs = append(errs, opt(config))
	}
	return errors.Join(errs...)
}
