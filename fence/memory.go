package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes"
)

// Memory is a [Store] that lasts as long as its process. Use it for a resource that lasts no longer than that. The zero
// value is an empty store.
type Memory struct {
	mu      sync.Mutex
	highest map[string]zkrecipes.Token
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return new(Memory) }

// Raise implements [Store]. Errors: context.Cause(ctx).
func (m *Memory) Raise(ctx context.Context, resource string, t zkrecipes.Token) (zkrecipes.Token, error) {
	if ctx == nil {
		return 0, fmt.Errorf("%w: the context is nil", ErrInvalid)
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.highest == nil {
		m.highest = make(map[string]zkrecipes.Token)
	}
	m.highest[resource] = max(m.highest[resource], t)
	return m.highest[resource], nil
}
