package javaset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSet_OrderOfJava: the lists are what java.util.HashSet of OpenJDK 17 prints after the same additions and removals.
func TestSet_OrderOfJava(t *testing.T) {
	lock := func(i int) string { return fmt.Sprintf("lock-%d", i*7919%1000) }
	var first, locks, gone, colliding []string
	for i := range 6 {
		first = append(first, fmt.Sprintf("n-%010d", i))
	}
	first = append(first, "é", "日本", "/")
	for i := range 40 {
		if locks = append(locks, lock(i)); i%3 == 0 {
			gone = append(gone, lock(i))
		}
	}
	pair := [2]string{"Aa", "BB"} // with equal hashes
	for i := range 8 {
		colliding = append(colliding, pair[i&1]+pair[i>>1&1]+pair[i>>2&1])
	}
	for _, c := range []struct {
		name         string
		add, removed []string
		want         string
	}{
		{
			"grown, and names beyond ASCII", first, nil,
			"n-0000000000 n-0000000002 n-0000000001 é n-0000000004 n-0000000003 日本 n-0000000005 /",
		},
		{
			"grown again, then emptied", append(first, locks...), gone,
			"lock-3 lock-137 lock-894 lock-651 lock-218 lock-975 lock-732 n-0000000000 lock-408 lock-489 lock-246 " +
				"lock-922 / lock-165 lock-838 lock-919 lock-676 lock-433 lock-595 lock-352 lock-190 lock-947 lock-704 " +
				"lock-109 n-0000000002 n-0000000001 é n-0000000004 n-0000000003 日本 n-0000000005 lock-866 lock-623 " +
				"lock-380 lock-461",
		},
		{
			"one bucket", append(colliding, "x"), nil,
			"AaAaAa BBAaAa AaBBAa BBBBAa AaAaBB BBAaBB AaBBBB BBBBBB x",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(8)
			for _, key := range c.add {
				s.Add(key)
			}
			for _, key := range c.removed {
				s.Remove(key)
			}
			require.Equal(t, c.want, strings.Join(s.List(), " "))
			require.Equal(t, len(c.add)-len(c.removed), s.Len())
			require.Equal(t, s.List(), s.Twin().List())
		})
	}
}

// TestSet_Buckets: a ninth key in one bucket makes Java double a small table early. A clone has as many buckets as its
// keys need.
func TestSet_Buckets(t *testing.T) {
	s := New(16)
	for i := range 9 {
		s.Add([]string{"Aa", "BB"}[i&1] + []string{"Aa", "BB"}[i>>1&1] + []string{"Aa", "BB"}[i>>2&1] +
			[]string{"Aa", "BB"}[i>>3])
	}
	require.Len(t, s.buckets, 32)
	for _, key := range s.List()[1:] {
		s.Remove(key)
	}
	s.Remove("none")
	require.Equal(t, 1, s.Len())
	require.Len(t, s.buckets, 32)
	require.Len(t, s.Clone().buckets, 2)
	require.Len(t, New(8).Clone().buckets, 1)
}
