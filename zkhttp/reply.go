package zkhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"unicode"
	"unicode/utf8"
)

// view answers a request with a status and a body.
type view func(r *http.Request) (status int, body any)

const noElection = "the election is nil: create one with election.New"

// need panics where a handler is created without what it needs, as net/http does for a nil handler. Otherwise
// the first request would panic.
func need(ok bool, handler, what string) {
	if !ok {
		panic("zkhttp." + handler + ": " + what)
	}
}

// ServeHTTP implements http.Handler.
func (v view) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		reply(w, http.StatusMethodNotAllowed, failure{Error: "method " + r.Method + ": want GET or HEAD"})
		return
	}
	status, body := v(r)
	reply(w, status, body)
}

// failure is the body of a response that only describes a problem.
type failure struct {
	Error string `json:"error"`
}

func reply(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // such as a time after the year 9999, which a server may send
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(plain(text), '\n')) // the caller may have gone
}

// plain escapes characters that control a terminal or reverse the direction of text, because any client can
// write them into a name. JSON readers see the same value.
func plain(text []byte) []byte {
	var escaped []byte
	for _, r := range string(text) {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) { // all of them have four digits
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}
