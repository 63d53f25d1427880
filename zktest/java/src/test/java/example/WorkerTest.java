package example;

import static org.junit.jupiter.api.Assertions.assertNull;

import com.github.zkrecipes.zktest.ZkTest;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class WorkerTest {
    @RegisterExtension
    final ZkTest zk = new ZkTest();

    @Test
    void nodeGoesWithItsSession() throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(zk.address(), new RetryNTimes(50, 100))) {
            client.start();
            client.create().withMode(CreateMode.EPHEMERAL).forPath("/worker");
            zk.run("expire", "all");
            assertNull(client.checkExists().forPath("/worker"));
        }
    }
}
