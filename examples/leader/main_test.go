package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/fakehold"
)

var (
	event = regexp.MustCompile(
		`^ *\d+\.\d{3} s  (anna|ben|cleo) +(candidate|elected|resigned|lost|leader|outdated|stopped)( +token \d+)?( +leader \S+)?( +asof \S+)?( +reason \S+)?$`)
	action = regexp.MustCompile(`^ *\d+\.\d{3} s  -- [a-z ]+`)
)

func TestStory(t *testing.T) {
	for flags, views := range map[string]bool{"": false, "-v": true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			from := time.Now()
			require.NoError(t, run(t.Context(), strings.Fields(flags), &out))
			require.Less(t, time.Since(from), storyBound)
			story, ok := strings.CutPrefix(out.String(), legend)
			require.True(t, ok, out.String())
			var plot []string
			var last float64
			for line := range strings.Lines(story) {
				line = strings.TrimSuffix(line, "\n")
				if !event.MatchString(line) {
					require.Regexp(t, action, line)
				}
				at, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
				require.NoError(t, err)
				require.GreaterOrEqual(t, at, last, "in the order in which things happened")
				last = at
				if what := strings.Fields(line)[3]; slices.Contains([]string{"elected", "resigned", "lost"}, what) {
					plot = append(plot, what)
				}
			}
			require.Equal(t, []string{
				"elected", "resigned", "elected", "elected", "lost", "elected", "resigned",
				"elected", "resigned",
			}, plot)
			require.Equal(t, views, strings.Contains(story, " leader none\n"), "what each candidate sees")
		})
	}
}

// errSignal is the cause of a context that a signal has ended. With some releases of Go 1.26 it does not match
// context.Canceled.
var errSignal = errors.New("interrupt signal received")

func TestStory_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted, interrupt := context.WithTimeoutCause(t.Context(), 2*time.Second, errSignal)
		defer interrupt()
		from := time.Now()
		require.NoError(t, run(interrupted, nil, &bytes.Buffer{}))
		require.Less(t, time.Since(from), 3*time.Second)
	})
}

// Two live holds are two leaders.
func TestReferee(t *testing.T) {
	var r referee
	a, b, c := fakehold.New(t.Context(), 1), fakehold.New(t.Context(), 2), fakehold.New(t.Context(), 3)
	r.elected("a", &election.Term{Hold: a.Hold})
	a.Lose(zkrecipes.LossExpired)
	r.elected("b", &election.Term{Hold: b.Hold})
	require.NoError(t, r.verdict())
	r.elected("c", &election.Term{Hold: c.Hold})
	require.ErrorContains(t, r.verdict(), "two leaders: b with token 2, and c with token 3")
}

// TestHTTP uses sockets, as in a terminal.
func TestHTTP(t *testing.T) {
	srv := zktest.Run(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	out, write := io.Pipe()
	done := make(chan error)
	go func() {
		done <- run(ctx, []string{"-servers", srv.Addr(), "-id", "anna", "-http", "127.0.0.1:0"}, write)
	}()
	lines := bufio.NewScanner(out)
	next := func(event string) string {
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), " event="+event); ok {
				return strings.TrimSpace(rest)
			}
		}
		t.Fatal("no line says " + event)
		return ""
	}
	address, _ := strings.CutPrefix(next("serving"), "http=")
	next("elected")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	for _, path := range []string{"/readyz", "/leader", "/self"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
	}
	interrupt(errSignal)
	require.NoError(t, <-done)
	_, err := net.Dial("tcp", address)
	require.Error(t, err, "stopped")
	require.ErrorContains(t, run(t.Context(), []string{"-servers", srv.Addr(), "-http", "nowhere"}, io.Discard),
		"flag -http: ")
}

func TestParse(t *testing.T) {
	for args, says := range map[string]string{
		"-nonsense":                    "not defined",
		"-servers x -resign-after -1s": "want 0 or more",
		"-path here":                   "relative",
		"-servers= x":                  "unexpected argument",
		"-servers=":                    "want host:port",
		"-session-timeout tomorrow":    "invalid value",
		"-follow":                      "needs -servers",
		"-id x":                        "needs -servers",
		"-http :0":                     "needs -servers",
		"-servers localhost:2181 now":  "unexpected argument",
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says, args)
		require.NotContains(t, err.Error(), "\n")
	}
	require.ErrorIs(t, run(t.Context(), []string{"-h"}, &bytes.Buffer{}), flag.ErrHelp)
}

// No timer has ended the term yet, as in a process that was frozen. The candidate reports that it has lost the term,
// not that it has resigned.
func TestLead_WokenAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := candidate{id: "a", journal: demo.NewJournal(&out), resignAfter: time.Second}
		h := fakehold.New(t.Context(), 1)
		h.SetValidUntil(time.Now().Add(time.Second))
		require.NoError(t, c.lead(h.Context(), &election.Term{Hold: h.Hold}))
		require.Contains(t, out.String(), "lost")
		require.NotContains(t, out.String(), "resigned")
	})
}
