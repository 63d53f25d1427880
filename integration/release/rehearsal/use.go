package main

import (
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// user follows the documents in an empty home. The environment specifies where go finds the modules.
type user struct {
	documents string // a copy of the clone
	version   string
}

// followAll installs the programs, follows the first steps, and imports each library into a separate module.
func (u user) followAll(ctx context.Context, dirs []string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	programs, libraries, err := u.kinds(dirs)
	if err != nil {
		return err
	}
	for _, program := range programs {
		if err := u.install(ctx, home, program); err != nil {
			return err
		}
	}
	for _, library := range libraries {
		if err := u.imports(ctx, filepath.Join(home, "with-"+path.Base(library)), library); err != nil {
			return err
		}
	}
	return u.firstSteps(ctx, home)
}

// kinds separates the programs in cmd from the modules with packages that others import.
func (u user) kinds(dirs []string) (programs, libraries []string, err error) {
	commands, err := fs.Glob(os.DirFS(u.documents), "cmd/*/main.go")
	for _, main := range commands {
		programs = append(programs, path.Join(root, path.Dir(main)))
	}
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, "cmd/") {
			libraries = append(libraries, path.Join(root, dir))
		}
	}
	return programs, libraries, err
}

// install installs a program and checks its build: all of our modules in it must have the version, and none may be
// replaced.
func (u user) install(ctx context.Context, home, program string) error {
	if err := u.shell(ctx, home, "go install "+program+"@"+u.version); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(filepath.Join(home, "go/bin", path.Base(program)))
	if err != nil {
		return err
	}
	for _, module := range append(info.Deps, &info.Main) {
		if strings.HasPrefix(module.Path, root) && (module.Version != u.version || module.Replace != nil) {
			return fmt.Errorf("%s has %s %s, replaced by %v: want %s", program, module.Path, module.Version,
				module.Replace, u.version)
		}
	}
	return nil
}

// notForUsers matches packages that a user does not import. Guides are for reading, and some of them have only tests.
var notForUsers = regexp.MustCompile(`/(internal|docs|examples)/`)

// imports creates a module with a program that imports all packages of a library.
func (u user) imports(ctx context.Context, dir, library string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := u.shell(ctx, dir, "go mod init example.com/user && go get "+library+"@"+u.version); err != nil {
		return err
	}
	packages, err := u.output(ctx, dir, "go", "list", "-e", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`,
		library+"/...")
	if err != nil {
		return err
	}
	var source strings.Builder
	source.WriteString("package main\n\n")
	for name := range strings.FieldsSeq(packages) {
		if !notForUsers.MatchString(name + "/") {
			fmt.Fprintf(&source, "import _ %q\n", name)
		}
	}
	source.WriteString("\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source.String()), 0o600); err != nil {
		return err
	}
	return u.shell(ctx, dir, "go mod tidy && go vet .")
}

var (
	indented = regexp.MustCompile(`(?m)^    .*$`)
	goCode   = regexp.MustCompile("(?s)```go\n(.*?)```")
	serving  = regexp.MustCompile(`(?m)^    go run \./cmd/zktestd .*$`)
	ending   = regexp.MustCompile(`(?m)^    \./clock$`) // it ends when the user stops it
)

// printed is the address in the document. The server of the rehearsal uses a free port instead.
const printed = "localhost:2181"

// firstSteps follows docs/guides/first-steps.md, up to the first row of its table: Ctrl-C hands the lock over. The
// clone that it requires exists.
func (u user) firstSteps(ctx context.Context, home string) error {
	document, err := os.ReadFile(filepath.Join(u.documents, "docs/guides/first-steps.md"))
	if err != nil {
		return err
	}
	sections := strings.Split(string(document), "\n## ")
	if len(sections) < 5 {
		return errors.New("first-steps.md: want sections that start a server, create a module, show a program and run it")
	}
	serve, create := serving.FindString(sections[1]), indented.FindAllString(sections[2], -1)
	program := goCode.FindStringSubmatch(sections[3])
	build := ending.ReplaceAllString(strings.Join(indented.FindAllString(sections[4], -1), "\n"), "")
	if serve == "" || len(create) == 0 || program == nil || build == "" {
		return errors.New("first-steps.md: want commands that start a server and create a module, a program, and its build")
	}
	clone := filepath.Join(home, "zkrecipes")
	if _, err := os.Stat(clone); err != nil {
		if err := os.Symlink(u.documents, clone); err != nil {
			return err
		}
	}
	if err := u.shell(ctx, home, strings.Join(create, "\n")); err != nil {
		return err
	}
	server, err := start(ctx, clone, "bash", "-euc", strings.Replace(serve, printed, "127.0.0.1:0", 1))
	if err != nil {
		return err
	}
	defer server.interrupt()
	ready, err := server.line("ready ")
	if err != nil {
		return err
	}
	address := strings.TrimPrefix(ready, "ready ")
	dir := filepath.Join(home, "clock")
	source := strings.Replace(program[1], printed, address, 1)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		return err
	}
	if err := u.shell(ctx, dir, build); err != nil {
		return err
	}
	if err := handOver(ctx, dir); err != nil {
		return err
	}
	return u.shell(ctx, home, "go/bin/zkr version && go/bin/zkr lock --servers "+address+" /jobs/nightly -- echo ran")
}

// handOver starts the program in two terminals, and stops the first with Ctrl-C.
func handOver(ctx context.Context, dir string) error {
	first, err := start(ctx, dir, "./clock")
	if err != nil {
		return err
	}
	defer first.interrupt()
	if _, err := first.line("the lock is ours"); err != nil {
		return err
	}
	second, err := start(ctx, dir, "./clock")
	if err != nil {
		return err
	}
	defer second.interrupt()
	if _, err := second.line("waiting for the lock"); err != nil {
		return err
	}
	first.interrupt()
	if _, err := second.line("the lock is ours"); err != nil {
		return err
	}
	fmt.Println("         ./clock in two terminals: Ctrl-C in the first, and the second has the lock")
	return nil
}

// terminal is a program that runs in its own process group, as in a terminal.
type terminal struct {
	cmd *exec.Cmd
	out *bufio.Reader
	log bytes.Buffer // what it wrote elsewhere
}

func start(ctx context.Context, dir, name string, args ...string) (*terminal, error) {
	t := &terminal{cmd: exec.CommandContext(ctx, name, args...)}
	t.cmd.Dir, t.cmd.Stderr, t.cmd.SysProcAttr = dir, &t.log, &syscall.SysProcAttr{Setpgid: true}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if _, err := t.cmd.StdinPipe(); err != nil { // open, as in a terminal
		return nil, err
	}
	t.out = bufio.NewReader(out)
	return t, t.cmd.Start()
}

// line reads up to the first line with the prefix.
func (t *terminal) line(prefix string) (string, error) {
	for {
		line, err := t.out.ReadString('\n')
		if err != nil {
			_ = t.cmd.Wait() // for the log, which says more
			return "", fmt.Errorf("%v ended before it printed %q: %w\n%s", t.cmd, prefix, err, t.log.String())
		}
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line), nil
		}
	}
}

// interrupt sends Ctrl-C, and waits for the end. It does nothing if the program has ended.
func (t *terminal) interrupt() {
	_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGINT)
	_ = t.cmd.Wait() // go run reports 1 after Ctrl-C, even if the program ends well
}

// shell runs commands as printed, and logs how long they took.
func (u user) shell(ctx context.Context, dir, commands string) error {
	started := time.Now()
	out, err := u.output(ctx, dir, "bash", "-euc", commands)
	fmt.Printf("%5.1f s  %s\n%s", time.Since(started).Seconds(),
		strings.TrimSpace(strings.ReplaceAll(commands, "\n    ", "\n         ")), out)
	return err
}

// output runs a command to its successful end, and returns its output.
func (u user) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s%s", cmd, err, out.String(), log.String())
	}
	return out.String(), nil
}
