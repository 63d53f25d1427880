// Package root represents where the paths of a client begin. Users compare and print roots, and only clients create
// them.
package root

import "fmt"

// Root is the type that zkrecipes.Root is converted from. Roots are equal if the arguments of New are.
type Root struct{ at fmt.Stringer }

// New returns the root that at describes, which must be comparable.
func New(at fmt.Stringer) Root { return Root{at} }

// String returns the description of the root, or "" for the zero Root.
func (r Root) String() string {
	if r.at == nil {
		return ""
	}
	return r.at.String()
}
