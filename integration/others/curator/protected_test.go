package curator_test

import (
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes/conn"
)

// Curator recognizes the names of our protected nodes, in every mode, and DeleteAll removes its own and ours.
func TestProtected(t *testing.T) {
	s := open(t)
	ask := asker(t, s)
	must(t, s.clients[0].CreateAll(t.Context(), "/protected", nil))
	for name, mode := range map[string]int32{
		"a": conn.Persistent, "b-": conn.PersistentSequential, "c": conn.Ephemeral, "d-": conn.EphemeralSequential,
	} {
		_, err := s.clients[0].CreateProtected(t.Context(), "/protected/"+name, []byte("ours"), mode)
		must(t, err)
	}
	theirs := ask("protect", "/protected/e-", "theirs")
	if !strings.HasPrefix(theirs, "/protected/_c_") {
		t.Errorf("Curator made %s", theirs)
	}
	got := ask("protected", "/protected")
	for _, want := range []string{"a=ours", "b-000000000", "c=ours", "d-000000000", "e-0000000004=theirs"} {
		if !strings.Contains(got, want) {
			t.Errorf("Curator reads %q: want %s in it", got, want)
		}
	}
	if n := len(strings.Fields(got)); n != 5 {
		t.Errorf("Curator reads %q: want five", got)
	}
	must(t, s.clients[1].DeleteAll(t.Context(), "/protected", conn.WithKeepTop()))
	if got := ask("protected", "/protected"); got != "" {
		t.Errorf("%q is left", got)
	}
}
