// Package kdc runs a Kerberos key distribution center for tests: MIT's, with the realm EXAMPLE.COM, on loopback. It
// starts in a second, and needs no privileges. All users of the machine may read its files, because servers may run
// under different users.
package kdc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// Realm is the realm of every center.
const Realm = "EXAMPLE.COM"

// A KDC is a key distribution center. It must not be used concurrently.
type KDC struct {
	tb   testing.TB
	dir  string
	addr string
	proc *exec.Cmd
}

// Start runs a center until the end of the test. If the programs are not installed, the test is skipped; with
// REQUIRE_REAL=1 it fails.
func Start(tb testing.TB) *KDC {
	tb.Helper()
	if _, err := exec.LookPath(program("krb5kdc")); err != nil {
		need.Missing(tb, fmt.Sprintf("no Kerberos: %v: run apt-get install krb5-kdc krb5-admin-server krb5-user faketime",
			err))
	}
	host := loopback.Block()(1)
	ports, err := loopback.FreePorts(host, 1)
	check(tb, err)
	k := &KDC{tb: tb, dir: directory(tb), addr: net.JoinHostPort(host, fmt.Sprint(ports[0]))}
	k.write("krb5.conf", fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_realm = false
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
[domain_realm]
 localhost = %[1]s
`, Realm, k.addr))
	k.write("kdc.conf", fmt.Sprintf(`[kdcdefaults]
 kdc_listen = %[3]s
 kdc_tcp_listen = %[3]s
[realms]
 %[1]s = {
  database_name = %[2]s/principal
  key_stash_file = %[2]s/stash
  max_life = 10m
  max_renewable_life = 30m
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
 }
[logging]
 kdc = FILE:%[2]s/kdc.log
`, Realm, k.dir, k.addr))
	k.run("", "kdb5_util", "create", "-s", "-r", Realm, "-P", "master")
	k.Up("")
	tb.Cleanup(func() { k.Down() })
	return k
}

// directory creates a directory that all users may read. Those of testing.TB are readable only by the user of the test.
func directory(tb testing.TB) string {
	dir, err := os.MkdirTemp("", "kdc-") //nolint:usetesting // see above
	check(tb, err)
	tb.Cleanup(func() { check(tb, os.RemoveAll(dir)) })
	check(tb, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	return dir
}

// program returns the path of a program, which may be in a directory that is not in the PATH of normal users.
func program(name string) string {
	if found, err := exec.LookPath(name); err == nil {
		return found
	}
	return filepath.Join("/usr/sbin", name)
}

func (k *KDC) write(name, text string) {
	check(k.tb, os.WriteFile(k.Path(name), []byte(text), 0o644)) //nolint:gosec // see directory
}

// Path returns the path of a file in the center's directory, which is removed at the end of the test.
func (k *KDC) Path(name string) string { return filepath.Join(k.dir, name) }

// Config returns the path of the clients' krb5.conf.
func (k *KDC) Config() string { return k.Path("krb5.conf") }

func (k *KDC) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+k.Config(), "KRB5_KDC_PROFILE="+k.Path("kdc.conf"),
		"KRB5CCNAME=FILE:"+k.Path("nobody"))
	return cmd
}

func (k *KDC) run(in, name string, args ...string) {
	k.tb.Helper()
	cmd := k.command(name, args...)
	cmd.Stdin = strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.tb.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// Admin runs commands of kadmin.local, such as "addprinc -randkey alice".
func (k *KDC) Admin(commands ...string) {
	k.tb.Helper()
	cmd := k.command("kadmin.local", "-r", Realm)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err == nil && bytes.Contains(out, []byte("while ")) {
		err = errors.New("a command has failed")
	}
	if err != nil {
		k.tb.Fatalf("kadmin.local %q: %v\n%s", commands, err, out)
	}
}

// Keytab generates new keys for principals, and returns a new file with them. An old password no longer works.
func (k *KDC) Keytab(name string, principals ...string) string {
	k.tb.Helper()
	file := k.Path(name)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		k.tb.Fatal(err)
	}
	k.Admin("ktadd -k " + file + " " + strings.Join(principals, " "))
	check(k.tb, os.Chmod(file, 0o644)) //nolint:gosec // see directory
	return file
}

// JAAS writes the file with which Java logs in as a principal whose key is in the keytab, and returns its name. The
// section is Server or Client.
func (k *KDC) JAAS(section, keytab, principal string) string {
	k.tb.Helper()
	name := strings.ToLower(section) + ".jaas"
	k.write(name, fmt.Sprintf(`%s {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true
  keyTab=%q
  storeKey=true
  useTicketCache=false
  principal="%s@%s";
};
`, section, keytab, principal, Realm))
	return k.Path(name)
}

// Kinit stores a ticket of a principal in the credential cache, and returns the name of the cache.
func (k *KDC) Kinit(name, principal, password string, args ...string) string {
	k.tb.Helper()
	cache := "FILE:" + k.Path(name)
	k.run(password+"\n", "kinit", append(append([]string{"-c", cache}, args...), principal)...)
	return cache
}

// Down stops the center, as if its machine were off.
func (k *KDC) Down() {
	if k.proc == nil {
		return
	}
	_ = k.proc.Process.Kill()
	_ = k.proc.Wait() // it was killed
	k.proc = nil
}

// Up restarts the center, with its clock shifted by a time such as "+10m"; "" means the correct time.
func (k *KDC) Up(skew string) {
	k.tb.Helper()
	k.Down()
	check(k.tb, errors.Join(os.RemoveAll(k.Path("kdc.log"))))
	cmd := k.command("krb5kdc", "-n", "-r", Realm)
	if skew != "" {
		cmd.Env = append(cmd.Env, Faketime(k.tb, skew)...)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	check(k.tb, cmd.Start())
	k.proc = cmd
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if log, err := os.ReadFile(k.Path("kdc.log")); err == nil && bytes.Contains(log, []byte("commencing operation")) {
			return
		}
		if time.Since(start) > time.Minute {
			k.tb.Fatalf("the key distribution center does not start:\n%s", out.String())
		}
	}
}

// Faketime returns environment variables that shift the clock of a process by a time such as "+10m".
func Faketime(tb testing.TB, skew string) []string {
	tb.Helper()
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if err != nil || len(found) == 0 {
		tb.Fatal("no faketime: run apt-get install faketime")
	}
	return []string{"LD_PRELOAD=" + found[0], "FAKETIME=" + skew}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
