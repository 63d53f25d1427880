package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// login admits clients that have the token in a file. The file may change.
type login struct {
	file string

	mu     sync.Mutex
	hashed [sha256.Size]byte // of the token that was read last
	told   time.Time         // when a wrong token was last logged
}

// shortest is the minimum length of a token, in characters. That many random ones cannot be guessed at any rate.
const shortest = 20

// wrongTokenPause delays the answer to a wrong token. It delays no other request.
const wrongTokenPause = time.Second

// RequireToken makes listeners on TCP ports answer only requests that carry the token in the file. Unix sockets are
// protected by owner and mode instead. Since Kubernetes probes have no token, /healthz and /readyz answer everyone, but
// without the token they only answer yes or no.
func (s *Site) RequireToken(file string) error {
	l := &login{file: file}
	if err := l.read(); err != nil {
		return err
	}
	s.login = l
	return nil
}

// read reads the file. If that fails, the previous token stays valid.
func (l *login) read() error {
	if err := checkRegular(l.file); err != nil {
		return err
	}
	text, err := os.ReadFile(l.file)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < shortest {
		return fmt.Errorf("%s: want a token of at least %d characters", l.file, shortest)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hashed = sha256.Sum256([]byte(token))
	return nil
}

// checkRegular rejects a named pipe and the like, which may block forever when it is opened.
func checkRegular(file string) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: want a regular file", file)
	}
	return nil // reading it reports any other problem
}

// has reports whether the token is that of the file. Hashes have equal lengths, so the comparison takes constant time.
func (l *login) has(token string) bool {
	_ = l.read() // while the file cannot be read, the previous token is valid
	hashed := sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	return subtle.ConstantTimeCompare(hashed[:], l.hashed[:]) == 1
}

// isNews reports whether to log a wrong token, which happens at most once per second.
func (l *login) isNews() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.told) < time.Second {
		return false
	}
	l.told = time.Now()
	return true
}

// tersely answers with only the status of next, because its text contains the names of servers and why they do not
// answer.
func tersely(w http.ResponseWriter, r *http.Request, next http.Handler) {
	answer := &capture{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(answer, r)
	if answer.status == http.StatusOK {
		Reply(w, answer.status, map[string]string{"state": "ready"})
		return
	}
	Reply(w, answer.status, Failure("not ready: send the token of --http-token-file to see why"))
}

// known admits only requests that carry the token, either as a bearer token or, for the login dialog of browsers, as a
// password.
func (s *Site) known(address net.Addr, next http.Handler) http.Handler {
	if s.login == nil || address.Network() != "tcp" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !given {
			_, token, given = r.BasicAuth()
		}
		switch {
		case given && s.login.has(token), r.URL.Path == "/healthz":
			next.ServeHTTP(w, r)
			return
		case r.URL.Path == "/readyz":
			tersely(w, r, next)
			return
		case given:
			if s.login.isNews() {
				s.log.Warn("refused a request: the token is wrong", "from", r.RemoteAddr)
			}
			select {
			case <-time.After(wrongTokenPause):
			case <-r.Context().Done():
			}
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="zkr: any user name, with the token as password", charset="UTF-8"`)
		Reply(w, http.StatusUnauthorized, Failure("want the token of --http-token-file, as a bearer token or password"))
	})
}
