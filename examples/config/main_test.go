package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestRun_ReadersFollowAndTheStaleEditorIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), nil, &out))
		seen := map[string][]string{}
		for line := range strings.Lines(out.String()) {
			if words := strings.Fields(line); len(words) > 5 && words[3] != "--" && words[4] == "color" {
				seen[words[2]] = append(seen[words[2]], words[3]+" "+words[5])
			}
		}
		for _, reader := range []string{"reader-1", "reader-2"} {
			require.Subset(t, []string{"sees none", "sees 1", "sees 2", "sees 3"}, seen[reader], out.String())
			require.Equal(t, "sees 3", seen[reader][len(seen[reader])-1], out.String())
		}
		cutOff := seen["reader-3"]
		require.Contains(t, cutOff, "outdated 1", out.String())
		require.NotContains(t, cutOff[:slices.Index(cutOff, "outdated 1")], "sees 2", out.String())
		require.Equal(t, "sees 3", cutOff[len(cutOff)-1], out.String())
		require.Equal(t, 1, strings.Count(out.String(), " fenced "))
		require.NotContains(t, out.String(), "color -1")
	})
}

// The chroot does not exist yet.
func TestRun_BelowAMissingChroot(t *testing.T) {
	srv := zktest.Run(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-servers", srv.Addr() + "/no/such", "-pause", "1ms"}, &out))
	require.Contains(t, out.String(), "event=fenced")
}

func TestRun_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, context.Canceled)
		defer cancel()
		require.NoError(t, run(ctx, []string{"-pause", "1h"}, &bytes.Buffer{}))
	})
}

func TestParse(t *testing.T) {
	for args, says := range map[string]string{
		"-nonsense": "not defined", "-rounds 0": "want 0 or more, 1 or more", "now": "unexpected argument",
		"-id x": "needs -servers",
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says)
	}
	require.Error(t, run(t.Context(), []string{"-path", "relative"}, &bytes.Buffer{}))
}
