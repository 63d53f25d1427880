package ephemeral

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrefix_IsCurators(t *testing.T) {
	form := regexp.MustCompile(`^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-$`)
	seen := map[string]bool{}
	for range 100 {
		guid := NewGUID()
		require.False(t, seen[guid])
		seen[guid] = true
		require.Regexp(t, form, Prefix(guid))
	}
}
