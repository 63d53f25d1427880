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

// login lets those in who have the token of a file. The file may change.
type login struct {
	file string

	mu     sync.Mutex
	hashed [sha256.Size]byte // of the token that was read last
	told   time.Time         // when a wrong token was logged last
}

// shortest is how many characters a token must have. So many random ones cannot be guessed, at any speed.
const shortest = 20

// wrongTokenPause is for how long a wrong token gets no answer. It holds nobody else up.
const wrongTokenPause = time.Second

// RequireToken lets a listener on a port answer only requests with the token in the file. A socket has an owner and a mode in its place.
// The probes of Kubernetes have no token, so /healthz and /readyz answer everyone, but without it they say no more than yes or no.
func (s *Site) RequireToken(file string) error {
	l := &login{file: file}
	if err := l.read(); err != nil {
		return err
	}
	s.login = l
	return nil
}

// read reads the file. If that fails, the token before stays.
func (l *login) read() error {
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

// has reports whether the token is the one of the file. Hashes have one length, so the comparison takes the same time for all.
func (l *login) has(token string) bool {
	_ = l.read() // while the file cannot be read, the token before counts
	hashed := sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	return subtle.ConstantTimeCompare(hashed[:], l.hashed[:]) == 1
}

// isNews reports whether a wrong token is to be logged: one a second is.
func (l *login) isNews() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.told) < time.Second {
		return false
	}
	l.told = time.Now()
	return true
}

// tersely answers with only the status of next: its words name servers, and why they do not answer.
func tersely(w http.ResponseWriter, r *http.Request, next http.Handler) {
	answer := &capture{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(answer, r)
	if answer.status == http.StatusOK {
		Reply(w, answer.status, map[string]string{"state": "ready"})
		return
	}
	Reply(w, answer.status, Failure("not ready: the token of --http-token-file shows why"))
}

// known lets only requests through that have the token: as a bearer of it or, as browsers ask their users, as a password.
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
		w.Header().Set("WWW-Authenticate", `Basic realm="zkr: the password is the token, the name is free", charset="UTF-8"`)
		Reply(w, http.StatusUnauthorized, Failure("want the token of --http-token-file, as a bearer or as a password"))
	})
}
