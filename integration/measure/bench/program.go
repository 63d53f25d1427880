package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// program is a process with clients of another library, which work on command.
type program struct {
	process *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

func startProgram(process *exec.Cmd) (*program, error) {
	p := &program{process: process}
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

// done is what clients have done in a slice of time.
type done struct {
	rate        float64 // sections per second
	worst       float64 // milliseconds of the longest section
	least, most float64 // sections of one client
}

// do sends one order, and waits until the work is done.
func (p *program) do(order ...any) (d done, err error) {
	if _, err := fmt.Fprintln(p.orders, order...); err != nil {
		return done{}, err
	}
	if !p.answers.Scan() {
		return done{}, errors.Join(fmt.Errorf("%s has ended", p.process.Path), p.answers.Err())
	}
	_, err = fmt.Sscan(p.answers.Text(), &d.rate, &d.worst, &d.least, &d.most)
	return d, err
}

func (p *program) pid() int { return p.process.Process.Pid }

func (p *program) stop() {
	_ = p.orders.Close() // ends the program
	_ = p.process.Wait() // its exit code does not matter
}
