package chaos_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/kit/kdc"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
)

// ticks is the number of ticks in a session timeout.
const ticks = 6

// The long form is `make chaos DURATION=30m SEED=1`. The environment configures it:
//
//	CHAOS_KINDS     selects some kinds of faults
//	CHAOS_RECIPES   selects some recipes
//	CHAOS_CLIENTS   number of clients of each recipe
//	CHAOS_SECTION   longest section of a lock
//	CHAOS_MATES     number of callers in addition to the one that reports: with many clients and short
//	                sections, a run is mostly hand-overs
//	CHAOS_EAGER     true: mutex and election use WithHandOver(HandOverEager)
//	CHAOS_SESSION   session timeout: a busy machine needs more than three seconds
//	CHAOS_LIMIT     how long after a fault clients may take until they are served again, by default three session
//	                timeouts: so does a busy machine, to say nothing of several
//	CHAOS_PEACE     time between the end of a fault and the next one. A fault lasts for seconds, and its
//	                victims keep their locks, so most grants fall between faults
//	CHAOS_KERBEROS  true: the servers require Kerberos; see realm
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	cfg := configure(t)
	opts := []zkserver.Option{zkserver.WithTickTime(cfg.Tick), zkserver.WithContainerCheck(500 * time.Millisecond)}
	if zkserver.Isolates(t) {
		opts = append(opts, zkserver.WithOwnUsers())
	}
	var kerberos bool
	if env(t, "CHAOS_KERBEROS", &kerberos, strconv.ParseBool); kerberos {
		var secure []zkserver.Option
		cfg.Kerberos, secure = realm(t)
		opts = append(opts, secure...)
	}
	e := zkserver.StartEnsemble(t, 3, opts...)
	if !e.Servers[0].Ours() {
		t.Skip("servers that are not ours are not for breaking")
	}
	t.Logf("seed %d: make chaos DURATION=%v SEED=%d", cfg.Seed, cfg.Duration, cfg.Seed)
	report, err := chaos.Run(cfg, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%v", report)
	if file := os.Getenv("CHAOS_REPORT"); file != "" {
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(report.String()), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, v := range report.Violations {
		t.Error(v)
	}
}

func configure(t *testing.T) chaos.Config {
	t.Helper()
	dir := t.TempDir()
	worker, err := chaos.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := chaos.Config{
		Seed: rand.Uint64N(1e6), Duration: short, Session: 3 * time.Second, Section: 40 * time.Millisecond,
		Worker: worker, Dir: dir, Pictures: "../reports", Log: t.Logf,
		Kinds: chaos.Kinds(zkserver.Isolates(t)),
		Groups: []chaos.Group{
			{Recipe: "election", Clients: 3, Limit: 1},
			{Recipe: "mutex", Clients: 3, Limit: 1},
			{Recipe: "try", Clients: 2, Limit: 1},
			{Recipe: "rwlock", Clients: 3},
			{Recipe: "semaphore", Clients: 3, Limit: 2},
			{Recipe: "node", Clients: 2},
			{Recipe: "claim", Clients: 2},
			{Recipe: "group", Clients: 3},
			{Recipe: "cache", Clients: 2},
			{Recipe: "value", Clients: 2},
			{Recipe: "counter", Clients: 2},
			{Recipe: "double", Clients: 3, Limit: 2},
			{Recipe: "register", Clients: 2},
			{Recipe: "guarded", Clients: 2},
		},
	}
	if os.Getenv("CHAOS_DURATION") != "" { // the long form
		cfg.Groups = append(cfg.Groups, chaos.Group{Recipe: "shards", Clients: 8, Limit: 200})
	}
	env(t, "CHAOS_SEED", &cfg.Seed, func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
	env(t, "CHAOS_DURATION", &cfg.Duration, time.ParseDuration)
	env(t, "CHAOS_SECTION", &cfg.Section, time.ParseDuration)
	env(t, "CHAOS_MATES", &cfg.Mates, strconv.Atoi)
	env(t, "CHAOS_EAGER", &cfg.Eager, strconv.ParseBool)
	env(t, "CHAOS_SESSION", &cfg.Session, time.ParseDuration)
	cfg.Tick, cfg.Peace, cfg.Limit = cfg.Session/ticks, cfg.Session/4, 3*cfg.Session
	env(t, "CHAOS_LIMIT", &cfg.Limit, time.ParseDuration)
	env(t, "CHAOS_PEACE", &cfg.Peace, time.ParseDuration)
	for i := range cfg.Groups {
		env(t, "CHAOS_CLIENTS", &cfg.Groups[i].Clients, strconv.Atoi)
	}
	if only := os.Getenv("CHAOS_KINDS"); only != "" {
		cfg.Kinds = nil
		for kind := range strings.SplitSeq(only, ",") {
			cfg.Kinds = append(cfg.Kinds, chaos.Kind(kind))
		}
	}
	if only := os.Getenv("CHAOS_RECIPES"); only != "" {
		cfg.Groups = slices.DeleteFunc(cfg.Groups, func(g chaos.Group) bool {
			return !slices.Contains(strings.Split(only, ","), g.Recipe)
		})
	}
	return cfg
}

// realm starts a key distribution center, and returns the options of servers that require a ticket from each client.
// The clients share three principals, whose tickets expire after 30 s. What they create is accessible only to these
// principals and to the operator, who is a superuser.
func realm(t *testing.T) (*chaos.Kerberos, []zkserver.Option) {
	t.Helper()
	k := kdc.Start(t)
	t.Setenv("KRB5_CONFIG", k.Config())
	const servers = "zookeeper/localhost"
	who := &chaos.Kerberos{Server: servers + "@" + kdc.Realm}
	k.Admin("addprinc -randkey "+servers, "addprinc -randkey operator")
	names := []string{"ann", "ben", "cem"}
	for _, name := range names {
		k.Admin("addprinc -randkey -maxlife 30sec " + name)
		who.Principals = append(who.Principals, name+"@"+kdc.Realm)
	}
	who.Keytab = k.Keytab("clients.keytab", names...)
	operator, err := zkkerberos.Keytab(k.Keytab("operator.keytab", "operator"), "", zkkerberos.WithServer(who.Server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = operator.Close() }) // it never fails
	who.Operator = operator
	return who, []zkserver.Option{
		zkserver.WithProperty("java.security.auth.login.config", k.JAAS("Server", k.Keytab("zk.keytab", servers), servers)),
		zkserver.WithProperty("java.security.krb5.conf", k.Config()),
		zkserver.WithSetting("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
		zkserver.WithSetting("sessionRequireClientSASLAuth", "true"),
		zkserver.WithSetting("superUser", "operator@"+kdc.Realm),
	}
}

// env sets value from an environment variable, if it is set.
func env[T any](t *testing.T, name string, value *T, parse func(string) (T, error)) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return
	}
	parsed, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	*value = parsed
}
