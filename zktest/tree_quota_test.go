package zktest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// setQuota creates the nodes that ZooKeeper's shell creates, and returns a function that reads the usage.
func setQuota(t *testing.T, s *Server, path, limits string) func() string {
	t.Helper()
	for _, n := range [][2]string{
		{path, ""},
		{path + "/zookeeper_limits", limits},
		{path + "/zookeeper_stats", "count=0,bytes=0"},
	} {
		_, err := s.Create("/zookeeper/quota"+n[0], []byte(n[1]), Persistent)
		require.NoError(t, err)
	}
	return func() string {
		n, _ := s.Node("/zookeeper/quota" + path + "/zookeeper_stats")
		require.Zero(t, n.Stat.Version)
		return string(n.Data)
	}
}

func TestQuota_CountsNodesAndBytesBelowItsPath(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/a", Persistent)
		r.make("/a/x", Persistent)
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/a/x", []byte("12345"), -1)))
		used := setQuota(t, s, "/a", "count=1,bytes=1=;byteHardLimit=1;countHardLimit=1")
		require.Equal(t, "count=2,bytes=5", used())
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/a/x", []byte("123"), -1)), "not enforced")
		r.make("/a/x/y", Ephemeral)
		r.make("/ab", Persistent)
		require.Equal(t, "count=3,bytes=3", used())
		r.run(OpCloseSession, nil)
		require.Equal(t, "count=2,bytes=3", used())
		require.NoError(t, s.Delete("/zookeeper/quota/a/zookeeper_limits"))
		require.NoError(t, s.Delete("/a/x"))
		require.Equal(t, "count=2,bytes=3", used())
	})
}

func TestQuota_HardLimitsEnforced_RefuseCreatesAndSets(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/a", Persistent)
		setQuota(t, s, "/a", "count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=2")
		r.make("/a/x", Persistent)
		_, code := r.create("/a/y", Persistent)
		require.Equal(t, CodeQuotaExceeded, code)
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/a", []byte("1234"), -1)))
		require.Equal(t, CodeQuotaExceeded, r.do(OpSetData, setBody("/a/x", []byte("5"), 77)), "before the version")
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/a", []byte("432"), -1)))
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/a/x", []byte("5"), -1)))
	}, WithQuotas())
}
