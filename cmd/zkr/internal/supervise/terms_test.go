package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestTerms_AStartThatIsLateEndsOnlyTheTerm: zkr was stopped between the grant and the start of the program.
func TestTerms_AStartThatIsLateEndsOnlyTheTerm(t *testing.T) {
	client, err := conn.Dial(t.Context(), zktest.Run(t).Addr())
	require.NoError(t, err)
	r := &Runner{options: Options{Grace: -1, Lead: -1, Wait: -1}, client: client, signals: &signals.Signals{}}
	r.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
	require.NoError(t, err)
	defer r.Close()
	terms, last := 0, errors.New("last")
	campaign := func(context.Context) (*Grant, error) {
		if terms++; terms == 1 {
			return nil, exit.With(exit.Lost, &os.PathError{Op: "start", Path: "/bin/true", Err: child.ErrLate})
		}
		return nil, last
	}
	_, err = r.Terms(t.Context(), &Target{Kind: leader, Paths: []string{"/e"}, Lock: campaign},
		func(end Ending) bool { return end.Lost })
	require.ErrorIs(t, err, last)
}
