package session

import (
	"github.com/zkrecipes/zkrecipes"
)

// alone is the owner of a session without a client.
type alone struct {
	Owner
	log  func() // called after the session has come up
	ups  int
	down Report // the newest
	why  error  // what is in the way
}

func (a *alone) Up(Report) func() {
	a.ups++
	if a.log == nil {
		return func() {}
	}
	return a.log
}

func (a *alone) Down(now Report) func() {
	a.down = now
	return func() {}
}

func (a *alone) Ended(*zkrecipes.LostError, Report) {}

func (a *alone) InTheWay() error { return a.why }
