package web

import (
	"bufio"
	"fmt"
	"iter"
	"net/http"
	"time"
)

// beginStream admits one more stream of events, until end is called.
func (s *Site) beginStream() (end func(), full error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, fmt.Errorf("%d streams of events are open, and zkr serve takes no more", cap(s.streams))
	}
}

// stream writes server-sent events.
type stream struct {
	out     *bufio.Writer
	control *http.ResponseController
}

// streamPatience is how long a reader may take nothing. Then it is dropped, so that it keeps no memory and no connection.
const streamPatience = 10 * time.Second

func newStream(w http.ResponseWriter) (*stream, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	// The limit of the server for a request would end the context of a stream.
	return &stream{bufio.NewWriterSize(patient{w, control}, 32<<10), control}, control.SetReadDeadline(time.Time{})
}

// patient gives each write its time.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(text []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(streamPatience)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(text)
}

// send writes one event. Its parts are written as they are: readers share their bytes.
func (s *stream) send(id string, parts iter.Seq[string]) error {
	if id != "" {
		_, _ = fmt.Fprintf(s.out, "id: %s\n", id) // Flush has the error
	}
	_, _ = s.out.WriteString("data: ")
	for part := range parts {
		if _, err := s.out.WriteString(part); err != nil {
			return err
		}
	}
	_, _ = s.out.WriteString("\n\n")
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.control.Flush()
}
