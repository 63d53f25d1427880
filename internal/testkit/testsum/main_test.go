package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSummary(t *testing.T) {
	var s summary
	require.NoError(t, s.read(strings.NewReader(`not JSON
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: root: runs with REQUIRE_REAL=1 alone\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB/x","Output":"    a_test.go:9: want 1\n"}
{"Action":"fail","Package":"p","Test":"TestB/x"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"without tests"}
{"ImportPath":"q","Action":"build-output","Output":"q.go:1: not Go\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"fail","Package":"q"}
`)))
	assert.Equal(t, `
skipped:
    1  root: runs with REQUIRE_REAL=1 alone

--- FAIL: p.TestB/x
    a_test.go:9: want 1

--- FAIL: q
q.go:1: not Go

2 failed
`, s.String())
}

// TestSummary_OfAnEarlyEnd: no test has failed, but one has the output of the panic.
func TestSummary_OfAnEarlyEnd(t *testing.T) {
	var s summary
	require.NoError(t, s.read(strings.NewReader(`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"panic: in a goroutine\n"}
{"Action":"output","Package":"p","Output":"FAIL p\n"}
{"Action":"fail","Package":"p"}
`)))
	assert.Equal(t, `
--- FAIL: p.TestB did not end
=== RUN TestB
panic: in a goroutine

1 failed
`, s.String())
}

func TestSummary_OfSuccess(t *testing.T) {
	var s summary
	require.NoError(t, s.read(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA"}`)))
	assert.Empty(t, s.String())
}
