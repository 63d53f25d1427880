package recipe

import "github.com/zkrecipes/zkrecipes"

// Closed is the error of calls on something that was itself closed, such as a cache. It matches zkrecipes.ErrClosed.
type Closed string

func (c Closed) Error() string { return "the " + string(c) + " was closed" }

// Is makes errors.Is match zkrecipes.ErrClosed.
func (c Closed) Is(target error) bool { return target == zkrecipes.ErrClosed }
