package zkkerberos

import (
	"cmp"
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

// source is where the secret of the client comes from.
type source interface {
	// name returns the principal of the client.
	name() (principal, error)
	// login returns the ticket with which the client asks for others, and the time when it ends.
	login(who principal, c *config.Config, settings ...func(*client.Settings)) (*client.Client, *ticket, error)
}

// whoIs returns the principal with its realm.
func whoIs(s source, file string) (principal, error) {
	c, err := readConfig(file)
	if err != nil {
		return principal{}, err
	}
	who, err := s.name()
	if err != nil {
		return principal{}, err
	}
	if who.realm = cmp.Or(who.realm, c.LibDefaults.DefaultRealm); who.realm == "" {
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

// name returns the principal that was asked for, or the only one of the file.
func (s *keytabSource) name() (principal, error) {
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
	if s.principal == "" {
		if len(names) != 1 {
			return principal{}, fmt.Errorf("keytab %s has %d principals: say which of %v", s.file, len(names), names)
		}
		return names[0], nil
	}
	want, err := parsePrincipal(s.principal)
	if err == nil && !slices.ContainsFunc(names, func(p principal) bool {
		return p.name == want.name && (want.realm == "" || p.realm == want.realm)
	}) {
		err = fmt.Errorf("keytab %s has no key of %s: it has those of %v", s.file, want, names)
	}
	return want, err
}

func (s *keytabSource) login(who principal, c *config.Config, settings ...func(*client.Settings)) (*client.Client, *ticket, error) {
	k, err := s.read()
	if err != nil {
		return nil, nil, err
	}
	return loggedIn(client.NewWithKeytab(who.name, who.realm, k, c, settings...))
}

type passwordSource struct{ principal, password string }

func (s *passwordSource) name() (principal, error) {
	if s.password == "" {
		return principal{}, errors.New("the password is empty")
	}
	return parsePrincipal(s.principal)
}

func (s *passwordSource) login(who principal, c *config.Config, settings ...func(*client.Settings)) (*client.Client, *ticket, error) {
	return loggedIn(client.NewWithPassword(who.name, who.realm, s.password, c, settings...))
}

// loggedIn asks for a ticket that grants others. The methods of gokrb5 that would keep it start a goroutine.
func loggedIn(c *client.Client) (*client.Client, *ticket, error) {
	request, err := messages.NewASReqForTGT(c.Credentials.Domain(), c.Config, c.Credentials.CName())
	if err != nil {
		return nil, nil, err
	}
	answer, err := c.ASExchange(c.Credentials.Domain(), request, 0)
	if err != nil {
		return nil, nil, err
	}
	return c, &ticket{answer.Ticket, answer.DecryptedEncPart.Key, answer.DecryptedEncPart.EndTime}, nil
}

type cacheSource struct{ cache string }

func (s *cacheSource) read() (*credentials.CCache, string, error) {
	name := cmp.Or(s.cache, os.Getenv("KRB5CCNAME"), fmt.Sprintf("FILE:/tmp/krb5cc_%d", os.Getuid()))
	file := strings.TrimPrefix(name, "FILE:")
	if kind, _, ok := strings.Cut(file, ":"); ok && kind == strings.ToUpper(kind) && !strings.Contains(kind, "/") && len(kind) > 1 {
		return nil, "", fmt.Errorf("credential cache %s: only caches in files can be read: run kinit with KRB5CCNAME=FILE:/path", name)
	}
	c, err := guarded(func() (*credentials.CCache, error) { return credentials.LoadCCache(file) })
	if err != nil {
		return nil, "", fmt.Errorf("credential cache %s: %w: run kinit, or set KRB5CCNAME", name, err)
	}
	return c, name, nil
}

func (s *cacheSource) name() (principal, error) {
	c, _, err := s.read()
	if err != nil {
		return principal{}, err
	}
	return principal{c.GetClientPrincipalName().PrincipalNameString(), c.GetClientRealm()}, nil
}

// login takes the ticket that kinit has brought. Nothing is asked for.
func (s *cacheSource) login(who principal, c *config.Config, settings ...func(*client.Settings)) (*client.Client, *ticket, error) {
	cache, name, err := s.read()
	if err != nil {
		return nil, nil, err
	}
	if now := (principal{cache.GetClientPrincipalName().PrincipalNameString(), cache.GetClientRealm()}); now != who {
		return nil, nil, fmt.Errorf("credential cache %s: its tickets are of %s now, and no more of %s", name, now, who)
	}
	for _, found := range cache.GetEntries() {
		if found.Server.PrincipalName.PrincipalNameString() != "krbtgt/"+who.realm {
			continue
		}
		if !found.EndTime.After(time.Now()) {
			return nil, nil, fmt.Errorf("credential cache %s: the ticket of %s has ended at %s: run kinit, and let kinit -R or k5start renew it",
				name, who, found.EndTime.Format(time.DateTime))
		}
		var t messages.Ticket
		if err := t.Unmarshal(found.Ticket); err != nil {
			return nil, nil, fmt.Errorf("credential cache %s: %w", name, err)
		}
		// The password is never used: no login is needed with a ticket.
		return client.NewWithPassword(who.name, who.realm, "", c, settings...), &ticket{t, found.Key, found.EndTime}, nil
	}
	return nil, nil, fmt.Errorf("credential cache %s: it has no ticket of %s that grants others: run kinit", name, who)
}

// guarded calls a function of gokrb5, which panics at some bytes that it does not expect.
func guarded[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bytes that cannot be read: %v", p)
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
