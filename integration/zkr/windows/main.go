// Command windows runs zkr.exe under wine against a real server, and checks what the guide of zkr promises for Windows.
// It prints a line for each scene, and exits with 1 if a scene failed. `make nightly PART=platforms` runs it.
//
//	.ci/wine go -C integration run ./zkr/windows -rounds 10
//
// A process counts as gone when Linux, below wine, no longer has it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

func main() {
	rounds := flag.Int("rounds", 3, "`number` of rounds of each fault")
	flag.Parse()
	if err := run(context.Background(), *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "windows:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int) (err error) {
	if err := build(os.Getenv("WINEPREFIX")); err != nil {
		return err
	}
	server, err := zkserver.Open(zkserver.WithTickTime(timeout / 20)) // sessions end hardly later than they may
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := tellVersions(server); err != nil {
		return err
	}
	s := &stage{server: server, rounds: rounds}
	failed := 0
	for _, scene := range scenes {
		started := time.Now()
		said, err := s.play(ctx, scene)
		verdict := "ok  "
		if err != nil {
			verdict, said = "FAIL", err.Error()
			failed++
		}
		fmt.Printf("%s %-28s %5.1f s  %s\n", verdict, scene.name, time.Since(started).Seconds(), said)
	}
	if failed > 0 {
		return fmt.Errorf("%d scenes failed", failed)
	}
	return nil
}

// build builds the programs that run under wine, on its drive C.
func build(prefix string) error {
	if prefix == "" {
		return errors.New("no WINEPREFIX: run this by .ci/wine")
	}
	for program, from := range map[string][2]string{
		"zkr.exe":  {"../cmd/zkr", "."},
		"beat.exe": {".", "./zkr/windows/beat"},
	} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(prefix, "drive_c", program), from[1])
		cmd.Dir = from[0]
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", program, err, out)
		}
	}
	return nil
}

func tellVersions(server *zkserver.Server) error {
	theirs, err := server.Version()
	if err != nil {
		return err
	}
	number, _, _ := strings.Cut(theirs, "-")
	emulator, err := exec.Command("wine", "--version").Output()
	if err != nil {
		return fmt.Errorf("wine --version: %w", err)
	}
	fmt.Printf("zkr for windows/amd64, %s, ZooKeeper %s, session timeout %v\n", strings.TrimSpace(string(emulator)),
		number, timeout)
	return nil
}
