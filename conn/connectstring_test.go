package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseConnect_GoodStrings(t *testing.T) {
	tests := []struct {
		connect string
		servers []string
		chroot  string
	}{
		{"h1", []string{"h1:2181"}, ""},
		{"h1:2182", []string{"h1:2182"}, ""},
		{"h1:2181,h2:2182, h3 ", []string{"h1:2181", "h2:2182", "h3:2181"}, ""},
		{"h1,h2/app", []string{"h1:2181", "h2:2181"}, "/app"},
		{"h1/app/team", []string{"h1:2181"}, "/app/team"},
		{"h1/", []string{"h1:2181"}, ""},
		{"127.0.0.1:1", []string{"127.0.0.1:1"}, ""},
		{"[::1]", []string{"[::1]:2181"}, ""},
		{"[::1]:2182/x", []string{"[::1]:2182"}, "/x"},
		{"[fe80::1%eth0]:2182", []string{"[fe80::1%eth0]:2182"}, ""},
		{"h1:65535", []string{"h1:65535"}, ""},
	}
	for _, tt := range tests {
		servers, chroot, err := parseConnect(tt.connect)
		require.NoError(t, err, tt.connect)
		require.Equal(t, tt.servers, servers, tt.connect)
		require.Equal(t, tt.chroot, chroot, tt.connect)
	}
}

var badConnects = []string{
	"", " ", "/app", ",", "h1,", ",h1", "h1,,h2", "h1:", "h1:0", "h1:65536", "h1:-1", "h1:zk", ":2181", "h1:2181:2181",
	"h1//", "h1//app", "h1/app/", "h1/app/../x", "h1/a\x00b", "[::1", "::1]", "[]", "[]:2181", "[h1]", "h1]",
	"[::1]x:2181", "1:2:3:4:5:6:7:8:9", "h1 h2", "h1;h2",
}

func TestParseConnect_BadStrings_AreRefused(t *testing.T) {
	for _, connect := range badConnects {
		_, _, err := parseConnect(connect)
		require.Error(t, err, "%q", connect)
		require.ErrorContains(t, err, "connect string", "%q", connect)
	}
}

func TestParseConnect_ChrootAfterEachServer_NamesTheRightForm(t *testing.T) {
	for connect, want := range map[string]string{
		"h1:2181/a,h2:2181/a":  "want h1:2181,h2:2181/a",
		"h1/a/b,h2/a/b,h3/a/b": "want h1,h2,h3/a/b",
		"h1/a,h2/b":            "want host:port[,host:port...]/chroot",
		"h1/a,h2":              "want host:port[,host:port...]/chroot",
		"h1,h2/a,b":            "want host:port[,host:port...]/chroot",
	} {
		_, _, err := parseConnect(connect)
		require.ErrorContains(t, err, "the chroot must appear only once, after the last server: "+want, connect)
	}
}

func TestParseConnect_SchemeOrBareIPv6_NamesTheRightForm(t *testing.T) {
	for connect, want := range map[string]string{
		"zk://h1:2181/app":         "unexpected scheme zk://: want h1:2181/app",
		"zk://h1:2181,zk://h2:1/a": "unexpected scheme zk://: want h1:2181,h2:1/a",
		"http://h1":                "unexpected scheme http://: want h1",
		"h1,tcp://h2":              "unexpected scheme tcp://: want h1,h2",
		"://h1":                    "unexpected scheme ://: want h1",
		"::1":                      "an IPv6 address must be in brackets: want [address]:port, such as [::1]:2181",
		"::1:2181":                 "an IPv6 address must be in brackets: want [address]:port, such as [::1]:2181",
		"h1,fe80::1%eth0":          "an IPv6 address must be in brackets: want [address]:port, such as [::1]:2181",
		"2001:db8::1:2:2181/app":   "an IPv6 address must be in brackets: want [address]:port, such as [::1]:2181",
		"1:2:3:4:5:6:7:8:2181":     "an IPv6 address must be in brackets: want [address]:port, such as [::1]:2181",
	} {
		_, _, err := parseConnect(connect)
		require.ErrorContains(t, err, "connect string", connect)
		require.ErrorContains(t, err, want, connect)
	}
}

func FuzzParseConnect(f *testing.F) {
	for _, connect := range append(badConnects, "h1:1,h2/app", "[::1]:2181") {
		f.Add(connect)
	}
	f.Fuzz(func(t *testing.T, connect string) {
		servers, chroot, err := parseConnect(connect)
		if err != nil {
			return
		}
		require.NotEmpty(t, servers)
		for _, server := range servers {
			again, _, err := parseConnect(server)
			require.NoError(t, err, "%q", server)
			require.Equal(t, []string{server}, again)
		}
		if chroot != "" {
			require.NoError(t, ValidatePath(chroot))
		}
	})
}
