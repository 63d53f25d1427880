package com.github.zkrecipes.zktest;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** Where the program zktestd is. */
final class Program {
    /** The classifier of the jar for this platform: linux, osx or windows, and x86_64 or aarch_64. */
    static final String CLASSIFIER = classifier(System.getProperty("os.name"), System.getProperty("os.arch"));

    private static final String FILE = CLASSIFIER.startsWith("windows") ? "zktestd.exe" : "zktestd";
    private static String unpacked;

    private Program() {}

    /** Returns the path in ZKTESTD, or else that of the program in the jar, or else the name to look for in the PATH. */
    static synchronized String path() throws IOException {
        String named = System.getenv("ZKTESTD");
        if (named != null && !named.isEmpty()) {
            return named;
        }
        if (unpacked == null) {
            try (InputStream in = Program.class.getResourceAsStream(CLASSIFIER + "/" + FILE)) {
                unpacked = in == null ? "zktestd" : unpack(in).toString();
            }
        }
        return unpacked;
    }

    /** Writes the program to a directory that only this user can enter. Both go when the virtual machine ends. */
    static Path unpack(InputStream in) throws IOException {
        Path dir = Files.createTempDirectory("zktestd");
        dir.toFile().deleteOnExit();
        Path program = dir.resolve(FILE);
        Files.copy(in, program);
        File file = program.toFile();
        file.deleteOnExit();
        if (!file.setExecutable(true, true)) {
            throw new IOException(program + " cannot be made executable; set ZKTESTD");
        }
        return program;
    }

    static String classifier(String name, String arch) {
        String system = name.toLowerCase(Locale.ROOT).replaceFirst("^mac.*", "osx").replaceFirst("^windows.*", "windows");
        return system + "-" + arch.replaceFirst("^(amd64|x86_64)$", "x86_64").replaceFirst("^(aarch64|arm64)$", "aarch_64");
    }
}
