// Package recipe has the configuration that the recipes share.
package recipe

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Config is what every recipe can be told.
type Config struct {
	Data          []byte // of the contenders; default the client's identity
	LossOnSuspend bool
	Name          string // for tracers
	Kazoo         bool   // kazoo's contenders count
	Reentrant     bool   // inside a hold, an acquisition gets another hold on the same contender
}

// SetData sets a copy of data.
func (c *Config) SetData(data []byte) { c.Data = append([]byte{}, data...) }

// SetName sets the name for tracers.
func (c *Config) SetName(name string) error {
	if name == "" || !utf8.ValidString(name) || len(name) > maxName {
		return fmt.Errorf("name %q: want valid UTF-8 of 1 to %d bytes", name, maxName)
	}
	c.Name = name
	return nil
}

// maxName is how long a name may be, in bytes. Metrics have it in every series.
const maxName = 100

// Configure sets the defaults of shared, which is part of config, and applies the options.
//
// Errors: those of the options, joined; a nil option.
func Configure[C any, O ~func(*C) error](client *session.Client, config *C, shared *Config, opts []O) error {
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
