package zkkerberos

import (
	"fmt"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
)

// center requests tickets from the key distribution center.
type center struct {
	source source
	who    principal
	config string // files
	noFAST bool

	turn    chan struct{} // full while a goroutine logs in: several at once would each try a wrong key
	caution caution       // of the goroutine that logs in
}

func newCenter(s source, who principal, o *options) *center {
	return &center{source: s, who: who, config: o.config, noFAST: o.noFAST, turn: make(chan struct{}, 1)}
}

// ask logs in and gets a ticket to a server. The source and the configuration are read each time, because they may have
// changed. It takes no context, because gokrb5 supports none: it ends by itself, after 5 s for each center and
// protocol.
func (c *center) ask(server principal) (*ticket, error) {
	t, err := guarded(func() (*ticket, error) { return c.get(server) })
	if err != nil {
		return nil, explain(err, c.who, server)
	}
	return t, nil
}

func (c *center) get(server principal) (*ticket, error) {
	config, err := readConfig(c.config)
	if err != nil {
		return nil, err
	}
	kdc, granting, err := c.login(server, config)
	if err != nil {
		return nil, err
	}
	defer kdc.Destroy() // it may have a session with another realm
	realm := server.realm
	if realm == "" {
		realm = config.ResolveRealm(server.host())
	}
	at := c.who.realm
	if realm != "" && realm != at {
		if granting, err = grant(kdc, granting, principal{"krbtgt/" + realm, at}); err != nil {
			return nil, err
		}
		at = realm
	}
	return grant(kdc, granting, principal{server.name, at})
}

// login returns the ticket-granting ticket. It reads the secret only when it is this goroutine's turn, so that it
// cannot try an outdated secret.
func (c *center) login(server principal, config *config.Config) (*client.Client, *ticket, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	s, err := c.source.open(c.who, config, client.DisablePAFXFAST(c.noFAST))
	if err != nil {
		return nil, nil, err
	}
	granting, err := c.caution.try(s.key, func() (*ticket, error) {
		got, err := s.login()
		if err != nil {
			return nil, explain(err, c.who, server)
		}
		return got, nil
	})
	return s.kdc, granting, err
}

// grant asks the realm of a server for a ticket to it.
func grant(kdc *client.Client, granting *ticket, server principal) (*ticket, error) {
	_, answer, err := kdc.TGSREQGenerateAndExchange(server.parts(), server.realm, granting.Ticket, granting.key, false)
	if err != nil {
		return nil, err
	}
	// gokrb5 does not compare the names. With aliases they may differ, for which the center is responsible.
	if got := answer.DecryptedEncPart.SName.PrincipalNameString(); got != server.name &&
		!kdc.Config.LibDefaults.Canonicalize {
		return nil, fmt.Errorf("the key distribution center issued a ticket for %s instead of one for %s", got, server.name)
	}
	return &ticket{answer.Ticket, answer.DecryptedEncPart.Key, answer.DecryptedEncPart.EndTime}, nil
}
