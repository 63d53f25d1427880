// Package recipe contains the configuration that the recipes share. Each shared option is declared here once; a recipe
// gives it a public name and documents what it means there.
package recipe

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
)

// Config is the configuration shared by recipes with contenders. The configuration of a recipe embeds it.
type Config struct {
	Data          []byte // the data of the contenders
	LossOnSuspend bool
	TracerName    string
	Kazoo         bool // whether kazoo's contenders count
	HandOver      zkrecipes.HandOver
	Reentrant     bool // whether an acquisition inside a hold gets another hold on the same contender
}

// Defaults returns the configuration without options: the contenders' data is the client's identity.
func Defaults(client *client.Client) Config {
	if client == nil { // the recipe refuses this
		return Config{}
	}
	return Config{Data: []byte(client.Identity())}
}

func (c *Config) shared() *Config { return c }

// embedding is the configuration of a recipe.
type embedding interface{ shared() *Config }

// Data returns the option that sets a copy of data.
func Data[C embedding](data []byte) func(C) error {
	return func(c C) error {
		c.shared().Data = append([]byte{}, data...)
		return nil
	}
}

// TracerName returns the option that sets the name for tracers.
func TracerName[C embedding](name string) func(C) error {
	return func(c C) error {
		if name == "" || !utf8.ValidString(name) || len(name) > maxName {
			return fmt.Errorf("tracer name %q: want valid UTF-8 of 1 to %d bytes", name, maxName)
		}
		c.shared().TracerName = name
		return nil
	}
}

// maxName is the longest name in bytes. Metrics repeat it in every series.
const maxName = 100

// LossOnSuspend returns the option that ends holds with the connection.
func LossOnSuspend[C embedding]() func(C) error {
	return func(c C) error {
		c.shared().LossOnSuspend = true
		return nil
	}
}

// Kazoo returns the option that makes kazoo's contenders count.
func Kazoo[C embedding]() func(C) error {
	return func(c C) error {
		c.shared().Kazoo = true
		return nil
	}
}

// HandOver returns the option that determines when waiters prepare for their grant.
func HandOver[C embedding](when zkrecipes.HandOver) func(C) error {
	return func(c C) error {
		if when < zkrecipes.HandOverLazy || when > zkrecipes.HandOverAuto {
			return fmt.Errorf("hand-over %d: want HandOverLazy, HandOverEager or HandOverAuto", when)
		}
		c.shared().HandOver = when
		return nil
	}
}

// Reentrance returns the option that lets acquisitions nest.
func Reentrance[C embedding]() func(C) error {
	return func(c C) error {
		c.shared().Reentrant = true
		return nil
	}
}

// Apply applies the options.
//
// Errors: those of the options, joined; an error for a nil option.
func Apply[C any, O ~func(*C) error](config *C, opts []O) error {
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
