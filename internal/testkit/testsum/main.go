// Command testsum reads files written by `go test -json`. It prints why tests were skipped, with a count for each
// reason, and then the output of every test that failed. Its exit status is 1 if one did.
//
//	testsum FILE...
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var s summary
	for _, name := range os.Args[1:] {
		if err := s.readFile(name); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(2)
		}
	}
	fmt.Print(s.String())
	if len(s.failed) > 0 {
		os.Exit(1)
	}
}

// event is what `go test -json` reports about a test, a package, or a build.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

func (e event) name() string {
	built, _, _ := strings.Cut(e.ImportPath, " ") // "p [p.test]"
	return strings.TrimSuffix(cmp.Or(e.Package, built)+"."+e.Test, ".")
}

// summary is the part of a run that is worth reading.
type summary struct {
	skipped map[string]int // by reason
	failed  []string       // the output of each test, or of a package in which no test failed
}

func (s *summary) readFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	return s.read(file)
}

func (s *summary) read(from io.Reader) error {
	if s.skipped == nil {
		s.skipped = map[string]int{}
	}
	output, broken := map[string]string{}, map[string]bool{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // a line from the go command itself
		}
		name := e.name()
		switch e.Action {
		case "output", "build-output":
			output[name] += e.Output
			continue
		case "skip":
			if e.Test != "" {
				s.skipped[reason(output[name])]++
			}
		case "fail", "build-fail":
			if e.Package != "" && e.Test == "" {
				s.failUnfinished(e.Package, output, broken)
			}
			// A test fails with its subtests, and a package with its tests: the innermost failure has the reason.
			if !broken[name] {
				s.failed = append(s.failed, "--- FAIL: "+name+"\n"+strings.TrimRight(output[name], "\n"))
			}
			broken[name], broken[e.Package] = true, true
			for i, c := range e.Test {
				if c == '/' {
					broken[e.Package+"."+e.Test[:i]] = true
				}
			}
		}
		delete(output, name)
	}
	return lines.Err()
}

// failUnfinished adds the tests that had not ended when the process of their package did: by a panic in a goroutine, by
// a signal. What the process printed last belongs to one of them.
func (s *summary) failUnfinished(pkg string, output map[string]string, broken map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(output)) {
		if !strings.HasPrefix(name, pkg+".") {
			continue
		}
		if said.MatchString(output[name]) {
			s.failed = append(s.failed, "--- FAIL: "+name+" did not end\n"+strings.TrimRight(output[name], "\n"))
			broken[pkg] = true
		}
		delete(output, name)
	}
}

// said matches a line that is not about the course of a test.
var said = regexp.MustCompile(`(?m)^([^=\n]|=[^=])`)

var position = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns what a test printed when it was skipped.
func reason(output string) string {
	if said := position.FindAllStringSubmatch(output, -1); len(said) > 0 {
		return said[len(said)-1][1]
	}
	return "no reason given"
}

func (s *summary) String() string {
	var b strings.Builder
	if len(s.skipped) > 0 {
		b.WriteString("\nskipped:\n")
	}
	for _, why := range slices.SortedFunc(maps.Keys(s.skipped), func(x, y string) int {
		return cmp.Or(s.skipped[y]-s.skipped[x], strings.Compare(x, y))
	}) {
		fmt.Fprintf(&b, "%5d  %s\n", s.skipped[why], why)
	}
	for _, failure := range s.failed {
		b.WriteString("\n" + failure + "\n")
	}
	if len(s.failed) > 0 {
		fmt.Fprintf(&b, "\n%d failed\n", len(s.failed))
	}
	return b.String()
}
