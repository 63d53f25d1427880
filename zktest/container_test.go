package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContainer_Empty_GoesAtTheNextCheckIfItWasEverUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		for _, path := range []string{"/used", "/unused", "/full"} {
			require.Equal(t, CodeOK, r.do(OpCreateContainer, createBody(path, Container)))
		}
		r.make("/used/x", Persistent)
		r.make("/full/x", Persistent)
		r.run(OpDelete, versionBody("/used/x", -1))
		time.Sleep(time.Minute - 1)
		require.True(t, s.Exists("/used"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.False(t, s.Exists("/used"))
		require.True(t, s.Exists("/unused"))
		require.True(t, s.Exists("/full"))
		last := s.History()[len(s.History())-1]
		require.Equal(t, OpDeleteContainer, last.Op)
		require.Zero(t, last.Session)
	}, WithSessionTimeouts(10*time.Hour, 10*time.Hour))
}

func TestReap_MadeAnew_CountsFromZeroUnderALargerCzxid(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		var before Node
		for i := range 2 {
			require.Equal(t, CodeOK, r.do(OpCreateContainer, createBody("/c", Container)))
			n, _ := s.Node("/c")
			require.Zero(t, n.Stat.EphemeralOwner, "no Stat tells a container")
			require.Greater(t, n.Stat.Czxid, before.Stat.Czxid)
			before = n
			path, _ := r.create("/c/n-", EphemeralSequential)
			require.Equal(t, "/c/n-0000000000", path)
			r.run(OpDelete, versionBody(path, -1))
			if i == 0 {
				require.Equal(t, []string{"/c"}, s.Reap())
			}
		}
	})
}

func TestContainer_NeverUsed_GoesIfAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithMaxNeverUsed(2*time.Minute))
		_, err := s.Create("/c", nil, Container)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.True(t, s.Exists("/c"))
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		require.False(t, s.Exists("/c"))
	})
}

func TestTTL_GoesWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		require.Equal(t, CodeBadArguments, r.do(OpCreateTTL, createTTLBody("/t", PersistentTTL, 0)))
		require.Equal(t, CodeBadArguments, r.do(OpCreateTTL, createTTLBody("/t", Persistent, 5)))
		require.Equal(t, CodeOK, r.do(OpCreateTTL, createTTLBody("/t", PersistentTTL, 90_000)))
		n, _ := s.Node("/t")
		require.Equal(t, 90*time.Second, n.TTL)
		require.Zero(t, n.Stat.EphemeralOwner)
		time.Sleep(2*time.Minute - 1)
		require.True(t, s.Exists("/t"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.False(t, s.Exists("/t"))
	}, WithExtendedTypes())
}

func TestWithoutContainers_UnimplementedAndCut(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		require.Equal(t, CodeUnimplemented, r.do(OpCreateContainer, createBody("/c", Container)))
		r.closed()
	}, WithoutContainers())
}

func TestCreate_ContainerFlagUnderThePlainCode_IsPersistentAndAMisuse(t *testing.T) {
	var found []error
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), OnViolation(func(err error) { found = append(found, err) }))
		r := attachRaw(t, s, "", 10*time.Second)
		r.make("/c", Container)
		n, _ := s.Node("/c")
		require.False(t, n.Container)
	})
	require.Len(t, found, 1)
	require.ErrorIs(t, found[0], ErrMisuse)
}
