package foreign

import (
	"archive/zip"
	"context"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Wheels and jars contain zktestd. Here a new project installs them and runs its test, with neither Go nor zktestd in
// its PATH. Without FOREIGN=all there is one package, for the platform of the tests: compiling for all takes minutes.

// tags are the platform tags of wheels, and the classifiers of jars.
var tags = map[string]struct{ wheel, jar string }{
	"linux/amd64":   {"manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64", "linux-x86_64"},
	"linux/arm64":   {"manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64", "linux-aarch_64"},
	"darwin/amd64":  {"macosx_12_0_x86_64", "osx-x86_64"},
	"darwin/arm64":  {"macosx_12_0_arm64", "osx-aarch_64"},
	"windows/amd64": {"win_amd64", "windows-x86_64"},
	"windows/arm64": {"win_arm64", "windows-aarch_64"},
}

const here = runtime.GOOS + "/" + runtime.GOARCH

// platforms returns the platforms that packages are built for.
func platforms() (list []string) {
	if !everything() {
		return []string{here}
	}
	for platform := range tags {
		list = append(list, platform)
	}
	return list
}

func TestWheelPackage(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "pip, venv, ensurepip", "apt-get install python3-pip python3-venv")
	deps := cache(t, "wheel")
	run(t, interpreter, "-m", "pip", "download", "-q", "--only-binary=:all:", "-d", deps, "--require-hashes",
		"-r", "testdata/wheel.txt")
	bin := buildPackages(t, "wheels", "PYTHON="+interpreter)
	for _, platform := range platforms() {
		wheel := only(t, filepath.Join(bin, "pytest_zktest-*-py3-none-"+tags[platform].wheel+".whl"))
		checkProgram(t, platform, wheel, "pytest_zktest/zktestd", tags[platform].wheel)
	}

	project := t.TempDir()
	venv := filepath.Join(project, "venv")
	run(t, interpreter, "-m", "venv", venv)
	venvBin := filepath.Join(venv, "bin")
	run(t, filepath.Join(venvBin, "python"), "-m", "pip", "install", "-q", "--no-index",
		"--find-links", deps, "--find-links", bin, "pytest-zktest", "kazoo")
	copyTo(t, project, "../../../zktest/python/example/test_worker.py")
	out := runProject(t, project, []string{"PATH=" + venvBin}, filepath.Join(venvBin, "pytest"),
		"-v", "-p", "no:cacheprovider")
	if !strings.Contains(out, "1 passed") {
		t.Errorf("pytest: %s", out)
	}
}

func TestJarPackage(t *testing.T) { // not concurrently with TestJUnitExtension: both build in zktest/java/target
	needJava(t)
	repository := cache(t, "maven") // keeps what Maven fetches; what it gets from us is new
	ours := filepath.Join(repository, "com/github/zkrecipes")
	if err := os.RemoveAll(ours); err != nil {
		t.Fatal(err)
	}
	own := "MAVEN_OPTS=-Dmaven.repo.local=" + repository + " -XX:TieredStopAtLevel=1"
	buildPackages(t, "jars", own)
	for _, platform := range platforms() {
		classifier := tags[platform].jar
		jar := only(t, filepath.Join(ours, "zktest-junit/*/zktest-junit-*-"+classifier+".jar"))
		checkProgram(t, platform, jar, "com/github/zkrecipes/zktest/"+classifier+"/zktestd", "")
	}

	project := t.TempDir()
	readme, err := os.ReadFile("../../../zktest/java/README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```xml\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("zktest/java/README.md has no dependencies in XML")
	}
	copyTo(t, project, "testdata/jar/pom.xml")
	edit(t, filepath.Join(project, "pom.xml"), "<!-- README -->",
		strings.ReplaceAll(string(block[1]), "linux-x86_64", tags[here].jar))
	copyTo(t, filepath.Join(project, "src/test/java/example"),
		"../../../zktest/java/src/test/java/example/WorkerTest.java")
	out := runProject(t, project, []string{own, "PATH=" + withoutGo(t)}, "mvn", "-B", "test")
	if !strings.Contains(out, "Tests run: 1, Failures: 0") {
		t.Errorf("mvn: %s", out)
	}
}

// only returns the single file that the pattern matches, whatever version is in its name.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v, want one file", pattern, found, err)
	}
	return found[0]
}

// buildPackages runs a Makefile target for the platforms, and returns the directory for wheels. The arguments are
// variables.
func buildPackages(t *testing.T, target string, variables ...string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	args := append([]string{"-C", "../../..", target, "BIN=" + bin, "PLATFORMS=" + strings.Join(platforms(), " ")},
		variables...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if out, err := fetching(func() *exec.Cmd { return exec.CommandContext(ctx, "make", args...) }); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, tail(out))
	}
	return bin
}

// checkProgram fails the test if the archive has no program for the platform, or one that needs more than its tag
// promises.
func checkProgram(t *testing.T, platform, archive, path, tag string) {
	t.Helper()
	system, arch, _ := strings.Cut(platform, "/")
	if system == "windows" {
		path += ".exe"
	}
	program, err := os.Open(extract(t, archive, path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	machine := ""
	switch system {
	case "linux":
		f, err := elf.NewFile(program)
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		machine = f.Machine.String()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: the program is not static", archive)
			}
		}
	case "darwin":
		f, err := macho.NewFile(program)
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		machine = f.Cpu.String()
		if least := leastMacOS(f); tag != "" && !strings.HasPrefix(tag, "macosx_"+least+"_") {
			t.Errorf("%s: the program needs macOS %s", archive, least)
		}
	case "windows":
		f, err := pe.NewFile(program)
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		machine = fmt.Sprintf("%#x", f.Machine)
	}
	known := map[string][]string{
		"amd64": {"EM_X86_64", "CpuAmd64", "0x8664"},
		"arm64": {"EM_AARCH64", "CpuArm64", "0xaa64"},
	}
	if !slices.Contains(known[arch], machine) {
		t.Errorf("%s: the program is for %s", archive, machine)
	}
}

// leastMacOS returns the oldest release that a program supports, in the notation of tags.
func leastMacOS(f *macho.File) string {
	const buildVersion = 0x32
	for _, load := range f.Loads {
		raw := load.Raw()
		if f.ByteOrder.Uint32(raw) == buildVersion {
			v := f.ByteOrder.Uint32(raw[12:])
			return fmt.Sprintf("%d_%d", v>>16, v>>8&0xff)
		}
	}
	return "unknown"
}

// extract writes a file of an archive to a separate directory.
func extract(t *testing.T, archive, path string) string {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	in, err := z.Open(path)
	if err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func copyTo(t *testing.T, dir, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runProject runs the tests of a project to their successful end, without ZKTESTD.
func runProject(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := fetching(func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "ZKTESTD=")...)
		return cmd
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, tail(out))
	}
	return string(out)
}

// withoutGo returns the PATH without the directories that contain Go or zktestd.
func withoutGo(t *testing.T) string {
	t.Helper()
	list := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		return exists(filepath.Join(dir, "go")) || exists(filepath.Join(dir, "zktestd"))
	})
	return strings.Join(list, string(filepath.ListSeparator))
}
