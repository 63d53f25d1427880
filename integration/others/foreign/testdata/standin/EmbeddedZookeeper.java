package kafka.zk;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Properties;
import zkrecipes.StandIn;

/**
 * Replaces Kafka's class of this name, which runs a ZooKeeper inside the test process. It starts the stand-in instead.
 */
public class EmbeddedZookeeper implements Closeable {
    private final StandIn server;

    public EmbeddedZookeeper() throws IOException {
        Properties properties = new Properties();
        properties.setProperty("dataDir", Files.createTempDirectory("kafka").toString());
        properties.setProperty("clientPort", "0");
        properties.setProperty("tickTime", "800");
        server = new StandIn(properties);
    }

    public int port() {
        return server.port();
    }

    public void shutdown() {
        server.kill();
    }

    @Override
    public void close() {
        shutdown();
    }
}
