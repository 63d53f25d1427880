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

// TestServe_ResignNeedsASocket: over TCP, any page in a browser could send the request.
func TestServe_ResignNeedsASocket(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/resign", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	(&Site{}).resign(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "unix socket")
}

// TestServe_ResignWaitsForTheTerm: a request may arrive before the term is ready to end.
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

// TestServe_Host: a page of another site whose name resolves to us gets no answer on the loopback. Elsewhere it gets
// none if the allowed host names are set.
func TestServe_Host(t *testing.T) {
	loopback, allowed := net.IPv4(127, 0, 0, 1), []string{"zkr.example", "locks"}
	for _, c := range []struct {
		listener net.IP
		allowed  []string
		host     string
		want     int
	}{
		{loopback, nil, "127.0.0.1:4040", http.StatusOK},
		{loopback, nil, "localhost:4040", http.StatusOK},
		{net.IPv6loopback, nil, "[::1]", http.StatusOK},
		{loopback, nil, "evil.example:4040", http.StatusForbidden},
		{loopback, nil, "10.0.0.1", http.StatusForbidden},
		{loopback, allowed, "ZKR.example:4040", http.StatusOK},
		{loopback, allowed, "evil.example:4040", http.StatusForbidden},
		{net.IPv4zero, nil, "zkr.example", http.StatusOK},
		{net.IPv4zero, allowed, "zkr.example", http.StatusOK},
		{net.IPv4zero, allowed, "locks:4040", http.StatusOK},
		{net.IPv4zero, allowed, "localhost:4040", http.StatusOK},
		{net.IPv4zero, allowed, "10.0.0.1:4040", http.StatusOK},
		{net.IPv4zero, allowed, "[2001:db8::1]:4040", http.StatusOK},
		{net.IPv4zero, allowed, "evil.example", http.StatusForbidden},
		{net.IPv4zero, allowed, "zkr.example.evil.example", http.StatusForbidden},
		{net.IPv4zero, allowed, "", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		site := &Site{hosts: c.allowed}
		site.ours(&net.TCPAddr{IP: c.listener}, http.HandlerFunc(alive)).ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%v", c)
	}
}
