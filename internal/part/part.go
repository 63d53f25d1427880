// Package part hides the nature of a lock from code that acquires several together. Users pass parts on, and only
// recipes create them.
package part

// Part is the type that zkrecipes.Part is converted from.
type Part struct{ of any }

// New returns the part that of describes.
func New(of any) Part { return Part{of} }

// Of returns the argument of New, or nil for the zero Part.
func (p Part) Of() any { return p.of }
