package foreign

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// TestKazooCounter: kazoo and this library add to one counter concurrently, in both of kazoo's layouts. No addition is
// lost.
func TestKazooCounter(t *testing.T) {
	interpreter := python(t, "kazoo", "apt-get install python3-kazoo")
	for _, server := range servers {
		for layout, codec := range map[string]value.Codec[int64]{
			"text":    value.KazooCounter(),
			"curator": value.SharedCount(),
		} {
			t.Run(server.name+"/"+layout, func(t *testing.T) {
				addr, path := server.start(t), "/app/counter"
				client, err := conn.Dial(t.Context(), addr, conn.WithSessionTimeout(10*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				counter, err := value.NewCounter(client, path, codec)
				if err != nil {
					t.Fatal(err)
				}
				var theirs sync.WaitGroup
				theirs.Go(func() { run(t, interpreter, "testdata/kazoo_counter.py", addr, path, layout, "-3", "100") })
				for range 200 {
					if _, err := counter.Add(t.Context(), 1); err != nil {
						t.Fatal(err)
					}
				}
				theirs.Wait()
				got, _, err := counter.Get(t.Context())
				read := strings.TrimSpace(run(t, interpreter, "testdata/kazoo_counter.py", addr, path, layout, "0", "0"))
				if err != nil || got != -100 || read != "-100" {
					t.Errorf("we read %d, %v, kazoo reads %s: want -100", got, err, read)
				}
			})
		}
	}
}
