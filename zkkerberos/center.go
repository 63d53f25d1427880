package zkkerberos

import (
	"fmt"

	"github.com/jcmturner/gokrb5/v8/client"
)

// center is how to get tickets from the key distribution center.
type center struct {
	source source
	who    principal
	config string // files
	noFAST bool
}

// ask logs in and gets a ticket to a server. The source and the configuration are read each time, because they may have changed.
// It takes no context, because gokrb5 has none: it ends by itself, after 5 s for each center and protocol.
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
	kdc, granting, err := c.source.login(c.who, config, client.DisablePAFXFAST(c.noFAST))
	if err != nil {
		return nil, err
	}
	defer kdc.Destroy() // it may have met another realm
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

// grant asks the realm of a server for a ticket to it.
func grant(kdc *client.Client, granting *ticket, server principal) (*ticket, error) {
	_, answer, err := kdc.TGSREQGenerateAndExchange(server.parts(), server.realm, granting.Ticket, granting.key, false)
	if err != nil {
		return nil, err
	}
	// gokrb5 does not compare them. With aliases they may differ, and the center answers for that.
	if got := answer.DecryptedEncPart.SName.PrincipalNameString(); got != server.name && !kdc.Config.LibDefaults.Canonicalize {
		return nil, fmt.Errorf("the key distribution center has given a ticket to %s in place of one to %s", got, server.name)
	}
	return &ticket{answer.Ticket, answer.DecryptedEncPart.Key, answer.DecryptedEncPart.EndTime}, nil
}
