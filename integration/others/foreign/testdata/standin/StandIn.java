package zkrecipes;

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

/** A server that runs as the program whose path is in FOREIGN_STANDIN. */
public final class StandIn {
    private final Process process;
    private final int port;

    /** Starts a server with the properties of a zoo.cfg. It gets the system properties that ZooKeeper would use. */
    public StandIn(Properties properties) throws IOException {
        Path config = Files.createDirectories(Paths.get(properties.getProperty("dataDir"))).resolve("zoo.cfg");
        Files.write(config, properties.entrySet().stream()
                .map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.toList()));
        List<String> line = new ArrayList<>(List.of(System.getenv("FOREIGN_STANDIN")));
        System.getProperties().forEach((key, value) -> {
            if (key.toString().matches("(zookeeper|readonlymode|znode|jute|java\\.security\\.auth)\\..*")) {
                line.add("-D" + key + "=" + value);
            }
        });
        line.add(config.toString());
        process = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader out = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String listening = out.readLine();
        if (listening == null) {
            kill();
            throw new IOException("the stand-in does not start");
        }
        port = Integer.parseInt(listening.substring(listening.lastIndexOf(':') + 1));
    }

    public int port() {
        return port;
    }

    public void kill() {
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
