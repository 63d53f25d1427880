package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestRun_ReadersSeeWholeEditsAndTheStaleEditorIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), nil, &out))
		editing := false
		for line := range strings.Lines(out.String()) {
			switch {
			case !strings.Contains(line, " token "): // the legend
			case strings.Contains(line, " editing "):
				editing = true
			case strings.Contains(line, " wrote "):
				editing = false
			case strings.Contains(line, " read "):
				require.False(t, editing, out.String())
			}
		}
		require.Equal(t, 9, strings.Count(out.String(), " read "))
		require.Contains(t, out.String(), "config \"color=3\"")
		require.Contains(t, out.String(), " fenced ")
		require.NotContains(t, out.String(), "color=stale")
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
		"-nonsense": "not defined", "-rounds 0": "want 0 or more, 1 or more", "now": "unexpected argument", "-id x": "needs -servers",
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says)
	}
	require.Error(t, run(t.Context(), []string{"-path", "relative"}, &bytes.Buffer{}))
}
