package zkkerberos

import (
	"fmt"
	"strings"

	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/types"
)

// principal is a name in a realm, such as zookeeper/zk1.example.com@EXAMPLE.COM.
type principal struct {
	name, realm string // the realm may be empty
}

func parsePrincipal(text string) (principal, error) {
	name, realm, found := strings.Cut(text, "@")
	if name == "" || found && realm == "" || strings.ContainsAny(text, " \t\n\\") || strings.Contains(realm, "@") {
		return principal{}, fmt.Errorf("principal %q: want one such as name@REALM or service/host@REALM", text)
	}
	return principal{name, realm}, nil
}

func (p principal) String() string {
	if p.realm == "" {
		return p.name
	}
	return p.name + "@" + p.realm
}

// parts returns the name in the form used in messages.
func (p principal) parts() types.PrincipalName {
	return types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, p.name)
}

// host returns the part after the service, which may be empty.
func (p principal) host() string {
	_, host, _ := strings.Cut(p.name, "/")
	return host
}
