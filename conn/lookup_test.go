package conn_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// Name servers that never answer hold Dial up for 5 s, and no longer than its context lives.
func TestDial_NameServersThatDoNotAnswer_AreNotWaitedForLong(t *testing.T) {
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := net.DefaultResolver.LookupHost(dead, "zk1.example.org") // what package net keeps must not belong to a bubble
	require.Error(t, err)
	impatient := errors.New("impatient")
	for _, tt := range []struct{ patience, took time.Duration }{{time.Minute, 5 * time.Second}, {2 * time.Second, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), tt.patience, impatient)
			defer cancel()
			began := time.Now()
			_, err := conn.Dial(ctx, "zk1.example.org,zk2.example.org")
			require.Equal(t, tt.took, time.Since(began))
			require.ErrorContains(t, err, "no server name resolves: lookup zk1.example.org")
			require.Equal(t, tt.patience == tt.took, errors.Is(err, impatient), "%v", err)
		})
	}
}
