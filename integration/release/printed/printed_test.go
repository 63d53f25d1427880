// Package printed runs the commands in the README and the guides as printed, except those that need root or other
// servers.
package printed

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	block  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```|((?:^    [^\n]+\n)+)|`(go run \\./examples/[^`]+)`")
	// notHere are the commands that this test does not run, each with the reason.
	notHere = map[string]*regexp.Regexp{
		"another test does it: .ci/bare, rehearsal": regexp.MustCompile(
			`^git clone|^make test$|^cd |^mkdir clock|^go mod|^go build \.$|^\./clock$|zktestd -addr`),
		"it needs certificates, credentials or a KDC": regexp.MustCompile(
			`--(tls|http)-cert|--auth-file|--kerberos|^kadmin|^chown|^mv |^curl`),
		"it needs the directories of an installed zkr": regexp.MustCompile(`/run/zkr|/var/lib/node_exporter`),
		"it needs Docker":    regexp.MustCompile(`^docker`),
		"it sets up a shell": regexp.MustCompile(`^export `),
	}
	// endless are the commands that run until they are stopped. They get two seconds.
	endless = regexp.MustCompile(`^zkr (serve|shard)|--watch`)
)

// commands returns the commands in a document, one per line. It skips conversations and scripts.
func commands(markdown string) (all []string) {
	markdown = fenced.ReplaceAllStringFunc(markdown, func(code string) string {
		if strings.HasPrefix(code, "```sh") {
			return code
		}
		return ""
	})
	for _, b := range block.FindAllStringSubmatch(markdown, -1) {
		printed := strings.ReplaceAll(b[1]+b[2]+b[3], "\\\n", "")
		if strings.HasPrefix(printed, "    $ ") || strings.HasPrefix(printed, "#!") {
			continue
		}
		for line := range strings.Lines(printed) {
			if line = strings.TrimPrefix(strings.TrimRight(line, "\n"), "    "); line != "" {
				all = append(all, line)
			}
		}
	}
	return all
}

func reasonAgainst(command string) string {
	for reason, of := range notHere {
		if of.MatchString(command) {
			return reason
		}
	}
	return ""
}

func TestCommands_RunAsPrinted(t *testing.T) {
	need.Asked(t, "minutes")
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	bin := t.TempDir()
	for _, name := range []string{"nightly", "report", "worker", "consume", "train", "orders-server"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("GOBIN", bin)
	run(t, root, "go install ./cmd/zktestd && go -C cmd/zkr install .", time.Minute*5)

	server := exec.CommandContext(t.Context(), "zktestd", "-detached")
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		assert.NoError(t, server.Process.Kill())
		_ = server.Wait() // killed
	})
	ready := make([]byte, len("ready 127.0.0.1:65535\n"))
	n, err := out.Read(ready)
	require.NoError(t, err)
	t.Setenv("ZKR_SERVERS", strings.TrimSpace(strings.TrimPrefix(string(ready[:n]), "ready ")))
	t.Setenv("ZKR_HTTP", "127.0.0.1:0")
	for _, made := range []string{"/locks/uploads-limit", "/gpu-limit"} { // their guides assume a limit that is set
		run(t, root, "zkr limit "+made+" 8", time.Minute)
	}

	seen := 0
	documents := []string{"README.md", "docs/README.md", "docs/operations.md", "docs/zktest.md"}
	guides, err := filepath.Glob(filepath.Join(root, "docs/guides/*.md"))
	require.NoError(t, err)
	for _, guide := range guides {
		documents = append(documents, "docs/guides/"+filepath.Base(guide))
	}
	for _, name := range documents {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, command := range commands(string(text)) {
			t.Run(name+": "+command, func(t *testing.T) {
				if reason := reasonAgainst(command); reason != "" {
					t.Skip(reason)
				}
				seen++
				dir := root
				if strings.HasPrefix(command, "zkr ") {
					dir = bin
				}
				run(t, dir, command, 2*time.Minute)
			})
		}
	}
	require.Greater(t, seen, 15, "commands were found")
}

// run runs a command in a shell. It must succeed within limit or, if it is endless, run until it is stopped.
func run(t *testing.T, dir, command string, limit time.Duration) {
	t.Helper()
	if endless.MatchString(command) {
		limit = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	shell.Dir, shell.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.WaitDelay = 10 * time.Second
	out, err := shell.CombinedOutput()
	if endless.MatchString(command) && ctx.Err() != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return
	}
	require.NoError(t, err, "%s\n%s", command, out)
}
