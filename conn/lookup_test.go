package conn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// If name servers never answer, Dial waits until its context ends.
func TestDial_NameServersThatDoNotAnswer_AreWaitedFor(t *testing.T) {
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := net.DefaultResolver.LookupHost(dead, "zk1.example.org") // so that package net's state is not of a bubble
	require.Error(t, err)
	impatient := errors.New("impatient")
	for _, patience := range []time.Duration{time.Minute, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, impatient)
			defer cancel()
			began := time.Now()
			_, err := conn.Dial(ctx, "zk1.example.org,zk2.example.org")
			require.Equal(t, patience, time.Since(began))
			require.ErrorContains(t, err, "none of the server names resolves: lookup zk1.example.org")
			require.ErrorIs(t, err, impatient)
		})
	}
}

// listenTwice starts a server, and listens on 127.0.0.1 at the same port. Another process may already use that port
// there, so listenTwice tries several times.
func listenTwice(t *testing.T, opts ...zktest.Option) (srv *zktest.Server, without net.Listener, port string) {
	t.Helper()
	for tries := 1; ; tries++ {
		srv, err := zktest.Start(opts...)
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Skip("this system has 127.0.0.1 alone:", err)
		}
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(srv.Addr())
		require.NoError(t, err)
		without, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			return srv, without, port
		}
		srv.Close()
		require.Less(t, tries, 10, err)
	}
}

// The first address accepts and hangs up, as a server without a leader does. The client continues with the second,
// and TLS verifies the name.
func TestDial_NameWithSeveralAddresses_EachIsTried(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close() // its certificate is for example.com
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			opts := []zktest.Option{zktest.WithListener("127.0.0.2:0")}
			var with []conn.Option
			if secured {
				opts = append(opts, zktest.WithTLS(certificate.TLS))
				roots := x509.NewCertPool()
				roots.AddCert(certificate.Certificate())
				with = append(with, conn.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
			}
			srv, without, port := listenTwice(t, opts...)
			defer srv.Close()
			defer func() { _ = without.Close() }()
			go func() {
				for {
					c, err := without.Accept()
					if err != nil {
						return
					}
					_ = c.Close()
				}
			}()
			names.Use(t).Set("example.com", "127.0.0.1", "127.0.0.2")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range 5 { // the order is random
				c, err := conn.Dial(ctx, "example.com:"+port, with...)
				require.NoError(t, err)
				require.Equal(t, "example.com:"+port+" (127.0.0.2)", c.Status().Server)
				require.NoError(t, c.Close())
			}
		})
	}
}
