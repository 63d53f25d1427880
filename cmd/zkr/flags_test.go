package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDuration_TakesSecondsToo(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.25": 250 * time.Millisecond, "1m30s": 90 * time.Second,
		"15ms": 15 * time.Millisecond,
	} {
		var d duration
		require.NoError(t, d.Set(text), text)
		assert.Equal(t, want, time.Duration(d), text)
	}
	for _, text := range []string{"", "-1", "-1s", "soon", "NaN", "Inf", "1e99"} {
		var d duration
		require.Error(t, d.Set(text), text)
	}
}

// The command line takes precedence over the environment, even if the two set different flags.
func TestFlags_ContradictEachOther(t *testing.T) {
	for _, c := range []struct {
		verb      string
		env, args []string
		says      string
	}{
		{"lock", nil, []string{"--try", "--wait=5"}, "--try and --wait: use only one of them"},
		{"lock", nil, []string{"--busy-ok", "-E", "3"}, "--busy-ok and --busy-status: use only one of them"},
		{"lock", nil, []string{"--on-loss=term", "--loss-grace=5"}, "--loss-grace and --on-loss: use only one of them"},
		{"lock", nil, []string{"--on-loss=kill", "--loss-grace=5"}, ""},
		{"lock", nil, []string{"-q", "-v"}, "--quiet and --verbose: use only one of them"},
		{"lock", nil, []string{"--once=1"}, ""},
		{"elect", nil, []string{"--once", "--restart=always"}, "--once and --restart: use only one of them"},
		{"elect", nil, []string{"--once", "--restart=never"}, ""},
		{"wait", nil, []string{"--leader=a", "--queue=2"}, "--leader and --queue: use only one of them"},
		{"lock", []string{"ZKR_TRY=true"}, []string{"--wait=5"}, ""},
		{"lock", []string{"ZKR_WAIT=5"}, []string{"--try"}, ""},
		{"lock", []string{"ZKR_WAIT=5", "ZKR_TRY=false"}, nil, ""},
		{"lock", []string{"ZKR_WAIT=5", "ZKR_TRY=true"}, nil, "--try and --wait: use only one of them"},
	} {
		t.Run(strings.Join(slices.Concat(c.env, []string{c.verb}, c.args), " "), func(t *testing.T) {
			for _, variable := range c.env {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			cmd, _, err := (&app{}).newRoot().Find([]string{c.verb})
			require.NoError(t, err)
			require.NoError(t, cmd.ParseFlags(c.args))
			err = readEnv(cmd)
			if c.says == "" {
				require.NoError(t, err)
				if len(c.args) > 0 && len(c.env) > 0 {
					assert.NotEqual(t, cmd.Flag("try").Changed, cmd.Flag("wait").Changed)
				}
				return
			}
			require.EqualError(t, err, c.says)
		})
	}
}

func TestACL_IsWrittenAsForZkCli(t *testing.T) {
	list, err := parseACL("world:anyone:r,digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:cdrwa,auth::cd")
	require.NoError(t, err)
	assert.Equal(t, []zk.ACL{
		{Perms: zk.PermRead, Scheme: "world", ID: "anyone"},
		{Perms: zk.PermAll, Scheme: "digest", ID: "user:smGaoVKd/cQkjm7b88GyorAUz20="},
		{Perms: zk.PermCreate | zk.PermDelete, Scheme: "auth", ID: ""},
	}, list)
	for _, text := range []string{
		"world", "world:anyone", "world:anyone:x", "world:anyone:", "digest:user:password:cdrwa",
		"digest::cdrwa", "",
	} {
		_, err := parseACL(text)
		require.Error(t, err, text)
	}
}

func TestContenders_AreInTheOrderOfTheirNumbers(t *testing.T) {
	assert.Equal(t, []string{"_c_b-lock-0000000007", "x__lock__0000000012", "_c_a-lock-0000000100"}, contenders([]string{
		"leases", "_c_a-lock-0000000100", "x__lock__0000000012", "_c_b-lock-0000000007", "short-12", "-lock-00000x0007",
	}))
}
