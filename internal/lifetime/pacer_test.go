package lifetime

import (
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"
)

// While a hold's time runs out, pauses are half as long. They still vary, otherwise the clients of a recovered server
// would all connect at once. The pauses of a user's policy are left unchanged.
func TestPauses_WithAHold_AreHalfAsLong(t *testing.T) {
	t.Parallel()
	const timeout = 12 * time.Second
	longest := func(l *Lifetime) (least, most time.Duration) {
		policy := l.newBackOff()
		for range 50 { // until they stop growing
			policy.NextBackOff()
		}
		least = time.Hour
		for range 1000 {
			d := policy.NextBackOff()
			least, most = min(least, d), max(most, d)
		}
		return least, most
	}
	opts := &Config{SessionTimeout: timeout}
	l := &Lifetime{opts: opts, ensemble: NewEnsemble(opts), up: make(chan struct{})}
	for _, tt := range []struct {
		holds       map[*lossCallback]struct{}
		policy      func() BackOff
		least, most time.Duration
	}{
		{nil, nil, timeout / 12, timeout / 4},
		{map[*lossCallback]struct{}{{}: {}}, nil, timeout / 24, timeout / 8},
		{
			map[*lossCallback]struct{}{{}: {}},
			func() BackOff { return backoff.NewConstantBackOff(time.Second) }, time.Second,
			time.Second,
		},
	} {
		l.callbacks, opts.NewBackOff = tt.holds, tt.policy
		least, most := longest(l)
		require.InDelta(t, tt.least, least, float64(timeout/100))
		require.InDelta(t, tt.most, most, float64(timeout/100))
	}
}
