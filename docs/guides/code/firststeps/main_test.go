package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, run(ctx, zktest.Run(t).Addr()), context.DeadlineExceeded)
}
