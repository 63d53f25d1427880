package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun_WorkersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-workers", "4", "-rounds", "2"}, &out))
		inside := 0
		require.True(t, strings.HasPrefix(out.String(), "4 workers take turns"))
		for line := range strings.Lines(out.String()) {
			switch {
			case !strings.Contains(line, " token "): // the legend
			case strings.Contains(line, " locked "):
				inside++
				require.Equal(t, 1, inside, out.String())
			case strings.Contains(line, " released "):
				inside--
			}
		}
		require.Contains(t, out.String(), "value 8\n", "no update was lost")
	})
}

func TestRun_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, context.Canceled)
		defer cancel()
		require.NoError(t, run(ctx, []string{"-hold", "1h"}, &bytes.Buffer{}))
	})
}

func TestParse(t *testing.T) {
	for args, says := range map[string]string{
		"-nonsense": "not defined", "-workers 0": "want 1 or more", "now": "unexpected argument", "-id x": "needs -servers",
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says)
	}
	require.Error(t, run(t.Context(), []string{"-path", "relative"}, &bytes.Buffer{}))
}
