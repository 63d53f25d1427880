package org.apache.curator.test;

import java.util.Properties;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import zkrecipes.StandIn;

/**
 * Replaces Curator's class of this name, which runs a ZooKeeper inside the test process. It starts the stand-in instead.
 */
public class ZooKeeperServerEmbeddedAdapter implements ZooKeeperMainFace {
    private StandIn server;

    @Override
    public void start(QuorumPeerConfigBuilder builder) {
        try {
            Properties properties = builder.buildProperties();
            properties.putIfAbsent("reconfigEnabled", QuorumPeerConfig.isReconfigEnabled());
            server = new StandIn(properties);
        } catch (Exception e) {
            throw new FailedServerStartException(e);
        }
    }

    @Override
    public int getClientPort() {
        return server.port();
    }

    @Override
    public void kill() {
        close();
    }

    @Override
    public void close() {
        if (server != null) {
            server.kill();
        }
    }
}
