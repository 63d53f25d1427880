package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
)

// A Program is a process that answers each line of its input with one line. Measurements use it.
type Program struct {
	process *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// StartProgram starts a process.
func StartProgram(process *exec.Cmd) (*Program, error) {
	p := &Program{process: process}
	process.Stderr = os.Stderr
	var err error
	if p.orders, err = process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewScanner(out)
	if err := process.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// StartCurator compiles the text of a Java program for the Curator that ZKRECIPES_CURATOR selects, into dir, and starts
// it.
func StartCurator(dir, class string, text []byte, jvm []string, args ...string) (*Program, error) {
	jars, err := versions.Curator.ClassPath("")
	if err != nil {
		return nil, err
	}
	path, source := dir+":"+jars, filepath.Join(dir, class+".java")
	if err := os.WriteFile(source, text, 0o640); err != nil {
		return nil, err
	}
	if out, err := exec.Command("javac", "-nowarn", "-cp", path, "-d", dir, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac (apt-get install default-jdk-headless): %w\n%s", err, out)
	}
	jvm = append(jvm, "-Djava.util.logging.config.file=/dev/null", "-cp", path, class)
	return StartProgram(exec.Command("java", append(jvm, args...)...))
}

// Do sends one order, and waits for the answer.
func (p *Program) Do(order ...any) (string, error) {
	if _, err := fmt.Fprintln(p.orders, order...); err != nil {
		return "", err
	}
	if !p.answers.Scan() {
		return "", errors.Join(fmt.Errorf("%s has ended", p.process.Path), p.answers.Err())
	}
	return p.answers.Text(), nil
}

// PID returns the process id.
func (p *Program) PID() int { return p.process.Process.Pid }

// Stop closes the input of the program, and waits for its end.
func (p *Program) Stop() {
	_ = p.orders.Close()
	_ = p.process.Wait() // its exit code does not matter
}
