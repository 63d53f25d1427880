//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// TestKerberos_Flags: wrong flags are reported before any ticket is requested. The tests in integration/library/secured
// show that authentication works.
func TestKerberos_Flags(t *testing.T) {
	config := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(config, []byte("[libdefaults]\n default_realm = EXAMPLE.COM\n"), 0o600))
	t.Setenv("KRB5_CONFIG", config)
	t.Setenv("KRB5CCNAME", "FILE:/nonexistent")
	for says, flags := range map[string][]string{
		"need --kerberos":                    {"--kerberos-keytab", "x"},
		"needs --kerberos-keytab":            {"--kerberos", "--kerberos-principal", "worker"},
		"keytab /nonexistent: open":          {"--kerberos", "--kerberos-keytab", "/nonexistent"},
		`server "zookeeper/@": want`:         {"--kerberos", "--kerberos-server", "zookeeper/@"},
		"credential cache FILE:/nonexistent": {"--kerberos"},
	} {
		_, errs := ends(t, exit.Usage, "127.0.0.1:1", append(flags, "lock", "/p", "--", "true")...)
		require.Contains(t, errs, says)
	}
}
