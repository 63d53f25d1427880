package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

var logfmt = regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S+ id=\S+ ` +
	`event=(candidate|elected|resigned|lost|leader|stopped)( token=\d+)?( leader=\S+)?( reason=\S+)?$`)

func TestStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		from := time.Now()
		require.NoError(t, run(t.Context(), nil, &out))
		require.Less(t, time.Since(from), storyBound)
		var plot []string
		for line := range strings.Lines(out.String()) {
			require.Regexp(t, logfmt, strings.TrimSuffix(line, "\n"))
			for _, event := range []string{"elected", "resigned", "lost"} {
				if strings.Contains(line, "event="+event) {
					plot = append(plot, event)
				}
			}
		}
		require.Equal(t, []string{
			"elected", "resigned", "elected", "elected", "lost", "elected", "resigned",
			"elected", "resigned",
		}, plot)
	})
}

func TestStory_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted, interrupt := context.WithTimeoutCause(t.Context(), 2*time.Second, context.Canceled)
		defer interrupt()
		from := time.Now()
		require.NoError(t, run(interrupted, nil, &bytes.Buffer{}))
		require.Less(t, time.Since(from), 3*time.Second)
	})
}

// TestReferee: two holds that both live are two leaders.
func TestReferee(t *testing.T) {
	var r referee
	a, endA := zkrecipes.NewHold(t.Context(), grant{token: 1})
	b, _ := zkrecipes.NewHold(t.Context(), grant{token: 2})
	r.elected("a", &election.Term{Hold: a})
	endA(&zkrecipes.LostError{Reason: zkrecipes.LossExpired})
	r.elected("b", &election.Term{Hold: b})
	require.NoError(t, r.verdict())
	c, _ := zkrecipes.NewHold(t.Context(), grant{token: 3})
	r.elected("c", &election.Term{Hold: c})
	require.ErrorContains(t, r.verdict(), "two leaders: b with token 2, and c with token 3")
}

type grant struct {
	zkrecipes.Grant
	token zkrecipes.Token
}

func (g grant) Token() zkrecipes.Token { return g.token }
func (grant) Path() string             { return "/x" }
func (grant) ValidUntil() time.Time    { return time.Now().Add(time.Hour) }

func TestParse(t *testing.T) {
	for args, says := range map[string]string{
		"-nonsense":                   "not defined",
		"-resign-after -1s":           "want 0 or more",
		"-path here":                  "relative",
		"-servers= x":                 "unexpected argument",
		"-servers=":                   "want host:port",
		"-session-timeout tomorrow":   "invalid value",
		"-h":                          "see the flags",
		"-servers localhost:2181 now": "unexpected argument",
	} {
		_, err := parse(strings.Fields(args))
		require.ErrorContains(t, err, says, args)
		require.NotContains(t, err.Error(), "\n")
	}
	c, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, "/qconf/backup/zk_local", c.path)
}
