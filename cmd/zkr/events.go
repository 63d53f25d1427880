package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// eventKey marks a message that is an event.
const eventKey = "event"

// events tells what happens, as lines of JSON for programs and as messages for people.
type events struct {
	log  *slog.Logger
	file *os.File // nil without --events
}

func newEvents(log *slog.Logger, fd int) (*events, error) {
	e := &events{log: log}
	if fd < 0 {
		return e, nil
	}
	e.file = os.NewFile(uintptr(fd), "events")
	if e.file == nil {
		return nil, usagef("--events %d: no such file descriptor", fd)
	}
	if _, err := e.file.Stat(); err != nil {
		return nil, usagef("--events %d: no such file descriptor", fd)
	}
	keepFromChild(e.file)
	return e, nil
}

// fields are the keys of an event. They do not change within version 1.
type fields map[string]any

// say tells an event: its name and keys for programs, the sentence for people.
func (e *events) say(level slog.Level, event string, more fields, sentence string, args ...any) {
	message := fmt.Sprintf(sentence, args...)
	attrs := []slog.Attr{slog.String(eventKey, event)}
	line := fields{"v": 1, "time": time.Now().Format(time.RFC3339Nano), eventKey: event}
	for key, value := range more {
		attrs = append(attrs, slog.Any(key, value))
		line[key] = value
	}
	if e.file != nil {
		if text, err := json.Marshal(line); err == nil {
			_, _ = e.file.Write(append(text, '\n')) // a reader that has gone must not end the lock
		}
	}
	e.log.LogAttrs(context.Background(), level, message, attrs...)
}
