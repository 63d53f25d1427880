package curator_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// Both sides add to one counter concurrently, in each of Curator's layouts. No addition is lost.
func TestCounters(t *testing.T) {
	s := open(t)
	const times = 200
	for kind, codec := range map[string]value.Codec[int64]{
		"long": value.AtomicLong(), "integer": value.SharedCount(), "count": value.SharedCount(),
	} {
		t.Run(kind, func(t *testing.T) {
			path := "/counters/" + kind
			first, err := value.NewCounter(s.clients[0], path, codec)
			must(t, err)
			_, err = first.Add(t.Context(), -1000)
			must(t, err)
			theirs := s.peer.Begin("add", kind, path, 3, times)
			var ours sync.WaitGroup
			for _, c := range s.clients {
				ours.Go(func() {
					counter, err := value.NewCounter(c, path, codec)
					must(t, err)
					for range times {
						_, err := counter.Add(t.Context(), 1)
						must(t, err)
					}
				})
			}
			ours.Wait()
			_, err = theirs(t.Context())
			must(t, err)
			const want = 5*times - 1000
			got, _, err := first.Get(t.Context())
			must(t, err)
			read, err := s.peer.Ask(t.Context(), "add", kind, path, 0, 1)
			must(t, err)
			if got != want || read != strconv.Itoa(want) {
				t.Errorf("we read %d, Curator reads %s: want %d", got, read, want)
			}
		})
	}
}

// A counter that Curator has created is read and added to, and conversely one of our values is Curator's SharedValue.
func TestValues(t *testing.T) {
	s := open(t)
	_, err := s.peer.Ask(t.Context(), "count", "/values/count", 7)
	must(t, err)
	count, err := value.NewCounter(s.clients[0], "/values/count", value.SharedCount())
	must(t, err)
	if sum, err := count.Add(t.Context(), 1); err != nil || sum != 8 {
		t.Errorf("%d, %v: want 8", sum, err)
	}
	text, err := value.New(s.clients[0], "/values/text", value.Text())
	must(t, err)
	old, err := text.Set(t.Context(), "ours")
	must(t, err)
	for _, want := range []bool{true, false} { // the second time it is not what Curator expects
		done, err := s.peer.Ask(t.Context(), "text", "/values/text", "ours", "theirs")
		must(t, err)
		if done != fmt.Sprint(want) {
			t.Errorf("Curator: %s: want %v", done, want)
		}
	}
	now, version, err := text.Get(t.Context())
	if err != nil || now != "theirs" || version.Mzxid <= old.Mzxid {
		t.Errorf("%q, %v, %v", now, version, err)
	}
	if _, err = text.CompareAndSet(t.Context(), old, "late"); err == nil {
		t.Error("it has changed")
	}
}

// Each side reads what the other has compressed.
func TestGzip(t *testing.T) {
	s := open(t)
	ask := asker(t, s)
	ask("compress", "/zipped", strings.Repeat("text", 1000))
	v, err := value.New(s.clients[0], "/zipped", value.Gzip(value.Text()))
	must(t, err)
	got, _, err := v.Get(t.Context())
	must(t, err)
	if got != strings.Repeat("text", 1000) {
		t.Errorf("we read %q", got)
	}
	_, err = v.Set(t.Context(), strings.Repeat("ours", 1000))
	must(t, err)
	if got := ask("decompress", "/zipped"); got != strings.Repeat("ours", 1000) {
		t.Errorf("Curator reads %q", got)
	}
}
