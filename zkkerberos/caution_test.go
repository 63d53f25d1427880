package zkkerberos

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/stretchr/testify/require"
)

// fakeSource has a key, with which a login takes a second and returns err.
type fakeSource struct {
	start time.Time

	mu    sync.Mutex
	key   byte
	err   error
	tried []time.Duration // since the start
}

func (s *fakeSource) name(string) (principal, error) { return alice, nil }

func (s *fakeSource) open(principal, *config.Config, ...func(*client.Settings)) (*secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &secret{key: fingerprint{s.key}, login: func() (*ticket, error) {
		s.mu.Lock()
		s.tried = append(s.tried, time.Since(s.start))
		err := s.err
		s.mu.Unlock()
		time.Sleep(time.Second)
		return fakeTicket(), err
	}}, nil
}

func (s *fakeSource) set(key byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.err = key, err
}

// tries returns the times at which a key was tried since the last call.
func (s *fakeSource) tries() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	tried := s.tried
	s.tried = nil
	return tried
}

func withSource(t *testing.T, test func(t *testing.T, s *fakeSource, ask func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSource{start: time.Now()}
		c := newCenter(s, alice, &options{})
		test(t, s, func() error {
			_, _, err := c.login(zk1, nil)
			return err
		})
	})
}

// answered returns gokrb5's error for an answer with a code.
func answered(code int32) error {
	return krberror.Errorf(messages.KRBError{ErrorCode: code}, krberror.KDCError,
		"AS Exchange Error: kerberos error response from KDC")
}

// refusals are errors that blame the key.
var refusals = map[string]error{
	"the realm has no principal alice":          answered(errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN),
	"alice@TEST.LOCAL is disabled":              answered(errorcode.KDC_ERR_CLIENT_REVOKED),
	"the password of alice@TEST.LOCAL has expi": answered(errorcode.KDC_ERR_KEY_EXPIRED),
	"wrong key of alice@TEST.LOCAL":             answered(errorcode.KDC_ERR_PREAUTH_FAILED),
	"wrong key of alice@TEST.LOCAL: check": krberror.NewErrorf(krberror.DecryptingError,
		"error decrypting EncPart of AS_REP"),
	"the keytab has no key of alice@TEST.LOCAL": krberror.NewErrorf(krberror.DecryptingError,
		"matching key not found in keytab"),
}

// A client that reconnects asks repeatedly. Each time it used to try the wrong key, so that a policy of five failures
// locked the principal. It now makes at most three attempts in any half hour.
func TestCaution_RefusedKey(t *testing.T) {
	t.Parallel()
	for says, refusal := range refusals {
		withSource(t, func(t *testing.T, s *fakeSource, ask func() error) {
			s.set(1, refusal)
			for time.Since(s.start) < 4*time.Hour {
				err := ask()
				require.ErrorContains(t, err, says)
				require.ErrorContains(t, err, "does not try the same key again before 2000-01-01")
				time.Sleep(10 * time.Second)
			}
			tried := s.tries()
			require.Len(t, tried, 7)
			for i, pause := range []time.Duration{
				time.Minute, 5 * time.Minute, 25 * time.Minute, time.Hour, time.Hour,
				time.Hour,
			} {
				require.InDelta(t, float64(pause), float64(tried[i+1]-tried[i]), float64(15*time.Second))
			}
		})
	}
}

// Concurrent calls used to try the wrong key once each.
func TestCaution_OneAttemptForAll(t *testing.T) {
	t.Parallel()
	withSource(t, func(t *testing.T, s *fakeSource, ask func() error) {
		s.set(1, answered(errorcode.KDC_ERR_PREAUTH_FAILED))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if ask() == nil {
					t.Error("got a ticket")
				}
			})
		}
		all.Wait()
		require.Len(t, s.tries(), 1)
	})
}

// Another key is tried at once, and its refusals have separate pauses. A key that was accepted is not delayed later.
func TestCaution_KeyIsReplaced(t *testing.T) {
	t.Parallel()
	withSource(t, func(t *testing.T, s *fakeSource, ask func() error) {
		s.set(1, answered(errorcode.KDC_ERR_PREAUTH_FAILED))
		for range 100 {
			require.Error(t, ask())
			time.Sleep(time.Second)
		}
		require.Len(t, s.tries(), 2)
		s.set(2, answered(errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN))
		err := ask()
		require.ErrorContains(t, err, "no principal")
		require.NotContains(t, err.Error(), "wrong key")
		time.Sleep(time.Minute)
		require.Error(t, ask())
		require.Len(t, s.tries(), 2)
		s.set(3, nil)
		for range 10 {
			require.NoError(t, ask())
		}
		require.Len(t, s.tries(), 10)
		for range 3 {
			s.set(3, answered(errorcode.KDC_ERR_PREAUTH_FAILED))
			require.Error(t, ask())
			time.Sleep(time.Minute)
			s.set(3, nil)
			require.NoError(t, ask(), "after the first pause again")
			require.NoError(t, ask())
		}
		require.Len(t, s.tries(), 9)
	})
}

// When the principal is locked, and then no center answers, the error still reports the wrong key.
func TestCaution_FirstCauseStays(t *testing.T) {
	t.Parallel()
	withSource(t, func(t *testing.T, s *fakeSource, ask func() error) {
		s.set(1, answered(errorcode.KDC_ERR_PREAUTH_FAILED))
		require.Error(t, ask())
		time.Sleep(time.Minute)
		s.set(1, answered(errorcode.KDC_ERR_CLIENT_REVOKED))
		err := ask()
		require.ErrorContains(t, err, "wrong key of alice@TEST.LOCAL")
		require.ErrorContains(t, err, "the latest attempt: alice@TEST.LOCAL is disabled or locked out")
		require.ErrorContains(t, ask(), "wrong key of alice@TEST.LOCAL")
		time.Sleep(5 * time.Minute)
		s.tries()
		s.set(1, krberror.NewErrorf(krberror.NetworkingError, "nobody is there"))
		for range 60 {
			err = ask()
			require.ErrorContains(t, err, "wrong key of alice@TEST.LOCAL")
			time.Sleep(time.Second)
		}
		require.Len(t, s.tries(), 1, "the request may have arrived")
	})
}

// Errors that do not blame the key delay nothing.
func TestCaution_OtherErrors(t *testing.T) {
	t.Parallel()
	for says, err := range map[string]error{
		"no key distribution center answers": krberror.NewErrorf(krberror.NetworkingError, "nobody is there"),
		"synchronize them with NTP": krberror.NewErrorf(krberror.KRBMsgError,
			"clock skew with KDC too large"),
		"alice@TEST.LOCAL cannot get a ticket for":        errors.New("something else"),
		"with an encryption type that both sides support": answered(errorcode.KDC_ERR_ETYPE_NOSUPP),
	} {
		withSource(t, func(t *testing.T, s *fakeSource, ask func() error) {
			s.set(1, err)
			for range 10 {
				require.ErrorContains(t, ask(), says)
			}
			require.Len(t, s.tries(), 10)
		})
	}
}

// Only the principal's own keys count, so a keytab that is rewritten with the same keys has the same fingerprint.
func TestKeytab_Fingerprint(t *testing.T) {
	t.Parallel()
	of := func(now time.Time, principals map[string]string) fingerprint {
		s, err := (&keytabSource{file: keytabFile(t, now, principals)}).open(alice, config.New())
		require.NoError(t, err)
		return s.key
	}
	now := time.Now()
	first := of(now, map[string]string{"alice": "a", "bob": "b"})
	require.Equal(t, first, of(now.Add(time.Hour), map[string]string{"alice": "a", "alice@OTHER": "d", "bob": "c"}))
	require.NotEqual(t, first, of(now, map[string]string{"alice": "b", "bob": "b"}))
}

// keytabFile writes the keys of passwords, by principal.
func keytabFile(t *testing.T, now time.Time, passwords map[string]string) string {
	t.Helper()
	k := keytab.New()
	for _, name := range slices.Sorted(maps.Keys(passwords)) {
		who, err := parsePrincipal(name)
		require.NoError(t, err)
		require.NoError(t, k.AddEntry(who.name, cmp.Or(who.realm, alice.realm), passwords[name], now, 1,
			etypeID.AES256_CTS_HMAC_SHA1_96))
	}
	text, err := k.Marshal()
	require.NoError(t, err)
	return file(t, "keytab", string(text))
}
