package soak_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/chaos/soak"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// The long form is `make soak DURATION=8h`. SOAK_JOURNAL is the journal, which a later run continues.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an ensemble")
	}
	cfg := soak.Config{
		Seed: rand.Uint64N(1e6), Duration: 10 * time.Minute, Session: 4 * time.Second, Peace: 100 * time.Millisecond,
		Every:    time.Second,
		Kinds:    []chaos.Kind{chaos.Cut, chaos.Blink}, // no server restarts, because that takes long on a busy machine
		Enough:   func(t soak.Tally) bool { return t.Sections >= 100 && t.Others >= 10 && t.Faults >= 1 },
		Sessions: 8, Locks: 1, Pause: 200 * time.Millisecond, Journal: filepath.Join(t.TempDir(), "journal"),
		Dir: t.TempDir(), Log: t.Logf,
	}
	long := os.Getenv("SOAK_DURATION")
	if long != "" {
		var err error
		if cfg.Duration, err = time.ParseDuration(long); err != nil {
			t.Fatal(err)
		}
		cfg.Every, cfg.Peace, cfg.Pause = time.Minute, 30*time.Second, time.Second
		cfg.Kinds, cfg.Enough = soak.Kinds, nil
		cfg.Session, cfg.Locks = 10*time.Second, 24
	}
	if text := os.Getenv("SOAK_SEED"); text != "" {
		var err error
		if cfg.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if file := os.Getenv("SOAK_JOURNAL"); file != "" {
		cfg.Journal = file
	}
	e := zkserver.StartEnsemble(t, 3, zkserver.WithTickTime(cfg.Session/10))
	if !e.Servers[0].Ours() {
		t.Skip("servers that are not ours are not for breaking")
	}
	if long != "" {
		cfg.Mates = append(curators(t, e.Addr(), cfg.Session), pythons(t, e.Addr(), cfg.Session)...)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	t.Logf("seed %d, journal %s", cfg.Seed, cfg.Journal)
	last, err := soak.Run(t.Context(), cfg, e)
	if err != nil {
		t.Error(err)
	}
	if last.Total.Sections == 0 || last.Total.Overlaps+last.Total.Lost+last.Total.Wrong > 0 {
		t.Errorf("violated: %v", last)
	}
	entries, err := soak.ReadJournal(cfg.Journal)
	if err != nil {
		t.Fatal(err)
	}
	if standsStill(entries) {
		t.Errorf("another library has had no section for %v: %v", stillness, last)
	}
}

const stillness = 8 * time.Minute

// standsStill reports whether the other libraries had no section at the end of a run. One that was cut off returns
// within minutes.
func standsStill(entries []soak.Entry) bool {
	last := entries[len(entries)-1]
	for _, e := range entries {
		if e.Run == last.Run && e.Ran <= last.Ran-stillness &&
			(e.Total.Theirs == last.Total.Theirs || e.Total.Bare == last.Total.Bare) {
			return true
		}
	}
	return false
}

func TestStandsStill(t *testing.T) {
	at := func(run, minute, theirs, bare int) soak.Entry {
		return soak.Entry{Run: run, Ran: time.Duration(minute) * time.Minute, Total: soak.Tally{Theirs: theirs, Bare: bare}}
	}
	for want, entries := range map[bool][][]soak.Entry{
		false: {{at(1, 0, 5, 5), at(2, 9, 5, 5)}, {at(1, 0, 5, 5), at(1, 7, 5, 5)}, {at(1, 0, 5, 5), at(1, 9, 6, 6)}},
		true:  {{at(1, 0, 5, 5), at(1, 9, 5, 6)}, {at(1, 0, 5, 5), at(1, 9, 6, 5)}},
	} {
		for _, list := range entries {
			if standsStill(list) != want {
				t.Error(want, list)
			}
		}
	}
}
