//go:build unix

package main

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// breakOf returns a function that posts to the page. Headers with empty values are omitted.
func breakOf(t *testing.T, client *http.Client) func(body string, headers ...string) (int, string) {
	t.Helper()
	return func(body string, headers ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://zkr/ui/break", strings.NewReader(body))
		require.NoError(t, err)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := client.Do(r)
		require.NoError(t, err)
		return read(t, answer)
	}
}

// keyOf reads the key that zkr wrote before it started listening.
func keyOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	return strings.TrimSpace(string(text))
}

// TestServe_TheKeyIsInNoLog: without a terminal, standard output and standard error go to the journal.
func TestServe_TheKeyIsInNoLog(t *testing.T) {
	srv := zktest.Run(t)
	out, errs := ends(t, exit.Usage, srv.Addr(), "serve", "--http", "127.0.0.1:0", "--allow-break")
	require.Empty(t, out)
	require.Contains(t, errs, "pass --break-key-file")
	_, errs = ends(t, exit.Usage, srv.Addr(), "serve", "--http", "127.0.0.1:0", "--allow-break", "--break-key-file",
		t.TempDir())
	require.Contains(t, errs, "want a regular file")
	term := inTerminal(t, command(t, srv.Addr(), "serve", "--http", "127.0.0.1:0", "--allow-break"))
	eventually(t, "the terminal shows it",
		func() bool { return strings.Contains(term.seen(), "The key for deleting contenders on the page is ") })
}

// TestServe_WrongKeys: wrong keys are logged, at most one per second, and do not lock out the right key.
func TestServe_WrongKeys(t *testing.T) {
	srv := zktest.Run(t)
	token := locked(t, srv, "/q", "web1/42").Token().String()
	file := filepath.Join(t.TempDir(), "key")
	client, z := sidecarClient(t, srv.Addr(), "--allow-break", "--break-key-file", file)
	key, post := keyOf(t, file), breakOf(t, client)
	try := func(key string) int {
		status, _ := post(`{"path":"/q","token":"`+token+`"}`, "Content-Type", "application/json", keyHeader, key)
		return status
	}
	const lines = "refused to delete a contender: the key is wrong"
	logged, last := 0, time.Time{} // when the last key was checked, or earlier
	for _, wrong := range []string{"", key[1:], "A" + key[1:] + "B"} {
		for refused := false; !refused; { // on a busy machine, the pause may be over when the second attempt arrives
			began := time.Now()
			eventually(t, "the key is looked at", func() bool {
				began = time.Now()
				return try(wrong) == http.StatusUnauthorized
			})
			require.GreaterOrEqual(t, time.Since(last), wrongKeyPause, "the last key was looked at in this time")
			logged, last = logged+1, began
			status := try(wrong)
			refused = status == http.StatusTooManyRequests
			if !refused {
				require.Equal(t, http.StatusUnauthorized, status)
				require.GreaterOrEqual(t, time.Since(last), wrongKeyPause)
				logged, last = logged+1, began
			}
			require.Equal(t, http.StatusOK, try(key))
			require.Equal(t, logged, strings.Count(z.err.String(), lines))
		}
	}
	require.NotContains(t, z.err.String(), key[1:], "no log has a key")
}

// TestServe_Break: nothing is deleted without the key, from another origin, or without confirmation.
func TestServe_Break(t *testing.T) {
	srv := zktest.Run(t)
	h := locked(t, srv, "/q", "web1/42")
	token := h.Token().String()
	file := filepath.Join(t.TempDir(), "key")
	client, z := sidecarClient(t, srv.Addr(), "--allow-break", "--break-key-file", file, "--ui-root", "/q")
	post := breakOf(t, client)
	nextEvent(t, eventsOf(t, client, "/ui/events"), `"break":true`)
	key := keyOf(t, file)
	good := []string{"Content-Type", "application/json", keyHeader, key}
	named := `"path":"/q","token":"` + token + `"`
	confirmed := "{" + named + `,"confirm":true}`
	for _, c := range []struct {
		name, body string
		headers    []string
		want       int
		words      string
	}{
		{"a form", confirmed, []string{"Content-Type", "text/plain", keyHeader, key}, http.StatusUnsupportedMediaType, ""},
		{"another site", confirmed, append(good, "Origin", "http://evil.example"), http.StatusForbidden, "cross-origin"},
		{
			"another site, as the browser says", confirmed, append(good, "Sec-Fetch-Site", "cross-site"),
			http.StatusForbidden, "cross-origin",
		},
		{"no JSON", "path=/q", good, http.StatusBadRequest, "the body"},
		{"another field", "{" + named + `,"all":true}`, good, http.StatusBadRequest, "all"},
		{"no token", `{"path":"/q","confirm":true}`, good, http.StatusBadRequest, "want the token"},
		{"no path", `{"path":"q","token":"1"}`, good, http.StatusBadRequest, "q"},
		{"beside the page", `{"path":"/qq","token":"1","confirm":true}`, good, http.StatusForbidden, "not below /q"},
		{
			"another token", `{"path":"/q","token":"7","confirm":true}`, good,
			http.StatusConflict, "no contender has the token 7",
		},
		{"alive", confirmed, good, http.StatusConflict, "anyway, tick the box"},
		{"a look", "{" + named + `}`, append(good, "Origin", "http://zkr"), http.StatusOK, `"alive":"alive"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := post(c.body, c.headers...)
			require.Equal(t, c.want, status, text)
			require.Contains(t, text, c.words)
			require.Len(t, srv.Children("/q"), 1)
		})
	}
	status, text := post("{"+named+`,"confirm":true,"alive":true,"reason":"a test"}`,
		append(good, "Sec-Fetch-Site", "same-origin")...)
	require.Equal(t, http.StatusOK, status, text)
	var answer struct {
		ID, Token, Error string
		Servers          map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	require.Equal(t, "web1/42", answer.ID)
	require.Equal(t, token, answer.Token)
	require.Empty(t, answer.Error)
	require.Equal(t, map[string]string{srv.Addr(): "deleted"}, answer.Servers)
	require.Empty(t, srv.Children("/q"))
	require.Contains(t, z.err.String(), `reason="a test"`)
	require.NotContains(t, z.err.String(), key, "no log has the key")
	<-h.Done()
}

// TestServe_BreakIsNotAllowed: without the flag, the page is read-only and shows no buttons.
func TestServe_BreakIsNotAllowed(t *testing.T) {
	srv := zktest.Run(t)
	token := locked(t, srv, "/q", "web1/42").Token().String()
	client, z := sidecarClient(t, srv.Addr())
	require.NotContains(t, nextEvent(t, eventsOf(t, client, "/ui/events")), `"break"`)
	status, text := breakOf(t, client)(`{"path":"/q","token":"`+token+`","alive":true,"confirm":true}`, "Content-Type",
		"application/json", keyHeader, "")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, text, "--allow-break")
	require.Len(t, srv.Children("/q"), 1)
	require.Empty(t, z.out.String())
}
