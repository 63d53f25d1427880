package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestRun_TellsTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), nil, &out), "%s", &out)
		t.Logf("\n%s", &out)
		require.NotContains(t, out.String(), "fails")
		require.Contains(t, out.String(), "ben       refused")
		_, joined, _ := strings.Cut(out.String(), "-- dora joins")
		joined, frozen, _ := strings.Cut(joined, "-- ben is frozen")
		require.Equal(t, 2, strings.Count(joined, "starts"), "two of eight move")
		require.Equal(t, 2, strings.Count(joined, "stops"))
		frozen, _, _ = strings.Cut(frozen, "-- ben wakes up")
		require.NotContains(t, frozen, "ben")
		_, afterCrash, _ := strings.Cut(out.String(), "-- cleo crashes")
		require.NotContains(t, afterCrash, "s  cleo ")
	})
}

// The second process continues where the first one stopped.
func TestRun_OneMemberAfterTheOther(t *testing.T) {
	srv := zktest.Run(t)
	var offset int
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		out := &watched{until: "event=starts", interrupt: cancel}
		require.NoError(t, run(ctx, []string{
			"-servers", srv.Addr() + "/no/such", "-id", "me", "-partitions", "1", "-work",
			"1ms",
		}, out))
		_, starts, found := strings.Cut(out.out.String(), "event=starts partition=p0 offset=")
		require.True(t, found, &out.out)
		var at int
		_, err := fmt.Sscan(starts, &at)
		require.NoError(t, err)
		require.Equal(t, offset, at)
		_, stops, found := strings.Cut(starts, "event=stops partition=p0 offset=")
		require.True(t, found, &out.out)
		_, err = fmt.Sscan(stops, &offset)
		require.NoError(t, err)
	}
}

// watched interrupts the program when a line is printed. The journal writes one line at a time.
type watched struct {
	out       bytes.Buffer
	until     string
	interrupt func()
}

func (w *watched) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(w.until)) {
		w.interrupt()
	}
	return w.out.Write(line)
}

func TestParse(t *testing.T) {
	for args, says := range map[string]string{
		"-nonsense": "not defined", "-partitions 0": "want more than 0", "now": "unexpected argument",
		"-id x":          "needs -servers",
		"-path relative": "flag -path",
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says)
	}
}
