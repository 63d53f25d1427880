package web

import (
	"bufio"
	"fmt"
	"iter"
	"net/http"
	"time"
)

// beginStream admits another event stream, until end is called.
func (s *Site) beginStream() (end func(), full error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, fmt.Errorf("%d event streams are open, and zkr serve accepts no more", cap(s.streams))
	}
}

// stream writes server-sent events.
type stream struct {
	out     *bufio.Writer
	control *http.ResponseController
}

// streamPatience is how long a reader may accept nothing before it is dropped, so that it occupies neither memory nor a
// connection.
const streamPatience = 10 * time.Second

func newStream(w http.ResponseWriter) (*stream, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	// The server's read timeout for a request would end the context of a stream.
	return &stream{bufio.NewWriterSize(patient{w, control}, 32<<10), control}, control.SetReadDeadline(time.Time{})
}

// patient sets a deadline for each write.
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

// send writes one event. The parts are not copied, as readers share their bytes.
func (s *stream) send(id string, parts iter.Seq[string]) error {
	if id != "" {
		_, _ = fmt.Fprintf(s.out, "id: %s\n", id) // Flush returns the error
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
