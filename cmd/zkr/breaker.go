package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/web"
	"github.com/zkrecipes/zkrecipes/conn"
)

// breaker deletes a contender for the page, as zkr break does. It answers a request only if it has the key that zkr has made.
type breaker struct {
	app    *app
	client *conn.Client
	root   string // the page shows nothing above it
	key    string // empty: nothing is deleted

	mu    sync.Mutex
	again time.Time // until then a wrong key is not logged again
}

// keyHeader carries the key. A page of another site cannot set it without asking first, and serve grants no such wish.
const keyHeader = "Zkr-Key"

// wrongKeyPause is for how long after a wrong key another one is refused, and is not logged.
const wrongKeyPause = time.Second

// newBreaker makes a breaker. If it may delete, its key goes to a file, or without one to a terminal, and to no page
// and no log.
func (a *app) newBreaker(client *conn.Client, root string, allowed bool, file string) (*breaker, error) {
	b := &breaker{app: a, client: client, root: root}
	if !allowed {
		return b, nil
	}
	b.key = rand.Text()
	if file != "" {
		if err := writeSecret(file, b.key); err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("--break-key-file: %w", err))
		}
		return b, nil
	}
	_, err := fmt.Fprintf(a.err, "The key to delete contenders on the page is %s\n", b.key)
	return b, err
}

// writeSecret replaces a file by one that only its owner can read. CreateTemp gives it that mode.
func writeSecret(path, secret string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: want a regular file, not %v", path, info.Mode())
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(secret + "\n")
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // it is of no use
	}
	return err
}

func (b *breaker) allowed() bool { return b.key != "" }

// breakRequest names one contender. Without Confirm nothing is deleted, and the answer describes it.
type breakRequest struct {
	Path    string `json:"path"`
	Token   int64  `json:"token,string"`
	Alive   bool   `json:"alive"`   // delete it even if its session is alive
	Foreign bool   `json:"foreign"` // including a node of no known recipe
	Reason  string `json:"reason"`
	Confirm bool   `json:"confirm"`
}

// breakAnswer is what is to be deleted, or was.
type breakAnswer struct {
	*survey.Contender
	Path    string            `json:"path"`
	Words   string            `json:"words"` // what is to be said of the queue
	Alive   string            `json:"alive"` // what the servers know of its session
	Servers map[string]string `json:"servers,omitempty"`
	Error   string            `json:"error,omitempty"`
}

func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want, status, err := b.read(w, r)
	if err != nil {
		web.Reply(w, status, web.Failure(err.Error()))
		return
	}
	// A browser that goes away stops nothing half-way.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	flags := breakFlags{onPage: true, token: want.Token, alive: want.Alive || !want.Confirm, foreign: want.Foreign || !want.Confirm}
	d, err := b.app.doom(ctx, b.client, want.Path, flags)
	if err != nil {
		web.Reply(w, refusal(err), web.Failure(err.Error()))
		return
	}
	answer := breakAnswer{Contender: d.Contender, Path: want.Path, Words: d.queue.Words, Alive: d.alive}
	if want.Confirm {
		answer.Servers, err = b.app.carryOut(ctx, b.client, d, want.Reason, r.RemoteAddr)
		if answer.Servers == nil {
			web.Reply(w, refusal(err), web.Failure(err.Error()))
			return
		}
		if err != nil {
			answer.Error = err.Error()
		}
	}
	web.Reply(w, http.StatusOK, answer)
}

// read reads a request, and refuses it unless it comes from the page itself, and has the key.
func (b *breaker) read(w http.ResponseWriter, r *http.Request) (want breakRequest, status int, err error) {
	if !b.allowed() {
		return want, http.StatusForbidden, errors.New("nothing can be deleted here: zkr serve runs without --allow-break")
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return want, http.StatusForbidden, err
	}
	if status, err := b.checkKey(r); err != nil {
		return want, status, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return want, http.StatusUnsupportedMediaType, errors.New("want Content-Type application/json")
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	body.DisallowUnknownFields()
	if err := body.Decode(&want); err != nil {
		return want, http.StatusBadRequest, fmt.Errorf("the body: %w", err)
	}
	if err := conn.ValidatePath(want.Path); err != nil {
		return want, http.StatusBadRequest, err
	}
	if want.Path != b.root && !strings.HasPrefix(want.Path, strings.TrimSuffix(b.root, "/")+"/") {
		return want, http.StatusForbidden, fmt.Errorf("%s is not below %s, which the page shows", want.Path, b.root)
	}
	if want.Token <= 0 {
		return want, http.StatusBadRequest, errors.New("want the token of a contender")
	}
	return want, 0, nil
}

// checkKey refuses a request without the key, and logs that. A key has 128 random bits, so no guess finds it at any speed. Therefore the
// right key is taken at once: otherwise whoever reaches the port could keep an operator from deleting.
func (b *breaker) checkKey(r *http.Request) (status int, err error) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(keyHeader)), []byte(b.key)) == 1 {
		return 0, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.again) {
		return http.StatusTooManyRequests, fmt.Errorf("a moment ago a key was wrong: try again in %v", wrongKeyPause)
	}
	b.again = time.Now().Add(wrongKeyPause)
	b.app.log.Warn("refused to delete a contender: the key is wrong", "from", r.RemoteAddr)
	return http.StatusUnauthorized, fmt.Errorf("the header %s is not the key that zkr serve has made at its start: see --break-key-file", keyHeader)
}

// refusal is the status of an answer for an error of a break: 409 if the contender is not as the request says.
func refusal(err error) int {
	var refused *exit.Error
	if errors.As(err, &refused) {
		return http.StatusConflict
	}
	return http.StatusBadGateway
}
