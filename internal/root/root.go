// Package root is where the paths of a client begin, which users compare and print, and only clients make.
package root

import "fmt"

// Root is what zkrecipes.Root is converted from. Roots are equal if what New was given is.
type Root struct{ at fmt.Stringer }

// New returns the root that at describes, which must be comparable.
func New(at fmt.Stringer) Root { return Root{at} }

// String returns what describes the root; empty for the zero Root.
func (r Root) String() string {
	if r.at == nil {
		return ""
	}
	return r.at.String()
}
