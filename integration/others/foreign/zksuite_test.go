package foreign

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

const zookeeperTests = "zookeepertests-3.9.5"

// TestZooKeeperSuite runs the tests of ZooKeeper's client; without FOREIGN=all, those in zookeeperQuick.
func TestZooKeeperSuite(t *testing.T) {
	needJava(t)
	jars := filepath.Join(fetched(t, zookeeperTests), "*")
	ours := compile(t, jars, "testdata/standin/StandIn.java", "testdata/standin/StandInCnxnFactory.java",
		"testdata/standin/JMXEnv.java")
	classes := zookeeperQuick
	if everything() {
		classes = zookeeperClasses
	}
	// Each class runs in a separate process, as in its own project, and with its own range of ports.
	test := func(t *testing.T, server, path string, firstPorts int, env []string, flags ...string) {
		started := time.Now()
		var mu sync.Mutex
		all := results{why: map[string]string{}}
		t.Run("class", func(t *testing.T) {
			for i, class := range classes {
				t.Run(class, func(t *testing.T) {
					t.Parallel()
					args := slices.Concat(flags, []string{
						"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
						fmt.Sprintf("-Dtest.junit.threads=%d", 2*len(classes)),
						fmt.Sprintf("-Dzookeeper.junit.threadid=%d", firstPorts+i+1),
						"--select-class=org.apache.zookeeper." + class,
					})
					r := junit(t, path, env, args...)
					r.again(t, zookeeperDeclared, func([]string) results { return junit(t, path, env, args...) })
					mu.Lock()
					defer mu.Unlock()
					all.merge(r)
				})
			}
		})
		all.took = time.Since(started)
		judge(t, server, all, zookeeperDeclared)
	}
	t.Run("zktest", func(t *testing.T) {
		env := []string{
			"FOREIGN_STANDIN=" + filepath.Join(standin(t, "standin"), "standin"),
			"FOREIGN_ENSEMBLES=" + startEnsembles(t, "3.9.5"),
		}
		test(t, "zktest", ours+":"+jars, 0, env, "-Dzookeeper.serverCnxnFactory=zkrecipes.StandInCnxnFactory")
	})
	if everything() {
		t.Run("zookeeper", func(t *testing.T) { test(t, "zookeeper", jars, len(classes), nil) })
	}
}

// zookeeperQuick are the tests that run without FOREIGN=all.
var zookeeperQuick = []string{"test.CreateTest", "test.MultiOperationTest", "test.PersistentWatcherTest"}

// zookeeperClasses are the classes that query a standalone server. It omits those that inspect the memory or the files
// of a server, and those that run ensembles in their process.
var zookeeperClasses = []string{
	"GetAllChildrenNumberTest", "GetEphemeralsTest", "RemoveWatchesCmdTest", "RemoveWatchesTest", "SaslAuthTest",
	"ZKUtilTest", "ZooKeeperTest",
	"test.ACLCountTest", "test.ACLRootTest", "test.ACLTest", "test.AsyncOpsTest", "test.AuthSHA2Test",
	"test.AuthSHA3Test", "test.AuthTest",
	"test.BufferSizeTest", "test.CheckTest", "test.ChrootAsyncTest", "test.ChrootClientTest", "test.ChrootTest",
	"test.ClientHammerTest",
	"test.ClientPortBindTest", "test.ClientRetryTest", "test.ClientSkipACLTest", "test.ClientTest", "test.CreateTest",
	"test.DigestAuthDisabledTest", "test.DisconnectedWatcherTest", "test.EnforceQuotaTest", "test.EnsembleAuthTest",
	"test.FourLetterWordsTest", "test.FourLetterWordsWhiteListTest", "test.GetChildren2Test", "test.KeyAuthClientTest",
	"test.MaxCnxnsTest", "test.MultiAsyncTransactionTest", "test.MultiOperationTest", "test.NullDataTest",
	"test.PersistentRecursiveWatcherTest", "test.PersistentWatcherACLTest", "test.PersistentWatcherTest",
	"test.SaslAuthDesignatedClientTest", "test.SaslAuthDesignatedServerTest", "test.SaslAuthFailDesignatedClientTest",
	"test.SaslAuthFailTest",
	"test.SaslAuthMissingClientConfigTest", "test.SaslAuthRequiredFailNoSASLTest",
	"test.SaslAuthRequiredFailWrongSASLTest",
	"test.SaslAuthRequiredMultiClientTest", "test.SaslAuthRequiredTest", "test.SaslSuperUserTest", "test.ServerCnxnTest",
	"test.SessionInvalidationTest", "test.SessionTest", "test.SessionTimeoutTest", "test.StatTest", "test.SyncCallTest",
	"test.UnsupportedAddWatcherTest", "test.WatcherFuncTest", "test.WatcherTest", "test.ZooKeeperQuotaTest",
}

// zookeeperDeclared are the tests that may fail on zktest, each with the reason.
var zookeeperDeclared = map[string]string{
	"BufferSizeTest.testCreatesReqs":                                      inside,
	"BufferSizeTest.testStartupFailureCreate":                             inside,
	"BufferSizeTest.testStartupFailureSet":                                inside,
	"BufferSizeTest.testStartupFailureSnapshot":                           inside,
	"CheckTest.testCluster":                                               inside,
	"CheckTest.testClusterDatabaseReloadAfterCheck":                       inside,
	"ChrootClientTest.testPathValidation":                                 inside,
	"ClientSkipACLTest.testPathValidation":                                inside,
	"ClientTest.testPathValidation":                                       inside,
	"RemoveWatchesTest.testRemoveAllChildWatchesOnAPath":                  inside,
	"RemoveWatchesTest.testRemoveAllDataWatchesOnAPath":                   inside,
	"RemoveWatchesTest.testRemoveAllPersistentRecursiveWatchesOnAPath":    inside,
	"RemoveWatchesTest.testRemoveAllPersistentWatchesOnAPath":             inside,
	"RemoveWatchesTest.testRemoveAllPersistentWatchesOnAPathPartially":    inside,
	"RemoveWatchesTest.testRemoveAllWatchesOnAPath":                       inside,
	"RemoveWatchesTest.testRemovePersistentWatchesOnAPathPartially":       inside,
	"SaslAuthDesignatedClientTest.testReadAccessUser":                     inside,
	"SaslSuperUserTest.testOtherSuperIsSuper":                             inside,
	"SessionTest.testMaximumCnxnPerIP":                                    inside,
	"SessionTest.testMinMaxSessionTimeout":                                inside,
	"WatcherTest.testWatcherCount":                                        inside,
	"ZooKeeperQuotaTest.testDeleteBytesQuota":                             inside,
	"ZooKeeperQuotaTest.testDeleteCountQuota":                             inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenCreateNodeExceedBytesQuota":       inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenExceedBothBytesAndCountHardQuota": inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenExceedBytesHardQuota":             inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenExceedBytesHardQuotaExtend":       inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenExceedCountHardQuota":             inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenExceedCountHardQuotaExtend":       inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenSetChildDataExceedBytesQuota":     inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenSetQuotaLessThanExistBytes":       inside,
	"ZooKeeperQuotaTest.testSetQuotaWhenSetQuotaLessThanExistCount":       inside,
	"EnsembleAuthTest.emptyAuth":                                          plugin,
	"EnsembleAuthTest.failAuth":                                           plugin,
	"EnsembleAuthTest.passAuth":                                           plugin,
	"EnsembleAuthTest.passAuthCSV":                                        plugin,
	"KeyAuthClientTest.testAuth":                                          plugin,
	"UnsupportedAddWatcherTest.testBehavior":                              plugin,
	"ServerCnxnTest.testServerCnxnExpiry": setting +
		"zookeeper.nio.sessionlessCnxnTimeout",
	"SessionTest.testSessionStateNoDupStateReporting": "it looks at a list while another thread still adds to it",
	"ZKUtilTest.testUnreadableFileInput":              "it fails everywhere if root runs it",
}

const (
	inside  = "it looks at the memory or the files of a server in its process, or changes them"
	plugin  = "it gives the server a class in Java"
	setting = "zktest has no setting like "
)
