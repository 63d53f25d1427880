package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Tally is what soak runs have counted.
type Tally struct {
	Sections int `json:"sections"` // of our clients, fenced
	Theirs   int `json:"theirs"`   // fenced sections of kazoo
	Bare     int `json:"bare"`     // sections of Curator and kazoo without a fence
	Others   int `json:"others"`   // operations of recipes that are not locks
	Failed   int `json:"failed"`   // calls that returned an error, as they do during a fault
	Losses   int `json:"losses"`   // holds that ended before they were released
	Refused  int `json:"refused"`  // tokens that a fence refused
	Faults   int `json:"faults"`

	Overlaps int `json:"overlaps"` // one of our holds concurrent with another that had not ended
	Lost     int `json:"lost"`     // updates lost behind a fence
	Unfenced int `json:"unfenced"` // updates lost where there is no fence
	Wrong    int `json:"wrong"`    // impossible answers of other recipes
}

func (t Tally) plus(o Tally) Tally {
	return Tally{
		t.Sections + o.Sections, t.Theirs + o.Theirs, t.Bare + o.Bare, t.Others + o.Others, t.Failed + o.Failed,
		t.Losses + o.Losses,
		t.Refused + o.Refused, t.Faults + o.Faults, t.Overlaps + o.Overlaps, t.Lost + o.Lost, t.Unfenced + o.Unfenced,
		t.Wrong + o.Wrong,
	}
}

// Sample is what the process and the servers used at an instant.
type Sample struct {
	Heap       uint64 `json:"heap"`     // bytes that the last collection left
	Resident   uint64 `json:"resident"` // bytes
	Goroutines int    `json:"goroutines"`
	Watches    int    `json:"watches"` // of all servers
	Nodes      int    `json:"nodes"`   // of one server
}

// Entry is one line of a journal. Its sums cover all runs with the journal.
type Entry struct {
	Time time.Time `json:"time"`
	// Run is the number of the run, and Ran is the accumulated time of all runs.
	Run   int           `json:"run"`
	Ran   time.Duration `json:"ran"`
	Total Tally         `json:"total"`
	Sample
}

func (e Entry) String() string {
	t := e.Total
	return fmt.Sprintf(
		"%v: %d fenced sections, %d of kazoo, %d of others without a fence, %d other operations; %d faults, %d losses, "+
			"%d failed, %d refused; "+
			"%d overlaps, %d lost updates, %d wrong; %.1f MB, %d goroutines, %d watches, %d nodes", e.Ran.Round(time.Second),
		t.Sections, t.Theirs, t.Bare, t.Others,
		t.Faults, t.Losses, t.Failed, t.Refused, t.Overlaps, t.Lost, t.Wrong, float64(e.Heap)/1e6, e.Goroutines,
		e.Watches, e.Nodes)
}

// ReadJournal returns the entries of a journal, or none if there is no file. A last line truncated by a kill does not
// count.
func ReadJournal(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Journal is a file of JSON lines, one for each [Entry]. A run continues where the previous one ended.
type Journal struct {
	file  *os.File
	start Entry // the newest one of earlier runs
	began time.Time
}

// OpenJournal opens a journal for a run, and creates the file if necessary.
func OpenJournal(path string) (*Journal, error) {
	entries, err := ReadJournal(path)
	if err != nil {
		return nil, err
	}
	j := &Journal{began: time.Now()}
	if n := len(entries); n > 0 {
		j.start = entries[n-1]
	}
	j.start.Run++
	if j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	return j, j.trim()
}

// trim moves to the end of the last complete line.
func (j *Journal) trim() error {
	text, err := os.ReadFile(j.file.Name())
	if err != nil {
		return err
	}
	whole := int64(bytes.LastIndexByte(text, '\n') + 1)
	if err := j.file.Truncate(whole); err != nil {
		return err
	}
	_, err = j.file.Seek(whole, 0)
	return err
}

// Write adds what this run has counted so far to the count of earlier runs, and writes the result.
func (j *Journal) Write(run Tally, s Sample) (Entry, error) {
	now := time.Now()
	e := Entry{
		Time: now.UTC(), Run: j.start.Run, Ran: j.start.Ran + now.Sub(j.began),
		Total: j.start.Total.plus(run), Sample: s,
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	return e, err
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
