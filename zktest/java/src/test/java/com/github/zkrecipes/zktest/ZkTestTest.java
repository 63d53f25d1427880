package com.github.zkrecipes.zktest;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class ZkTestTest {
    private static final int LIMIT = 20; // seconds that any wait may take

    @RegisterExtension
    final ZkTest zk = new ZkTest("-ttl");

    private CuratorFramework client;

    @BeforeEach
    void connect() {
        client = CuratorFrameworkFactory.newClient(zk.address(), new RetryNTimes(100, 50));
        client.start();
    }

    @AfterEach
    void disconnect() {
        client.close();
    }

    private CountDownLatch until(ConnectionState wanted) {
        CountDownLatch reached = new CountDownLatch(1);
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == wanted) {
                reached.countDown();
            }
        });
        return reached;
    }

    @Test
    void mutexSurvivesALostReply() throws Exception {
        zk.run("drop-reply", "create", "path=^/lock/");
        InterProcessMutex mutex = new InterProcessMutex(client, "/lock");
        assertTrue(mutex.acquire(LIMIT, TimeUnit.SECONDS));
        zk.run("await", 1);
        assertEquals(1, client.getChildren().forPath("/lock").size());
        mutex.release();
    }

    @Test
    void sessionExpires() throws Exception {
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
        CountDownLatch lost = until(ConnectionState.LOST);
        zk.expire(client.getZookeeperClient().getZooKeeper().getSessionId());
        assertTrue(lost.await(LIMIT, TimeUnit.SECONDS));
        assertThrows(IllegalArgumentException.class, () -> zk.run("get", "/e"));
    }

    @Test
    void stopsAndStartsOnTheSamePort() throws Exception {
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
        CountDownLatch suspended = until(ConnectionState.SUSPENDED);
        CountDownLatch reconnected = until(ConnectionState.RECONNECTED);
        zk.stop();
        assertTrue(suspended.await(LIMIT, TimeUnit.SECONDS));
        zk.start();
        assertTrue(reconnected.await(LIMIT, TimeUnit.SECONDS));
        assertNotNull(client.checkExists().forPath("/e"));
        zk.cut();
    }

    @Test
    void failsOneRequest() throws Exception {
        zk.run("fail", "no-auth", "getData", "path=^/$");
        assertThrows(KeeperException.NoAuthException.class, () -> client.getData().forPath("/"));
        assertNotNull(client.getData().forPath("/"));
    }

    @Test
    void writesAnyWord() throws Exception {
        for (String data : new String[] {"", "two words, \"quoted\"", "line\nline\t\\ \u007f", "\u00e9\u4e2d\uD83D\uDE00"}) {
            zk.run("create", "/d", data);
            assertArrayEquals(data.getBytes(StandardCharsets.UTF_8), client.getData().forPath("/d"));
            zk.run("delete", "/d");
        }
    }

    @Test
    void saysWhatTheServerSaid() {
        IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> zk.run("bogus"));
        assertEquals("bogus: unknown command \"bogus\": help lists all commands", e.getMessage());
    }

    @Test
    void violationFailsTheTest() throws Exception {
        ZkTest other = new ZkTest().open();
        try (CuratorFramework c = CuratorFrameworkFactory.newClient(other.address(), new RetryOneTime(10))) {
            c.start();
            other.run("forbid", "exists");
            c.checkExists().forPath("/");
        }
        AssertionError e = assertThrows(AssertionError.class, () -> other.afterEach(null));
        assertTrue(e.getMessage().contains("forbidden request: exists /"), e.getMessage());
        assertThrows(UncheckedIOException.class, () -> other.run("sessions"));
    }

    @Test
    void saysThatItDoesNotStart() {
        IOException e = assertThrows(IOException.class, () -> new ZkTest("-bogus").open());
        assertFalse(e.getMessage().isEmpty());
    }
}
