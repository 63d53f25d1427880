//go:build unix && !linux && !darwin

package child

import "errors"

func processes() ([]process, error) { return nil, errors.ErrUnsupported }
