package zkrecipes;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.ZooKeeperSaslServer;

/**
 * Accepts the connections of a ZooKeeperServer in a test process, if the system property zookeeper.serverCnxnFactory
 * names it. It starts the stand-in, and the ZooKeeperServer gets no connection.
 */
public class StandInCnxnFactory extends ServerCnxnFactory {
    private InetSocketAddress address;
    private int perHost;
    private StandIn server;

    @Override
    public void configure(InetSocketAddress address, int perHost, int backlog, boolean secure) throws IOException {
        if (secure) {
            throw new IOException("the stand-in has no TLS");
        }
        this.address = address;
        this.perHost = perHost;
        configureSaslLogin(); // fails as it does for ZooKeeper
    }

    @Override
    public void startup(ZooKeeperServer zks, boolean serve) throws IOException {
        setZooKeeperServer(zks);
        File dir = zks.getTxnLogFactory().getSnapDir();
        if (!dir.isDirectory() && !dir.mkdirs()) {
            throw new IOException("no directory " + dir);
        }
        InetAddress host = address.getAddress();
        Properties properties = new Properties();
        properties.setProperty("dataDir", dir.getAbsolutePath());
        properties.setProperty("clientPort", String.valueOf(address.getPort()));
        properties.setProperty("clientPortAddress", host.isAnyLocalAddress() ? "127.0.0.1" : host.getHostAddress());
        properties.setProperty("tickTime", String.valueOf(zks.getTickTime()));
        properties.setProperty("minSessionTimeout", String.valueOf(zks.getMinSessionTimeout()));
        properties.setProperty("maxSessionTimeout", String.valueOf(zks.getMaxSessionTimeout()));
        users().forEach((name, password) -> properties.setProperty("standin.user." + name, password));
        server = new StandIn(properties);
    }

    /** The SASL users that a server would find, and their passwords. */
    private static Map<String, String> users() {
        AppConfigurationEntry[] entries = null;
        try {
            entries = Configuration.getConfiguration().getAppConfigurationEntry(
                    System.getProperty(ZooKeeperSaslServer.LOGIN_CONTEXT_NAME_KEY, "Server"));
        } catch (SecurityException e) {
            // there is no configuration
        }
        Map<String, String> users = new HashMap<>();
        for (AppConfigurationEntry entry : entries == null ? new AppConfigurationEntry[0] : entries) {
            entry.getOptions().forEach((key, value) -> {
                if (key.startsWith("user_")) {
                    users.put(key.substring("user_".length()), value.toString());
                }
            });
        }
        return users;
    }

    @Override
    public void shutdown() {
        if (server != null) {
            server.kill();
        }
    }

    @Override
    public int getLocalPort() {
        return server == null ? address.getPort() : server.port();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return List.of();
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return List.of();
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return perHost;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int max) {
        perHost = max;
    }

    @Override
    public int getSocketListenBacklog() {
        return -1;
    }

    @Override
    public void reconfigure(InetSocketAddress address) {}

    @Override
    public void join() {}

    @Override
    public void start() {}

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {}

    @Override
    public void resetAllConnectionStats() {}
}
