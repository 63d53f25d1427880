package znode

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

func TestParse_ReadsNamesAsCuratorDoes(t *testing.T) {
	readWrite := []string{Read, Write}
	for _, c := range []struct {
		name  string
		kinds []string
		kind  string
		key   string
	}{
		{"_c_b824d726-7871-4a09-a819-59f45f914220-lock-0000000000", []string{Lock}, Lock, "0000000000"},
		{"_c_b824d72678714a09a81959f45f914220-lock-0000000007", []string{Lock}, Lock, "0000000007"}, // go-zookeeper's own
		{"lock-0000000012", []string{Lock}, Lock, "0000000012"},
		{"lock-lock-0000000012", []string{Lock}, Lock, "0000000012"}, // after the last
		{"_c_b824d726-7871-4a09-a819-59f45f914220-lock--2147483648", []string{Lock}, Lock, "-2147483648"},
		{"_c_b824d726-7871-4a09-a819-59f45f914220-__READ__0000000003", readWrite, Read, "0000000003"},
		{"_c_b824d726-7871-4a09-a819-59f45f914220-__WRIT__0000000002", readWrite, Write, "0000000002"},
		{"_c_b824d726-7871-4a09-a819-59f45f914220-lease-0000000001", []string{Lease}, Lease, "0000000001"},
		{"_c_b824d726-7871-4a09-a819-59f45f914220-latch-0000000001", []string{Lock}, "", ""},
		{"0", []string{Lock}, "", ""},
		{"", []string{Lock}, "", ""},
	} {
		got, ok := parse(c.name, c.kinds)
		require.Equal(t, c.kind != "", ok, c.name)
		if ok {
			assert.Equal(t, Contender{c.name, c.kind, c.key}, got)
		}
	}
}

func TestArrange_OrdersByTheKeyAsText(t *testing.T) {
	queue, foreign := arrange([]string{
		"zzz", "_c_a-lock-0000000010", "_c_c-lock-0000000002", "0", "_c_b-lock--2147483648", "_c_d-lock-2147483647",
	}, []string{Lock})
	var keys []string
	for _, c := range queue {
		keys = append(keys, c.Key)
	}
	// Past the end of the sequence this is not the order of creation, but it is Curator's.
	assert.Equal(t, []string{"-2147483648", "0000000002", "0000000010", "2147483647"}, keys)
	assert.Equal(t, []string{"zzz", "0"}, foreign)
}

func TestCheckKey(t *testing.T) {
	for _, good := range []string{"0000000000", "0000000001", "2147483646"} {
		require.NoError(t, checkKey(good))
	}
	for _, bad := range []string{"2147483647", "-2147483648", "-000000001", "", "000000001", "00000000a1", "9999999999"} {
		require.ErrorIs(t, checkKey(bad), zkrecipes.ErrSequenceExhausted, bad)
	}
}

func TestProtected_IsCuratorsName(t *testing.T) {
	pattern := regexp.MustCompile(`^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-$`)
	seen := map[string]bool{}
	for range 100 {
		guid := newGUID()
		require.Len(t, guid, guidSize)
		require.Regexp(t, pattern, protected(guid, Lock))
		require.False(t, seen[guid])
		seen[guid] = true
	}
}

func FuzzParse(f *testing.F) {
	f.Add("_c_b824d726-7871-4a09-a819-59f45f914220-__READ__0000000003")
	f.Add("__WRIT____READ__")
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := parse(name, []string{Read, Write})
		if !ok {
			require.NotContains(t, name, Read)
			require.NotContains(t, name, Write)
			return
		}
		require.Equal(t, name, c.Name)
		require.True(t, strings.HasSuffix(name, c.Key))
		require.NotContains(t, c.Key, c.Kind)
	})
}

// The order must be total, or servers that list in different orders make clients disagree.
func FuzzCompare(f *testing.F) {
	f.Add("0000000001", "0000000001", "-2147483648", "__READ__", "__WRIT__", "__READ__")
	f.Fuzz(func(t *testing.T, k1, k2, k3, n1, n2, n3 string) {
		queue := []Contender{{Name: n1, Kind: Read, Key: k1}, {Name: n2, Kind: Write, Key: k2}, {Name: n3, Kind: Read, Key: k3}}
		for _, a := range queue {
			require.Zero(t, compare(a, a))
			for _, b := range queue {
				require.Equal(t, compare(a, b), -compare(b, a))
			}
		}
		sorted := slices.SortedFunc(slices.Values(queue), compare)
		slices.Reverse(queue)
		require.Equal(t, sorted, slices.SortedFunc(slices.Values(queue), compare))
	})
}
