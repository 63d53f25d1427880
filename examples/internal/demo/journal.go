package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Journal writes one line per event, immediately and in the order in which the events happened. It is safe for
// concurrent use.
type Journal struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time       // of a story; zero for logfmt
	muted map[string]bool // by id
}

// NewJournal returns a journal in logfmt, for programs to read.
func NewJournal(out io.Writer) *Journal { return &Journal{out: out, muted: map[string]bool{}} }

// NewStory returns a journal for people: aligned columns, and times since the start.
func NewStory(out io.Writer) *Journal {
	j := NewJournal(out)
	j.start = time.Now()
	return j
}

// Event writes what happened to the actor with the id. pairs are names and values.
func (j *Journal) Event(id, event string, pairs ...any) {
	// The time is read under the lock, so that no line has an earlier time than the line above it.
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.muted[id] {
		return
	}
	if j.start.IsZero() {
		line := fmt.Sprintf("time=%s id=%s event=%s", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), quote(id), event)
		j.write(line, "=", pairs)
		return
	}
	j.write(fmt.Sprintf("%s  %-8s  %-9s", j.elapsed(), id, event), " ", pairs)
}

// Say writes a line about what happens to the actors. A journal in logfmt leaves it out.
func (j *Journal) Say(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.start.IsZero() {
		j.write(j.elapsed()+"  -- "+text, "", nil)
	}
}

// Explain writes text unchanged. A journal in logfmt leaves it out.
func (j *Journal) Explain(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.start.IsZero() {
		j.write(strings.TrimSuffix(text, "\n"), "", nil)
	}
}

// Mute drops all later events of the actor with the id, which has crashed.
func (j *Journal) Mute(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.muted[id] = true
}

func (j *Journal) elapsed() string { return fmt.Sprintf("%7.3f s", time.Since(j.start).Seconds()) }

// write writes a line with pairs. The caller holds the lock.
func (j *Journal) write(line, equals string, pairs []any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		line += fmt.Sprintf(" %v%s%s", pairs[i], equals, quote(fmt.Sprint(pairs[i+1])))
	}
	if _, err := io.WriteString(j.out, strings.TrimRight(line, " ")+"\n"); err != nil {
		return // nobody reads the output, but the program continues
	}
}

// quote quotes a value that logfmt would otherwise split.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"\n\t") {
		return strconv.Quote(s)
	}
	return s
}
