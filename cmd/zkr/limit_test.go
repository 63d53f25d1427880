//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestLimit_IsSetAndShown(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	zkr := func(want int, args ...string) (out, errs string) {
		t.Helper()
		out, errs = ends(t, want, srv.Addr(), args...)
		return out, errs
	}
	out, errs := zkr(1, "limit", "/app/limit")
	assert.Empty(t, out)
	assert.Equal(t, "zkr: /app/limit: there is no such node: zkr limit /app/limit N creates it\n", errs)

	for _, n := range []string{"3", "1000", "0", "2"} {
		out, errs = zkr(0, "limit", "/app/limit", n)
		assert.Empty(t, out+errs)
		out, _ = zkr(0, "limit", "/app/limit")
		assert.Equal(t, n+"\n", out)
	}
	node, _ := srv.Node("/app/limit")
	assert.Equal(t, []byte{0, 0, 0, 2}, node.Data)
	out, _ = zkr(0, "limit", "-o", "json", "/app/limit")
	assert.JSONEq(t, `{"path": "/app/limit", "limit": 2}`, out)
	zkr(exit.Busy, "sem", "-n", "1", "-k", "3", "--limit-node", "/app/limit", "--try", "/gpu", "--", "true")
	zkr(0, "sem", "-n", "1", "-k", "2", "--limit-node", "/app/limit", "--try", "/gpu", "--", "true")

	require.NoError(t, srv.Set("/app/limit", []byte("1000"))) // as a user would in zkCli
	_, errs = zkr(exit.Failure, "limit", "/app/limit")
	assert.Contains(t, errs, `/app/limit holds the text "1000"`)
	zkr(0, "limit", "/app/limit", "1000")
	out, _ = zkr(0, "limit", "/app/limit")
	assert.Equal(t, "1000\n", out)

	_, errs = zkr(exit.Usage, "limit", "/gpu", "5")
	assert.Contains(t, errs, "/gpu is a semaphore: want the node that its programs pass as --limit-node")
	for _, bad := range [][]string{
		{"limit"},
		{"limit", "relative"},
		{"limit", "/"},
		{"limit", "/app/limit", "many"},
		{"limit", "/app/limit", "2147483648"},
		{"limit", "/app/limit", "825241648"},
		{"limit", "/app/limit", "5", "6"},
		{"limit", "/app/limit", "--", "-1"},
	} {
		zkr(exit.Usage, bad...)
	}
	out, _ = zkr(0, "limit", "/app/limit")
	assert.Equal(t, "1000\n", out)
}

// TestLimit_CreatedMeanwhile: the initial limit of a missing node is never shown as that of the node.
func TestLimit_CreatedMeanwhile(t *testing.T) {
	srv := zktest.Run(t)
	srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Before(func(zktest.Request) {
		_, _ = srv.Create("/limit", []byte{0, 0, 0, 12}, zktest.Persistent)
	}))
	out, _ := ends(t, 0, srv.Addr(), "limit", "/limit")
	assert.Equal(t, "12\n", out)
}
