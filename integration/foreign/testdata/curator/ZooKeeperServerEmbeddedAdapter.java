package org.apache.curator.test;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

/**
 * Takes the place of Curator's class of this name, which runs a ZooKeeper inside the process of the tests. Instead, it
 * starts the stand-in, whose path is in FOREIGN_STANDIN.
 */
public class ZooKeeperServerEmbeddedAdapter implements ZooKeeperMainFace {
    private Process process;
    private int port;

    @Override
    public void start(QuorumPeerConfigBuilder builder) {
        try {
            Properties properties = builder.buildProperties();
            properties.putIfAbsent("reconfigEnabled", QuorumPeerConfig.isReconfigEnabled());
            Path config = Paths.get(properties.getProperty("dataDir"), "zoo.cfg");
            Files.write(config, properties.entrySet().stream()
                    .map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.toList()));
            List<String> line = new ArrayList<>(List.of(System.getenv("FOREIGN_STANDIN")));
            System.getProperties().forEach((key, value) -> {
                if (key.toString().matches("(zookeeper|readonlymode|znode)\\..*")) {
                    line.add("-D" + key + "=" + value);
                }
            });
            line.add(config.toString());
            process = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            BufferedReader out = new BufferedReader(
                    new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            String listening = out.readLine();
            if (listening == null) {
                throw new IOException("the stand-in does not start");
            }
            port = Integer.parseInt(listening.substring(listening.lastIndexOf(':') + 1));
        } catch (Exception e) {
            close();
            throw new FailedServerStartException(e);
        }
    }

    @Override
    public int getClientPort() {
        return port;
    }

    @Override
    public void kill() {
        close();
    }

    @Override
    public void close() {
        if (process == null) {
            return;
        }
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
