// Package part hides what a lock is to those that acquire several together. Users pass parts on, and only recipes make them.
package part

// Part is what zkrecipes.Part is converted from.
type Part struct{ of any }

// New returns the part that of describes.
func New(of any) Part { return Part{of} }

// Of returns what New was given; nil for the zero Part.
func (p Part) Of() any { return p.of }
