package node

import (
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

// State is what a Node knows about its node.
type State struct {
	// Exists reports whether the node existed at AsOf. Another session's node doesn't count.
	Exists bool
	// Czxid identifies the node's incarnation; 0 if Exists is false.
	Czxid int64
	// Session is the session that owns the node; 0 if Exists is false.
	Session int64
	zkrecipes.Freshness
	// Err is why the node doesn't exist, or doesn't have the data set last; nil if neither is the case. It matches
	// [ErrDeleted], zkrecipes.ErrTaken (a *zkrecipes.TakenError names the owner), zkrecipes.ErrLost if the session has
	// ended, zkrecipes.ErrClosed if the Node is closed, or the server's error. Any other error is meant only for people to
	// read, so don't match it.
	Err error
}

// same reports whether now contains nothing new for a caller that has seen s.
func (s State) same(now State) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return s.Exists == now.Exists && s.Czxid == now.Czxid && s.Current == now.Current && text(s.Err) == text(now.Err)
}

// ErrDeleted reports that another client has deleted the node, which is being recreated.
var ErrDeleted = errors.New("deleted by another client")

// These are the other reasons why the node does not exist, apart from answers of the server.
var (
	errOverwritten = errors.New("another client has written its data")
	errUnsettled   = errors.New("keeps changing")
	errNotYet      = errors.New("not created yet")
	errLeaving     = errors.New("the node that this client kept there before is still being deleted")
	errNoAnswer    = errors.New("not connected")
)

// isRefusal reports whether err is an answer of the server that waiting does not change.
func isRefusal(err error) bool {
	for _, passing := range []error{
		zkrecipes.ErrTaken, zkrecipes.ErrLost, ErrDeleted, errOverwritten, errUnsettled, errNotYet, errLeaving, errNoAnswer,
	} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}
