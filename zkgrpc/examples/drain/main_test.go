package main

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, tell(t.Context(), &out), "%s", &out)
		require.Contains(t, out.String(), "the end")
	})
}

func TestTell_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, context.Canceled)
		defer cancel()
		require.NoError(t, tell(ctx, &bytes.Buffer{}))
	})
}
