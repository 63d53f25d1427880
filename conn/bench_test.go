package conn_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// BenchmarkDialClose measures the time and memory of a session, from Dial to Close. They include those of the server,
// which is in this process.
func BenchmarkDialClose(b *testing.B) {
	srv := zktest.Run(b)
	b.ReportAllocs()
	for b.Loop() {
		c, err := conn.Dial(b.Context(), srv.Addr(), bubble.Silent)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
