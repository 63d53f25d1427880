package foreign

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
)

// Programs that depend on ZooKeeper run here as clusters, lose a member, and get it back. Each takes a minute of
// processor time, so they run with FOREIGN=all.

func onServers(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	if !everything() {
		t.Skip("FOREIGN=all runs it")
	}
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) { test(t, server.start(t)) })
	}
}

// javaPath compiles a class of testdata against the jars of a release, and returns the class path of both.
func javaPath(t *testing.T, release, source string) string {
	t.Helper()
	needJava(t)
	jars := filepath.Join(fetched(t, release), "*")
	return compile(t, jars, source) + ":" + jars
}

// java returns the command of a class that writes no log.
func java(path, class string, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m",
		"-Djava.util.logging.config.file=" + os.DevNull, "-Dzk.session.timeout=4000", "-cp", path, class,
	}, args...)...)
}

// asker returns a function that sends requests to a peer, all of which must succeed.
func asker(t *testing.T, p *peer.Peer) func(words ...any) {
	return func(words ...any) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		_, err := p.Ask(ctx, words...)
		require.NoError(t, err)
	}
}

// When one of two Kafka brokers is killed, nothing written is lost. The other becomes the controller, and the leader of
// all partitions. The first catches up when it returns.
func TestKafkaCluster(t *testing.T) {
	path := javaPath(t, kafkaTests, "testdata/KafkaPeer.java")
	onServers(t, func(t *testing.T, addr string) {
		brokers := []*broker{newBroker(t, path, addr, 1), newBroker(t, path, addr, 2)}
		first, second := brokers[0].start(t), brokers[1].start(t)
		client := peer.Start(t, java(path, "KafkaPeer", brokers[0].addr+","+brokers[1].addr), nil)
		ask := asker(t, client)
		ask("brokers", 2)
		ask("topic")
		ask("isr", 2)
		ask("produce", 0, 1000)
		ask("consume", 1000)
		first()
		ask("isr", 1)
		ask("produce", 1000, 2000)
		ask("consume", 2000)
		brokers[0].start(t)
		ask("isr", 2)
		second()
		ask("isr", 1)
		ask("consume", 2000)
	})
}

// broker is a Kafka broker that can be killed and restarted.
type broker struct{ path, addr, config string }

func newBroker(t *testing.T, path, zookeeper string, id int) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	dir := t.TempDir()
	b := &broker{path: path, addr: addr, config: filepath.Join(dir, "server.properties")}
	require.NoError(t, os.WriteFile(b.config, fmt.Appendf(nil, `broker.id=%d
listeners=PLAINTEXT://%s
zookeeper.connect=%s
zookeeper.session.timeout.ms=4000
log.dirs=%s
offsets.topic.num.partitions=1
offsets.topic.replication.factor=2
group.initial.rebalance.delay.ms=0
`, id, addr, zookeeper, filepath.Join(dir, "log")), 0o600))
	return b
}

// start starts the broker; kill kills it.
func (b *broker) start(t *testing.T) (kill func()) {
	t.Helper()
	cmd := java(b.path, "kafka.Kafka", b.config)
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill() // it may already have been killed
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	return kill
}

// Two Helix participants share a resource. The slave becomes its master when the master is killed. When the first
// returns, it is the slave until the controller makes it the master again.
func TestHelixCluster(t *testing.T) {
	path := javaPath(t, "helix-1.4.3", "testdata/HelixPeer.java")
	onServers(t, func(t *testing.T, addr string) {
		start := func(name string) *peer.Peer { return peer.Start(t, java(path, "HelixPeer", addr, name), nil) }
		ask := asker(t, start("controller"))
		members := map[string]*peer.Peer{"a": start("a"), "b": start("b")}
		ask("view", "{a=MASTER,b=SLAVE}")
		members["a"].Kill()
		ask("view", "{b=MASTER}")
		start("a")
		ask("view", "{a=MASTER,b=SLAVE}")
	})
}
