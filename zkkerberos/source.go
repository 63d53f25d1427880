package zkkerberos

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// source provides the secret of the client.
type source interface {
	// name returns the principal of the client. If it has no realm, it gets the given one, which may be empty.
	name(realm string) (principal, error)
	// open reads the secret.
	open(who principal, c *config.Config, settings ...func(*client.Settings)) (*secret, error)
}

// secret is what was read from a source.
type secret struct {
	kdc   *client.Client
	key   fingerprint             // zero if login sends no request
	login func() (*ticket, error) // returns the ticket with which the client requests others
}

// whoIs returns the principal with its realm.
func whoIs(s source, file string) (principal, error) {
	c, err := readConfig(file)
	if err != nil {
		return principal{}, err
	}
	who, err := s.name(c.LibDefaults.DefaultRealm)
	if err != nil {
		return principal{}, err
	}
	if who.realm == "" {
		return principal{}, fmt.Errorf("principal %s: it has no realm, and krb5.conf has no default_realm", who)
	}
	return who, nil
}

type keytabSource struct{ file, principal string }

func (s *keytabSource) read() (*keytab.Keytab, error) {
	k, err := guarded(func() (*keytab.Keytab, error) { return keytab.Load(s.file) })
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", s.file, err)
	}
	return k, nil
}

// name returns the requested principal, or the only one of the file.
func (s *keytabSource) name(realm string) (principal, error) {
	k, err := s.read()
	if err != nil {
		return principal{}, err
	}
	var names []principal
	for _, e := range k.Entries {
		if p := (principal{strings.Join(e.Principal.Components, "/"), e.Principal.Realm}); !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	if len(names) == 0 {
		return principal{}, fmt.Errorf("keytab %s has no keys: export it again", s.file)
	}
	if s.principal == "" {
		if len(names) != 1 {
			return principal{}, fmt.Errorf("keytab %s has %d principals: name one of %v", s.file, len(names), names)
		}
		return names[0], nil
	}
	want, err := parsePrincipal(s.principal)
	if err != nil {
		return principal{}, err
	}
	want.realm = cmp.Or(want.realm, realm)
	if want.realm != "" && !slices.Contains(names, want) {
		return principal{}, fmt.Errorf("keytab %s has no key of %s, only of %v", s.file, want, names)
	}
	return want, nil
}

func (s *keytabSource) open(who principal, c *config.Config, settings ...func(*client.Settings)) (*secret, error) {
	k, err := s.read()
	if err != nil {
		return nil, err
	}
	keys := sha256.New()
	for _, e := range k.Entries {
		if strings.Join(e.Principal.Components, "/") == who.name && e.Principal.Realm == who.realm {
			_, _ = fmt.Fprintf(keys, "%d %d %x\n", e.KVNO, e.Key.KeyType, e.Key.KeyValue) // a hash never fails
		}
	}
	return keyed(fingerprint(keys.Sum(nil)), client.NewWithKeytab(who.name, who.realm, k, c, settings...)), nil
}

type passwordSource struct{ principal, password string }

func (s *passwordSource) name(realm string) (principal, error) {
	if s.password == "" {
		return principal{}, errors.New("the password is empty")
	}
	who, err := parsePrincipal(s.principal)
	who.realm = cmp.Or(who.realm, realm)
	return who, err
}

func (s *passwordSource) open(who principal, c *config.Config, settings ...func(*client.Settings)) (*secret, error) {
	return keyed(sha256.Sum256([]byte(s.password)), client.NewWithPassword(who.name, who.realm, s.password, c,
		settings...)), nil
}

// keyed returns a secret with which the client requests a ticket-granting ticket. The methods of gokrb5 that would
// keep that ticket start a goroutine.
func keyed(key fingerprint, c *client.Client) *secret {
	return &secret{c, key, func() (*ticket, error) {
		request, err := messages.NewASReqForTGT(c.Credentials.Domain(), c.Config, c.Credentials.CName())
		if err != nil {
			return nil, err
		}
		answer, err := c.ASExchange(c.Credentials.Domain(), request, 0)
		if err != nil {
			return nil, err
		}
		return &ticket{answer.Ticket, answer.DecryptedEncPart.Key, answer.DecryptedEncPart.EndTime}, nil
	}}
}

type cacheSource struct{ cache string }

func (s *cacheSource) read() (*credentials.CCache, string, error) {
	name := cmp.Or(s.cache, os.Getenv("KRB5CCNAME"), fmt.Sprintf("FILE:/tmp/krb5cc_%d", os.Getuid()))
	file := strings.TrimPrefix(name, "FILE:")
	if kind, _, ok := strings.Cut(file, ":"); ok && kind == strings.ToUpper(kind) && !strings.Contains(kind, "/") &&
		len(kind) > 1 {
		return nil, "", fmt.Errorf(
			"credential cache %s: only file caches are supported: run kinit with KRB5CCNAME=FILE:/path", name)
	}
	c, err := guarded(func() (*credentials.CCache, error) { return credentials.LoadCCache(file) })
	if err != nil {
		return nil, "", fmt.Errorf("credential cache %s: %w: run kinit, or set KRB5CCNAME", name, err)
	}
	return c, name, nil
}

func (s *cacheSource) name(string) (principal, error) {
	c, _, err := s.read()
	if err != nil {
		return principal{}, err
	}
	return principal{c.GetClientPrincipalName().PrincipalNameString(), c.GetClientRealm()}, nil
}

// open uses the ticket that kinit has obtained. Nothing is requested.
func (s *cacheSource) open(who principal, c *config.Config, settings ...func(*client.Settings)) (*secret, error) {
	cache, name, err := s.read()
	if err != nil {
		return nil, err
	}
	if now := (principal{cache.GetClientPrincipalName().PrincipalNameString(), cache.GetClientRealm()}); now != who {
		return nil, fmt.Errorf("credential cache %s: its tickets now belong to %s instead of %s", name, now, who)
	}
	for _, found := range cache.GetEntries() {
		if found.Server.PrincipalName.PrincipalNameString() != "krbtgt/"+who.realm {
			continue
		}
		if !found.EndTime.After(time.Now()) {
			return nil, fmt.Errorf(
				"credential cache %s: the ticket of %s expired at %s: run kinit, and have kinit -R or k5start renew it",
				name, who, found.EndTime.Format(time.DateTime))
		}
		var t messages.Ticket
		if err := t.Unmarshal(found.Ticket); err != nil {
			return nil, fmt.Errorf("credential cache %s: %w", name, err)
		}
		// The password is never used, because a ticket needs no login.
		kdc := client.NewWithPassword(who.name, who.realm, "", c, settings...)
		return &secret{kdc: kdc, login: func() (*ticket, error) { return &ticket{t, found.Key, found.EndTime}, nil }}, nil
	}
	return nil, fmt.Errorf("credential cache %s: it has no ticket-granting ticket of %s: run kinit", name, who)
}

// guarded calls a function of gokrb5, which panics on some malformed input.
func guarded[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed data: %v", p)
		}
	}()
	return f()
}

// ticket is a ticket with its key.
type ticket struct {
	messages.Ticket
	key types.EncryptionKey
	end time.Time
}
