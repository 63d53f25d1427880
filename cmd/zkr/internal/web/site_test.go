package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// TestServe_ResignNeedsASocket: over TCP, any page in a browser could ask.
func TestServe_ResignNeedsASocket(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/resign", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	(&Site{}).resign(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "unix socket")
}

// TestServe_ResignWaitsForTheTerm: a request may come before the term is ready to end.
func TestServe_ResignWaitsForTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/resign", nil)
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix"}))
		began := time.Now()
		(&Site{resigning: make(chan chan<- *election.Term)}).resign(w, r)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, resignPatience, time.Since(began))
	})
}

// TestServe_Host: at the loopback, a page of another site gets no answer. Elsewhere each name is fine.
func TestServe_Host(t *testing.T) {
	for _, c := range []struct {
		listener net.IP
		host     string
		want     int
	}{
		{net.IPv4(127, 0, 0, 1), "127.0.0.1:4040", http.StatusOK},
		{net.IPv4(127, 0, 0, 1), "localhost:4040", http.StatusOK},
		{net.IPv6loopback, "[::1]", http.StatusOK},
		{net.IPv4(127, 0, 0, 1), "evil.example:4040", http.StatusForbidden},
		{net.IPv4(127, 0, 0, 1), "10.0.0.1", http.StatusForbidden},
		{net.IPv4zero, "zkr.example", http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		local(&net.TCPAddr{IP: c.listener}, http.HandlerFunc(alive)).ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%v", c)
	}
}
