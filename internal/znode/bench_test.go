package znode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/layout"
)

func BenchmarkArrange(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			names := make([]string, n)
			for i, at := range rand.Perm(n) {
				names[at] = fmt.Sprintf("%s%010d", ephemeral.Prefix(ephemeral.NewGUID())+Lock, i)
			}
			first, _ := layout.Parse(slices.Min(names), Lock)
			for _, name := range names {
				if c, _ := layout.Parse(name, Lock); c.Key == "0000000000" {
					first = c
				}
			}
			b.Run("place=last", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					arrange(names, []string{Lock})
				}
			})
			b.Run("place=first", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					queue, _ := pick(names, []string{Lock})
					arrangeAhead(queue, first)
				}
			})
		})
	}
}
