package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMembersOf_AddressesForClients(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]struct{ plain, secure []string }{
		"zk1:2888:3888:participant;zk1.pub:2181":         {[]string{"zk1.pub:2181"}, nil},
		"zk1:2888:3888;2181":                             {[]string{"zk1:2181"}, nil},
		"zk1:2888:3888:observer;0.0.0.0:2181":            {[]string{"zk1:2181"}, nil},
		"[fd00::1]:2888:3888;[0:0:0:0:0:0:0:0]:2181":     {[]string{"[fd00::1]:2181"}, nil},
		"a:1:2|b:1:2|[::1]:1:2:participant;0.0.0.0:2181": {[]string{"a:2181", "b:2181", "[::1]:2181"}, nil},
		"a:1:2|0.0.0.0:1:2;2181":                         {[]string{"a:2181"}, nil},
		"zk1:2888:3888:participant;zk1:2181;zk1:2281":    {[]string{"zk1:2181"}, []string{"zk1:2281"}},
		"zk1:2888:3888:participant;;0.0.0.0:2281":        {nil, []string{"zk1:2281"}},
		"zk1:2888:3888:participant":                      {nil, nil}, // a static configuration
	} {
		secure := want.secure
		if secure == nil {
			secure = want.plain
		}
		version, servers, err := membersOf("server.1="+server+"\ngroup.1=1\nversion=1000000ab", false)
		require.NoError(t, err, server)
		require.EqualValues(t, int64(0x1000000ab), version)
		require.Equal(t, want.plain, servers, server)
		_, servers, err = membersOf("server.1="+server, true)
		require.NoError(t, err, server)
		require.Equal(t, secure, servers, server)
	}
}

func TestMembersOf_BadServers_AreLeftOut(t *testing.T) {
	t.Parallel()
	for _, server := range []string{
		"0.0.0.0:1:2;2181", "a:1:2;b:0", "a:1:2;x", "a:1:2;b:c:d", ";2181", "a:1:2;[b",
		"a b:1:2;2181", "|;1",
	} {
		_, servers, err := membersOf("server.1="+server+"\nserver.2=zk2:1:2;2181\nversion=0", false)
		require.Error(t, err, server)
		require.Equal(t, []string{"zk2:2181"}, servers, server)
	}
	_, servers, err := membersOf("server.1=a:1:2;2181\nversion=zz", false)
	require.Error(t, err)
	require.Empty(t, servers)
}

func FuzzMembersOf(f *testing.F) {
	f.Add("server.1=a:1:2|[::1]:1:2:participant;0.0.0.0:2181;2281\nversion=1", true)
	f.Fuzz(func(t *testing.T, config string, secure bool) {
		_, servers, _ := membersOf(config, secure)
		for _, server := range servers {
			again, err := withPort(server)
			require.NoError(t, err)
			require.Equal(t, server, again)
		}
	})
}
