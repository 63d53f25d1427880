package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// EventKey marks a message that is an event. ReasonKey and ErrorKey carry what its sentence leaves out.
const (
	EventKey  = "event"
	ReasonKey = "reason"
	ErrorKey  = "error"
)

// events reports what happens, as lines of JSON for programs and as messages for people. A separate goroutine writes
// them: a reader that has stopped reading, or a full disk, must not keep zkr from killing a program in time.
type events struct {
	log   *slog.Logger
	file  *os.File // nil without --events
	queue chan func()
	ended chan struct{}
	every fields // keys of each event
}

// with returns events with additional keys.
func (e *events) with(every fields) *events {
	with := *e
	with.every = every
	return &with
}

// pending bounds the number of queued writes. Further ones are dropped.
const pending = 1000

func newEvents(log *slog.Logger, fd int) (*events, error) {
	if fd < -1 {
		return nil, exit.Usagef("--events %d: want a file descriptor, or -1 for no events", fd)
	}
	e := &events{log: log, queue: make(chan func(), pending), ended: make(chan struct{})}
	if fd >= 0 {
		if inherited(fd) {
			e.file = os.NewFile(uintptr(fd), "events")
		}
		if e.file == nil {
			return nil, exit.Usagef("--events %d: no such file descriptor", fd)
		}
		if _, err := e.file.Stat(); err != nil {
			return nil, exit.Usagef("--events %d: no such file descriptor", fd)
		}
		keepFromChild(e.file)
	}
	go e.write()
	return e, nil
}

func (e *events) write() {
	defer close(e.ended)
	for do := range e.queue {
		do()
	}
}

// later runs a function that may block, in order.
func (e *events) later(do func()) {
	select {
	case e.queue <- do:
	default:
	}
}

// close waits until everything is written, for at most a second.
func (e *events) close() {
	close(e.queue)
	select {
	case <-e.ended:
	case <-time.After(time.Second):
	}
}

// fields are the keys of an event. They do not change within version 1.
type fields map[string]any

// say reports an event: its name and keys for programs, the sentence for people. The sentence omits the reason and
// error, which are appended to it.
func (e *events) say(level slog.Level, event string, more fields, sentence string, args ...any) {
	now := time.Now().UTC()
	record := slog.NewRecord(now, level, fmt.Sprintf(sentence, args...), 0)
	record.AddAttrs(slog.String(EventKey, event))
	told := fields{}
	maps.Copy(told, e.every)
	maps.Copy(told, more)
	line := fields{"v": 1, "time": now.Format(time.RFC3339Nano), EventKey: event}
	for _, key := range slices.Sorted(maps.Keys(told)) {
		record.AddAttrs(slog.Any(key, told[key]))
		if line[key] = told[key]; key == ReasonKey || key == ErrorKey {
			line[key] = exit.AsFlags.Replace(fmt.Sprint(told[key]))
		}
	}
	e.later(func() {
		if text, err := json.Marshal(line); err == nil && e.file != nil {
			_, _ = e.file.Write(append(text, '\n')) // a reader that has gone must not end the lock
		}
		e.print(record)
	})
}

// warn reports something to people that is not an event.
func (e *events) warn(message string, args ...any) {
	record := slog.NewRecord(time.Now(), slog.LevelWarn, message, 0)
	record.Add(args...)
	for key, value := range e.every {
		record.AddAttrs(slog.Any(key, value))
	}
	e.later(func() { e.print(record) })
}

func (e *events) print(record slog.Record) {
	ctx := context.Background()
	if handler := e.log.Handler(); handler.Enabled(ctx, record.Level) {
		_ = handler.Handle(ctx, record) // there is nowhere else to report it
	}
}
