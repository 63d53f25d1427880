package com.github.zkrecipes.zktest;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A ZooKeeper for tests: runs the program zktestd for each test, and stops it afterwards. What the server finds wrong
 * fails the test. The program is the one that the environment variable ZKTESTD names, or else the one in the jar for this
 * platform, or else zktestd in the PATH.
 */
public final class ZkTest implements BeforeEachCallback, AfterEachCallback, AutoCloseable {
    private final String[] flags;
    private Process process;
    private Writer commands;
    private BufferedReader answers;
    private String address;

    /** Takes the flags of zktestd, such as "-ttl"; "zktestd -h" lists them. */
    public ZkTest(String... flags) {
        this.flags = flags;
    }

    /** Returns host and port for clients. */
    public String address() {
        started();
        return address;
    }

    private void started() {
        if (process == null) {
            throw new IllegalStateException(
                    "the server runs from @BeforeEach to @AfterEach, if a field has @RegisterExtension; elsewhere call open()");
        }
    }

    /**
     * Carries out a command, such as run("drop-reply", "create", "path=^/locks/"), and returns the lines of the answer,
     * which are JSON, or text for help. A word may be a number, such as the id of a session.
     *
     * @throws IllegalArgumentException if the command fails; the message is the server's
     */
    public synchronized List<String> run(Object... words) {
        started();
        String line = Arrays.stream(words).map(w -> quote(w.toString())).collect(Collectors.joining(" "));
        try {
            commands.write(line + "\n");
            commands.flush();
            List<String> lines = new ArrayList<>();
            for (String answer; (answer = answers.readLine()) != null; lines.add(answer)) {
                if (answer.equals("ok")) {
                    return lines;
                }
                if (answer.startsWith("error: ")) {
                    throw new IllegalArgumentException(line + ": " + answer.substring("error: ".length()));
                }
            }
            throw new IOException("zktestd has ended");
        } catch (IOException e) {
            throw new UncheckedIOException(line, e);
        }
    }

    /** Refuses connections and ends those there are; data and sessions stay. */
    public void stop() {
        run("stop");
    }

    /** Listens again on the same port. */
    public void start() {
        run("start");
    }

    /** Ends a session now, as if nothing had been heard of it for its timeout. */
    public void expire(long session) {
        run("expire", session);
    }

    /** Closes all connections at once; what is queued for them is lost. */
    public void cut() {
        run("cut");
    }

    /** Starts the server; for use without JUnit. A server that this object has started before ends. */
    public ZkTest open() throws IOException {
        close();
        List<String> line = new ArrayList<>(List.of(Program.path()));
        line.addAll(List.of(flags));
        try {
            process = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        } catch (IOException e) {
            throw new IOException("no zktestd in ZKTESTD, in a jar with the classifier " + Program.CLASSIFIER
                    + ", or in the PATH", e);
        }
        commands = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String ready = answers.readLine();
        if (ready == null || !ready.startsWith("ready ")) {
            close();
            throw new IOException("zktestd does not start; its standard error says why");
        }
        address = ready.split(" ")[1];
        return this;
    }

    @Override
    public void close() {
        if (process == null) {
            return;
        }
        try {
            commands.close(); // which ends the program
        } catch (IOException e) {
            // It has ended by itself.
        }
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) throws IOException {
        open();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        List<String> wrong;
        try {
            wrong = run("violations");
        } finally {
            close();
        }
        wrong.removeIf(v -> v.contains("\"misuse\":true")); // a real server accepts it; it is on standard error
        if (!wrong.isEmpty()) {
            throw new AssertionError(String.join("\n", wrong));
        }
    }

    /** Writes a word as zktestd reads it: as a string of Go if it has more than letters. */
    private static String quote(String word) {
        if (!word.isEmpty() && word.chars().allMatch(c -> c > ' ' && c != '"' && c != 127)) {
            return word;
        }
        StringBuilder b = new StringBuilder("\"");
        for (char c : word.toCharArray()) {
            if (c < ' ' || c == 127) {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c == '"' || c == '\\' ? "\\" : "").append(c);
            }
        }
        return b.append('"').toString();
    }
}
