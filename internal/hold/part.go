package hold

import (
	"cmp"
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/part"
)

// Part is one of several locks that are acquired together.
type Part struct {
	Client  *client.Client
	Path    string
	Kind    string // parts with the same path and client are one lock if their kinds are equal
	Invalid error  // why Acquire would fail immediately; nil if it would not
	Acquire func(context.Context) (*zkrecipes.Hold, error)
}

// Public returns the part as users see it.
func (p Part) Public() zkrecipes.Part { return zkrecipes.Part(part.New(p)) }

// PartOf returns the part behind p, as passed to [Part.Public]. It reports false for the zero part.
func PartOf(p zkrecipes.Part) (Part, bool) {
	of, ok := part.Part(p).Of().(Part)
	return of, ok
}

// Absolute returns the path on the server.
func (p Part) Absolute() string { return p.Client.Abs(p.Path) }

// Same reports whether both parts are the same lock of the same client.
func (p Part) Same(other Part) bool { return p.Compare(other) == 0 && p.Client.Same(other.Client) }

// Compare orders parts identically in every program: by path on the server, then by kind.
func (p Part) Compare(other Part) int {
	return cmp.Or(cmp.Compare(p.Absolute(), other.Absolute()), cmp.Compare(p.Kind, other.Kind))
}
