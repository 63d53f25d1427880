package com.github.zkrecipes.zktest;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;

class ProgramTest {
    @Test
    @DisabledOnOs(OS.WINDOWS)
    void isUnpackedWhereOnlyThisUserCanEnter() throws IOException {
        byte[] code = {1, 2, 3};
        Path program = Program.unpack(new ByteArrayInputStream(code));
        assertArrayEquals(code, Files.readAllBytes(program));
        assertTrue(Files.isExecutable(program));
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(program.getParent())));
    }

    @Test
    void platformHasTheNameOfItsJar() {
        assertEquals("linux-x86_64", Program.classifier("Linux", "amd64"));
        assertEquals("linux-aarch_64", Program.classifier("Linux", "aarch64"));
        assertEquals("osx-x86_64", Program.classifier("Mac OS X", "x86_64"));
        assertEquals("osx-aarch_64", Program.classifier("Mac OS X", "aarch64"));
        assertEquals("windows-x86_64", Program.classifier("Windows 11", "amd64"));
        assertEquals("windows-aarch_64", Program.classifier("Windows Server 2025", "aarch64"));
    }
}
