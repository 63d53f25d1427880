//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestCompletion: a shell gets the nodes below what was typed, and nothing if no server answers.
func TestCompletion(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	nodes(t, srv, "",
		"/jobs", "/jobs/nightly", "/jobs/nights", "/jobs/daily", "/jobs/_c_a-lock-0000000001", "/app",
		"/quotes", "/quotes/a b", "/quotes/$(id)", "/quotes/a;b", "/quotes/it's", "/quotes/a.b:c@d%e+f=g-h_i", "/many")
	var most []string
	for i := range completionMost + 1 {
		most = append(most, fmt.Sprintf("/many/n%03d", i))
	}
	nodes(t, srv, "", most...)
	complete := func(words ...string) (paths []string) {
		t.Helper()
		out, _ := ends(t, 0, srv.Addr(), append([]string{"__completeNoDesc"}, words...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		return lines[:len(lines)-1] // the last line is a directive for the shell
	}
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"status", ""}, []string{"/"}},
		{[]string{"status", "/"}, []string{"/app", "/jobs", "/many", "/quotes"}},
		{[]string{"lock", "/jo"}, []string{"/jobs"}},
		{[]string{"lock", "--try", "/jobs/"}, []string{"/jobs/daily", "/jobs/nightly", "/jobs/nights"}},
		{[]string{"lock", "--path", "/jobs/n"}, []string{"/jobs/nightly", "/jobs/nights"}},
		{[]string{"serve", "--elect", "/jobs/d"}, []string{"/jobs/daily"}},
		{[]string{"status", "-r", "/app", "/j"}, []string{"/jobs"}},
		{[]string{"status", "/quotes/"}, []string{"/quotes/a.b:c@d%e+f=g-h_i"}},
		{[]string{"status", "/many/"}, most[:completionMost]},
		{[]string{"break", "/jobs", "/"}, []string{}},
		{[]string{"status", "/nothing/"}, []string{}},
		{[]string{"status", "--servers", "127.0.0.1:1", "/"}, []string{}},
	} {
		for deadline := time.Now().Add(30 * time.Second); ; { // a busy machine may take longer than a shell waits
			got := complete(c.words...)
			if slices.Equal(got, c.want) || time.Now().After(deadline) {
				require.Equal(t, c.want, got, "%q", c.words)
				break
			}
		}
	}
	_, out, errs := run(t, "127.0.0.1:1", "__completeNoDesc", "status", "/")
	require.Equal(t, ":6\n", out)
	require.NotContains(t, errs, "refused")
}
