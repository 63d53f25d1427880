package recipe

import (
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

// Loggable returns an error for the log, without the data of the node that occupies a path.
func Loggable(err error) error {
	var taken *zkrecipes.TakenError
	if !errors.As(err, &taken) {
		return err
	}
	bare := *taken
	bare.Data = nil
	return &bare
}
