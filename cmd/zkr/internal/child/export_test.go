//go:build unix

package child

// NewGuardedHost is NewHost as on systems without the parent-death signal.
func NewGuardedHost() (*Host, error) {
	h, err := NewHost()
	if err == nil {
		h.guarded = true
	}
	return h, err
}
