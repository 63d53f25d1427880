package soak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/zktest/fakehold"
)

func write(t *testing.T, path string, run Tally) Entry {
	t.Helper()
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := j.Write(run, Sample{Goroutines: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return e
}

// A run continues the count where the previous run was killed, whether in the middle of a line or not.
func TestJournal_GoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	write(t, path, Tally{Sections: 10, Lost: 1})
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"time":"2026`); err != nil {
		t.Fatal(err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	e := write(t, path, Tally{Sections: 5, Overlaps: 2})
	if want := (Tally{Sections: 15, Lost: 1, Overlaps: 2}); e.Total != want || e.Run != 2 {
		t.Errorf("run %d has %+v, want %+v", e.Run, e.Total, want)
	}
	entries, err := ReadJournal(path)
	if err != nil || len(entries) != 2 || entries[1].Total != e.Total || entries[1].Goroutines != 7 {
		t.Errorf("read %+v, %v", entries, err)
	}
}

func TestJournal_BadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(path, []byte("no JSON\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("another file is taken for a journal: %v", err)
	}
}

func TestLedger(t *testing.T) {
	l := newLedger()
	section := func(token zkrecipes.Token, base int) error { return l.write("fenced", token, base, &l.tally.Sections) }
	if n, err := l.read("fenced", 5); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := l.read("fenced", 7); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if section(5, 0) == nil {
		t.Error("the fence lets a stale token through")
	}
	if err := section(7, 0); err != nil {
		t.Error(err)
	}
	if err := section(8, 0); err != nil { // it had read before the other one wrote
		t.Error(err)
	}
	if want := (Tally{Sections: 2, Refused: 1, Lost: 1}); l.sum() != want {
		t.Errorf("counted %+v, want %+v", l.sum(), want)
	}
	l.execute(resource.Request{Set: "bare", Element: "x"})
	l.execute(resource.Request{Set: "bare", Element: "x"})
	if s := l.sum(); s.Bare != 2 || s.Unfenced != 1 {
		t.Errorf("counted %+v", s)
	}
	if a := l.execute(resource.Request{Set: "fenced", Token: 1}); !a.Stale {
		t.Errorf("the fence answers %+v to a process with a stale token", a)
	}
}

// A hold that has ended, or whose caller has left, overlaps with none.
func TestLedger_Overlaps(t *testing.T) {
	l := newLedger()
	first, second, third := fakehold.New(t.Context(), 1), fakehold.New(t.Context(), 2), fakehold.New(t.Context(), 3)
	l.enter("lock", first.Hold)
	first.Lose(zkrecipes.LossExpired)
	l.enter("lock", second.Hold)
	l.leave("lock", second.Hold)
	l.enter("lock", third.Hold)
	l.enter("another", second.Hold)
	if n := l.sum().Overlaps; n != 0 {
		t.Errorf("%d overlaps of holds that follow each other", n)
	}
	l.enter("lock", second.Hold)
	if n := l.sum().Overlaps; n != 1 {
		t.Errorf("%d overlaps of two holds at once", n)
	}
}
