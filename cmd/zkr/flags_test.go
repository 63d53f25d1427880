package main

import (
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
