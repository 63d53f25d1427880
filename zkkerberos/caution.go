package zkkerberos

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// fingerprint distinguishes keys without keeping them.
type fingerprint [sha256.Size]byte

// caution prevents a key that the center has refused from being tried again soon: many realms lock a principal after a
// few wrong keys, and a client that reconnects asks several times a second. A different key is tried at once. It must
// be used by one goroutine at a time.
type caution struct {
	key   fingerprint   // the refused key
	first error         // the first refusal of the key; nil if the newest login has succeeded
	pause time.Duration // after the newest refusal
	next  time.Time     // when the key may be tried again
}

// The pauses are 1, 5, 25 and then always 60 minutes, so that a lockout policy sees at most three attempts in any 30
// minutes. The first pause is short because the center that has refused a new key may be a replica that lags behind.
const (
	shortestPause = time.Minute
	longestPause  = time.Hour
	growth        = 5
)

// try logs in with a key, unless the center has refused it recently. While a key is refused, each error has the reason
// of the first refusal, because later ones may only report that the principal is locked.
func (c *caution) try(key fingerprint, login func() (*ticket, error)) (*ticket, error) {
	if c.first != nil && c.key != key {
		*c = caution{}
	}
	if c.first != nil && time.Now().Before(c.next) {
		return nil, c.waiting(nil)
	}
	got, err := login()
	switch {
	case err == nil:
		*c = caution{}
		return got, nil
	case blamesKey(err):
		c.key = key
		c.pause = min(max(c.pause*growth, shortestPause), longestPause)
		c.next = time.Now().Add(c.pause)
		if c.first == nil {
			c.first = err
			return nil, c.waiting(nil)
		}
	case c.first == nil:
		return nil, err
	default: // without an answer, the center may or may not have counted the attempt
		c.next = time.Now().Add(shortestPause)
	}
	return nil, c.waiting(err)
}

// waiting returns the error while the key must not be tried. newest is the error of a new attempt, or nil.
func (c *caution) waiting(newest error) error {
	err := fmt.Errorf("%w: to avoid locking out the principal, the client does not try the same key again before %s",
		c.first, c.next.Format(time.DateTime))
	if newest != nil && newest.Error() != c.first.Error() {
		err = fmt.Errorf("%w; the latest attempt: %w", err, newest)
	}
	return err
}
