package foreign

import (
	"path/filepath"
	"testing"
)

const kafkaTests = "kafkatests-3.9.1"

// TestKafkaSuite runs the tests of Kafka's use of ZooKeeper, up to Kafka 3.9; without FOREIGN=all, only those of its
// client.
func TestKafkaSuite(t *testing.T) {
	needJava(t)
	jars := filepath.Join(fetched(t, kafkaTests), "*")
	ours := compile(t, jars, "testdata/standin/StandIn.java", "testdata/standin/EmbeddedZookeeper.java")
	selected := []string{"--select-class=kafka.zookeeper.ZooKeeperClientTest"}
	if everything() {
		selected = append(selected, "--select-class=kafka.zk.KafkaZkClientTest")
	}
	t.Run("zktest", func(t *testing.T) {
		env := []string{
			"FOREIGN_STANDIN=" + filepath.Join(standin(t, "standin"), "standin"),
			"FOREIGN_ENSEMBLES=" + startEnsembles(t, "3.8.4"),
		}
		r := junit(t, ours+":"+jars, env, selected...)
		r.again(t, nil, func(failed []string) results { return junit(t, ours+":"+jars, env, r.classes(failed)...) })
		judge(t, "zktest", r, nil)
	})
	if everything() {
		t.Run("zookeeper", func(t *testing.T) { judge(t, "zookeeper", junit(t, jars, nil, selected...), nil) })
	}
}
