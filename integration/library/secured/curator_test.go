package secured

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/integration/kit/kdc"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/integration/others/curator"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Curator and our client share one identity, and count under one lock, on whose node only that identity may create and
// delete.
func TestKerberos_MixedCounterWithCurator(t *testing.T) {
	k := realm(t)
	s := kerberosServer(t, k, "3.9", zkserver.WithSetting("sessionRequireClientSASLAuth", "true"))
	m := keytab(t, k, "alice")
	c, _ := reach(t, s.Addr(), m, only("alice@"+kdc.Realm), long)
	require.NoError(t, c.CreateAll(t.Context(), "/counter", nil))

	jaas := k.JAAS("Client", keytabFile(t, k, "alice"), "alice")
	classes := t.TempDir()
	curator.Compile(t, classes)
	java := curator.Start(t, classes, s.Addr(), 30*time.Second, func(check.Event) {},
		"-Djava.security.krb5.conf="+k.Config(),
		"-Djava.security.auth.login.config="+jaas, "-Dzookeeper.server.principal=zookeeper/localhost@"+kdc.Realm)

	const sections = 50
	socket := filepath.Join(t.TempDir(), "counter")
	counter, err := resource.Serve(socket)
	require.NoError(t, err)
	t.Cleanup(counter.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	theirs := java.Begin("loop", "java", "mutex", "/counter", "-", sections, socket)
	var ours sync.WaitGroup
	for i := range 2 {
		c, l := reach(t, s.Addr(), m, only("alice@"+kdc.Realm), long)
		lock, err := mutex.New(c, "/counter")
		require.NoError(t, err)
		name := fmt.Sprint("go-", i)
		res, err := resource.Dial(socket, name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Close() })
		ours.Go(func() {
			for n := range sections {
				if n%20 == 19 {
					l.cut()
				}
				err := lock.Do(ctx, func(context.Context, *zkrecipes.Hold) error {
					version, err := res.Read("/counter", 0)
					if err != nil {
						return err
					}
					return res.Add("/counter", 0, version, fmt.Sprint(name, "-", n))
				})
				assertNoError(t, err)
			}
		})
	}
	ours.Wait()
	_, err = theirs(ctx)
	require.NoError(t, err)
	updates := counter.Set("/counter").Updates()
	require.Len(t, updates, 3*sections)
	require.Empty(t, check.LostUpdates(updates))
	require.NoError(t, c.Delete(ctx, "/counter", -1), "nobody has left a node")
}
