//go:build unix

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// logged returns the first line of the log that contains all words.
func logged(z *zkr, words ...string) string {
	for line := range strings.Lines(z.err.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return line
		}
	}
	return ""
}

// TestLog_OfAServiceTellsEachChange runs zkr without a terminal, as systemd does.
func TestLog_OfAServiceTellsEachChange(t *testing.T) {
	srv := zktest.Run(t)
	z := start(t, srv, "a", "elect", "/app/leader", "--", "sleep", "300")
	z.until(t, "started")
	srv.Cut(zktest.Label("a"))
	eventually(t, "it is connected again", func() bool {
		return logged(z.zkr, `msg="zookeeper: connected"`, "was=suspended", "server=127.0.0.1:") != ""
	})
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM))
	elected := logged(z.zkr, "level=INFO", `msg="elected at /app/leader, token `, "token=")
	assert.Regexp(t, regexp.MustCompile(`^time=20\S+Z `), elected, z.err.String())
	assert.NotEmpty(t, logged(z.zkr, "level=INFO", `msg="the program exited with status 143"`))
	assert.NotEmpty(t, logged(z.zkr, "level=INFO", `msg="resigned at /app/leader"`))
}

// TestLog_OfALossNamesTheServer: the log names the server, and the reason once.
func TestLog_OfALossNamesTheServer(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	z := start(t, srv, "a", "lock", "--session-timeout=36s", "--grace=15s", "/p", "--", "sleep", "300")
	z.until(t, "started")
	assert.Empty(t, withoutLate(z.err.String()), "cron mails it")
	srv.Refuse(zktest.Label("a"))
	srv.Cut(zktest.Label("a"))
	term := z.until(t, "term")
	text, _ := term["error"].(string)
	assert.Contains(t, text, "127.0.0.1:")
	reason, _ := term["reason"].(string)
	assert.Contains(t, []string{"deadline", "pause of zkr"}, reason, "on a busy machine, zkr may not run for a while")
	suspect := logged(z.zkr, "event=suspect") // not after such a pause
	assert.Equal(t, suspect != "", strings.Contains(suspect, "127.0.0.1:"))
	assert.Equal(t, exit.Lost, z.status(t))
	line := logged(z.zkr, `msg="asked the program to stop"`, "reason=", reason, "127.0.0.1:")
	assert.NotEmpty(t, line, z.err.String())
	assert.Equal(t, 1, strings.Count(line, reason))
}

// TestLog_OfSidecar: a candidate logs its term even without a terminal.
func TestLog_OfSidecar(t *testing.T) {
	srv := zktest.Run(t)
	_, z := sidecarClient(t, address(t, srv, "a"), "--elect", "/app/leader")
	eventually(t, "it leads", func() bool { return logged(z, "msg=elected", "path=/app/leader") != "" })
	srv.Expire(srv.SessionOf("a"))
	eventually(t, "the end of the term", func() bool {
		return logged(z, `msg="term ended"`, "path=/app/leader", "reason=", "lost (") != ""
	})
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM))
}

// TestLog_TheLastLineIsJSONToo: a consumer of JSON logs need not handle any other format.
func TestLog_TheLastLineIsJSONToo(t *testing.T) {
	for _, args := range [][]string{
		{"--log=json", "lock", "--connect-timeout=0.2", "/p", "--", "true"},
		{"--log=json", "-q", "lock", "p", "--", "true"},
		{"--log=json", "lock", "--such"},
		{"--log=json", "such"},
		{"lock", "--such", "--log", "json"},
	} {
		status, _, errs := run(t, "127.0.0.1:1", args...)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		var last struct {
			Level, Msg string
			Status     int
		}
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last), errs)
		require.Equal(t, "ERROR", last.Level)
		require.Equal(t, status, last.Status)
		require.NotEmpty(t, last.Msg)
	}
}
