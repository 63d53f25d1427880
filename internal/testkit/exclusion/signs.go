//go:build linux

package exclusion

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// signs are the signs of life in a file, by the tokens of the holders.
type signs struct {
	file   string
	offset int64
	half   []byte // of a line
	of     map[int64]*life
}

// life is the evidence that the programs of one holder have left.
type life struct {
	first, last time.Duration // on the boot clock
	processes   map[int]bool
	left        time.Duration // the least time from a sign to the deadline that the program could read at that moment
	refused     int           // signs that the fence refused
}

// known reports whether a program could read its deadline.
func (s *signs) known() bool {
	for _, l := range s.of {
		if l.left < time.Hour {
			return true
		}
	}
	return false
}

// read reads what is new in the file.
func (s *signs) read() error {
	f, err := os.Open(s.file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.NewSectionReader(f, s.offset, 1<<62))
	if err != nil {
		return err
	}
	s.offset += int64(len(text))
	text = append(s.half, text...)
	end := bytes.LastIndexByte(text, '\n') + 1
	s.half = bytes.Clone(text[end:])
	for line := range strings.Lines(string(text[:end])) {
		s.add(strings.Fields(line))
	}
	return nil
}

func (s *signs) add(words []string) {
	if len(words) != 4 {
		return // it was killed while it wrote
	}
	token, _ := strconv.ParseInt(words[0], 10, 64)
	pid, _ := strconv.Atoi(words[1])
	nanoseconds, _ := strconv.ParseInt(words[2], 10, 64)
	at := time.Duration(nanoseconds)
	l := s.of[token]
	if l == nil {
		l = &life{first: at, processes: map[int]bool{}, left: time.Hour}
		s.of[token] = l
	}
	l.first, l.last = min(l.first, at), max(l.last, at)
	l.processes[pid] = true
	if until, err := strconv.ParseInt(words[3], 10, 64); err == nil {
		l.left = min(l.left, time.Duration(until)-at)
	}
	if words[3] == "refused" {
		l.refused++
	}
}
