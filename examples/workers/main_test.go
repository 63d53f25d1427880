package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestRun_TellsTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-v"}, &out), "%s", &out)
		for _, part := range []string{"cleo      outdated", "anna      leaves", "@anna:8080", "-- the end"} {
			require.Contains(t, out.String(), part)
		}
		_, afterCrash, _ := strings.Cut(out.String(), "-- ben crashes")
		require.NotContains(t, afterCrash, "s  ben ")
		require.NotContains(t, out.String(), "fails")
	})
}

// The chroot does not exist yet.
func TestRun_OneWorkerBelowAMissingChroot(t *testing.T) {
	srv := zktest.Run(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &firstShare{interrupt: cancel}
	require.NoError(t, run(ctx, []string{"-servers", srv.Addr() + "/no/such", "-id", "me", "-parts", "3"}, out))
	require.Contains(t, out.out.String(), "id=me event=takes parts=0,1,2")
	require.Contains(t, out.out.String(), "id=me event=leaves")
}

// firstShare interrupts the program when a share is printed. The journal writes one line at a time.
type firstShare struct {
	out       bytes.Buffer
	interrupt func()
}

func (f *firstShare) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("event=takes")) {
		f.interrupt()
	}
	return f.out.Write(line)
}

func TestShare_OnlyThePartsOfAMemberMove(t *testing.T) {
	members := make([]group.Member, 8)
	for i := range members {
		members[i].ID = fmt.Sprintf("w%d", i)
	}
	moved := 0
	for part := range 1000 {
		before, after := owner(members[:7], part), owner(members, part)
		if before != after {
			require.Equal(t, "w7", after)
			moved++
		}
	}
	require.InDelta(t, 125, moved, 40)
	require.Empty(t, owner(nil, 1))
}

func TestParse(t *testing.T) {
	for args, says := range map[string]string{
		"-nonsense": "not defined", "-parts 0": "want 1 or more", "now": "unexpected argument", "-id x": "needs -servers",
		"-path relative": "flag -path",
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says)
	}
}
