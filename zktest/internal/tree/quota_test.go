package tree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsage_FormatsWhatItParses(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "count=-1,bytes=-1",
		"count=3,bytes=4":               "count=3,bytes=4",
		"bytes=4;count=3=;":             "count=3,bytes=4",
		"count=,bytes=4=;b=2;a=1;x=bad": "count=-1,bytes=4=;a=1;b=2",
	} {
		require.Equal(t, want, string(parseUsage([]byte(in)).format()), in)
	}
}
