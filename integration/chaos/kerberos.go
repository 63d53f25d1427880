package chaos

import (
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// Kerberos sets the identities of the clients of a run. They find the Kerberos configuration through KRB5_CONFIG. Only
// the principals of the clients can access the nodes of the recipes.
type Kerberos struct {
	Keytab     string         // with the keys of the principals
	Principals []string       // of the clients, assigned to those of one group in rotation
	Server     string         // principal of all servers
	Operator   sasl.Mechanism // of a superuser, who deletes and compares what the clients have created
}

// operator returns the options of the operator.
func (k *Kerberos) operator(opts ...conn.Option) []conn.Option {
	if k == nil {
		return opts
	}
	return append(opts, conn.WithSASL(k.Operator))
}

// worker returns the arguments of the client in a place.
func (k *Kerberos) worker(place int) []string {
	if k == nil {
		return nil
	}
	return []string{
		"-keytab", k.Keytab, "-principal", k.Principals[place%len(k.Principals)], "-server", k.Server,
		"-acl", strings.Join(k.Principals, ","),
	}
}

// String describes it in the report.
func (k *Kerberos) String() string {
	if k == nil {
		return "let everyone in"
	}
	return fmt.Sprintf("want Kerberos: the clients are %s", strings.Join(k.Principals, ", "))
}
