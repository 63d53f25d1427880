package layout_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/layout"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const guid = "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-"
	for _, c := range []struct {
		name  string
		kinds []string
		kind  string // "" if it is not a contender
		key   string
	}{
		{guid + "lock-0000000007", []string{layout.Lock}, layout.Lock, "0000000007"},
		// go-zookeeper's
		{"_c_dcfc722b2ef15eb50e062a63be57c85c-lock-0000000000", []string{layout.Lock}, layout.Lock, "0000000000"},
		{"lock-0000000001", []string{layout.Lock}, layout.Lock, "0000000001"},
		{guid + "lock-lock-0000000001", []string{layout.Lock}, layout.Lock, "0000000001"},
		{guid + "lock--2147483648", []string{layout.Lock}, layout.Lock, "-2147483648"},
		{guid + "latch-0000000003", []string{layout.Lock}, "", ""},
		{guid + "latch-0000000003", []string{layout.Latch}, layout.Latch, "0000000003"},
		{guid + "__READ__0000000002", []string{layout.Read, layout.Write}, layout.Read, "0000000002"},
		{guid + "__WRIT__0000000002", []string{layout.Read, layout.Write}, layout.Write, "0000000002"},
		{"0", []string{layout.Lock}, "", ""},
		{"zzz", []string{layout.Lock}, "", ""},
		{"_c_x", []string{layout.Lock}, "", ""},
		{"_c_", []string{layout.Lock}, "", ""},
		{"lock-", []string{layout.Lock}, "", ""},
		{"lock-0", []string{layout.Lock}, "", ""},
		{"clock-sync", []string{layout.Lock}, "", ""},
		{"deadlock-detector", []string{layout.Lock}, "", ""},
		{"lock-00000000001", []string{layout.Lock}, "", ""},
		{"lock--00000000001", []string{layout.Lock}, "", ""},
		{"lock-000000000-", []string{layout.Lock}, "", ""},
		{"clock-0000000001", []string{layout.Lock}, layout.Lock, "0000000001"}, // the name alone does not reveal more
		{guid + "lock--000000001", []string{layout.Lock}, layout.Lock, "-000000001"},
		{"5a3b__lock__0000000001", []string{layout.Lock}, "", ""}, // kazoo's
		{"5a3b__lock__0000000001", []string{layout.Lock, layout.KazooLock}, layout.KazooLock, "0000000001"},
		{guid + "lock-0000000007", []string{layout.Lock, layout.KazooLock}, layout.Lock, "0000000007"},
		{"5a3b__rlock__0000000001", []string{layout.Lock, layout.KazooLock}, "", ""},
		{
			"5a3b__rlock__0000000001",
			[]string{layout.Read, layout.Write, layout.KazooRead, layout.KazooLock},
			layout.KazooRead,
			"0000000001",
		},
		{
			"5a3b__lock__0000000001",
			[]string{layout.Read, layout.Write, layout.KazooRead, layout.KazooLock},
			layout.KazooLock,
			"0000000001",
		},
		{"5a3b__lock__x", []string{layout.Lock, layout.KazooLock}, "", ""},
		{guid + "lease-0000000001", []string{layout.Lease, layout.KazooLease}, layout.Lease, "0000000001"},
		{"5a3b9c", []string{layout.Lease, layout.KazooLease}, layout.KazooLease, ""},
		{"any*0000000001", []string{layout.Lease, layout.KazooLease}, layout.KazooLease, ""},
		{"0000000001", []string{layout.Lock}, "", ""}, // a number alone has no kind
		{"0000000001", []string{layout.Lease, layout.KazooLease}, layout.KazooLease, ""},
	} {
		got, ok := layout.Parse(c.name, c.kinds...)
		require.Equal(t, c.kind != "", ok, c.name)
		if ok {
			require.Equal(t, layout.Contender{Name: c.name, Kind: c.kind, Key: c.key}, got)
		}
	}
}

func TestParse_OfUnknownKind(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"x-lock-0000000001": layout.Lock, "x-latch-0000000001": layout.Latch, "x-__READ__0000000001": layout.Read,
		"x-__WRIT__0000000001": layout.Write, "x-lease-0000000001": layout.Lease, "x__lock__0000000001": layout.KazooLock,
		"x__rlock__0000000001": layout.KazooRead, "5a3b9c": "", "leases": "", "n_0000000001": "",
	} {
		c, ok := layout.Parse(name)
		require.Equal(t, kind != "", ok, name)
		if ok {
			require.Equal(t, kind, c.Kind)
		}
	}
	require.True(t, layout.LooksSequential("n_0000000001"))
	require.False(t, layout.LooksSequential("leases"))
}

// An index of -1 means that the contender holds.
func TestAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		ahead []int
	}{
		{[]string{"lock-0000000003", "lock-0000000001", "lock-0000000002"}, []int{-1, 0, 1}},
		{[]string{"latch-0000000001", "lock-0000000002"}, []int{-1, 0}},
		{[]string{
			"__READ__0000000001", "__READ__0000000002", "__WRIT__0000000003", "__READ__0000000004",
			"__READ__0000000005",
		}, []int{-1, -1, 1, 2, 2}},
		{[]string{"__WRIT__0000000001", "__READ__0000000001", "__READ__0000000002"}, []int{-1, -1, 0}}, // a downgraded writer
		{[]string{"x__lock__0000000001", "x__rlock__0000000002", "__READ__0000000003"}, []int{-1, 0, 0}},
		{[]string{"lease-0000000001", "lease-0000000002"}, []int{-1, -1}},
		{[]string{"5a3b", "9c1d", "lease-0000000001"}, []int{-1, -1, -1}}, // kazoo's leases have no key
		// The sequence has run out, so equal keys mean nothing.
		{[]string{"x-lock-2147483647", "y-lock-2147483647"}, []int{-1, 0}},
		{[]string{"__WRIT__2147483647", "__READ__2147483647"}, []int{-1, 0}},
		{[]string{"x__READ__2147483647", "y__READ__2147483647"}, []int{-1, -1}},
	} {
		var queue []layout.Contender
		for _, name := range c.names {
			contender, ok := layout.Parse(name)
			if !ok {
				contender, ok = layout.Parse(name, layout.KazooLease)
			}
			require.True(t, ok)
			queue = append(queue, contender)
		}
		slices.SortFunc(queue, layout.Compare)
		for i, want := range c.ahead {
			require.Equal(t, want, layout.Ahead(queue, i), "%v: %s", c.names, queue[i].Name)
		}
	}
}

// The name of a kazoo lease has no sequence number that could run out.
func TestExhausted_KazooLease(t *testing.T) {
	t.Parallel()
	c, ok := layout.Parse("5a3b", layout.KazooLease)
	require.True(t, ok)
	require.False(t, c.Exhausted())
}
