package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A resumption without an answer may have shortened the session. The answer to the next one came from a leader that had
// been replaced: the successor applies the short timeout. Any answer used to end the doubt. Only what proves the later
// resumption may.
func TestProof_LaterResumption_EndsTheDoubtOnceItIsProven(t *testing.T) {
	resumeTwice := func() *Upkeep {
		u := New(Terms{LeastTimeout: 4 * time.Second})
		u.connected(at(0), at(0.01), 8*time.Second, time.Second, 0)
		u.Resuming(at(2))
		u.Resuming(at(3))
		require.Equal(t, at(6), u.ValidUntil())
		u.connected(at(3), at(3.01), 8*time.Second, time.Second, 0)
		require.Equal(t, at(6), u.ValidUntil(), "the leader that answered may have been replaced")
		return &u
	}
	for name, tt := range map[string]struct {
		sent  float64
		by    Witness
		valid float64
	}{
		"a write":                  {3.02, Quorum, 11},
		"a sync, a lag later":      {4.02, Leader, 11},
		"a sync that is too early": {3.02, Leader, 6},
		"a write from before":      {2.9, Quorum, 6},
		"an answer of any server":  {5, AnyServer, 6},
	} {
		t.Run(name, func(t *testing.T) {
			u := resumeTwice()
			u.Answered(at(tt.sent), at(tt.sent+0.01), tt.by)
			require.Equal(t, at(tt.valid), u.ValidUntil())
		})
	}
}
