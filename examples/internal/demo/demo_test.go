package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		story := NewStory(&out)
		story.Explain("How to read this.\n")
		story.Event("anna", "elected", "token", 5)
		time.Sleep(1234 * time.Millisecond)
		story.Say("anna crashes")
		story.Mute("anna")
		story.Event("anna", "resigned")
		require.Equal(t, "How to read this.\n  0.000 s  anna      elected   token 5\n  1.234 s  -- anna crashes\n",
			out.String())

		out.Reset()
		log := NewJournal(&out)
		log.Explain("not in logfmt")
		log.Say("not in logfmt")
		log.Event("a b", "lost", "reason", "x=1", "token", 7)
		require.Equal(t, "time=2000-01-01T00:00:01.234Z id=\"a b\" event=lost reason=\"x=1\" token=7\n",
			strings.ReplaceAll(out.String(), "+00:00", "Z"))
	})
}

func TestEnsemble_Flags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for args, says := range map[string]string{
		"":                             "",
		"-servers=":                    "want host:port",
		"-tls system":                  "flag -tls needs -servers",
		"-auth digest:u:p":             "flag -auth needs -servers",
		"-more 1":                      "flag -more needs -servers",
		"-servers x -more 1":           "",
		"-servers x -auth secret":      "want scheme:credential",
		"-servers x -auth digest:u:p":  "",
		"-servers x -tls system":       "",
		"-servers x -tls /no/such/pem": "no such file",
		"-servers x -tls " + empty:     "no certificate",
	} {
		var e Ensemble
		flags := flag.NewFlagSet("x", flag.ContinueOnError)
		e.Flags(flags)
		flags.Int("more", 0, "")
		err := e.Parse(flags, strings.Fields(args), &bytes.Buffer{}, "more")
		if says == "" {
			require.NoError(t, err, args)
			continue
		}
		require.ErrorContains(t, err, says, args)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestEnsemble_DialsOverTLSWithCredentials(t *testing.T) {
	web := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	defer web.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: web.TLS.Certificates,
		MinVersion:   tls.VersionTLS12,
	})
	require.NoError(t, err)
	srv := zktest.Run(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(listener) }) // ends when the server is closed
	t.Cleanup(func() { srv.Close(); serving.Wait() })
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, block, 0o600))

	var e Ensemble
	flags := flag.NewFlagSet("x", flag.ContinueOnError)
	e.Flags(flags)
	args := []string{"-servers", listener.Addr().String(), "-tls", file, "-auth", "digest:u:p"}
	require.NoError(t, e.Parse(flags, args, &bytes.Buffer{}))
	client, err := e.Dial(t.Context(), "me")
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Create(t.Context(), "/mine", nil, 0, zk.AuthACL(zk.PermAll)...)
	require.NoError(t, err, "the credential was sent")
}

const isChild = "ZKRECIPES_DEMO_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(isChild) != "" {
		Main("stubborn", func(ctx context.Context, _ []string, out io.Writer) error {
			_, _ = fmt.Fprintln(out, "ready")
			<-ctx.Done()
			_, _ = fmt.Fprintln(out, "interrupted")
			select {}
		})
	}
	os.Exit(m.Run())
}

// A program that does not stop, for example because its server is dead, ignored every further interrupt.
func TestMain_SecondInterrupt_Kills(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted on Windows")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), isChild+"=1")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	for _, line := range []string{"ready\n", "interrupted\n"} {
		said := make([]byte, len(line))
		_, err := io.ReadFull(out, said)
		require.NoError(t, err)
		require.Equal(t, line, string(said))
		require.NoError(t, child.Process.Signal(os.Interrupt))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait() // it is killed
	}()
	for {
		select {
		case <-ended:
			require.NoError(t, ctx.Err(), "still running after a minute of interrupts")
			return
		case <-time.After(50 * time.Millisecond): // the previous one may have come too soon after the first
			_ = child.Process.Signal(os.Interrupt) // fails once it has ended
		}
	}
}

func TestParse_HelpIsNoFailure(t *testing.T) {
	var e Ensemble
	var out bytes.Buffer
	flags := flag.NewFlagSet("x", flag.ContinueOnError)
	e.Flags(flags)
	require.ErrorIs(t, e.Parse(flags, []string{"-h"}, &out), flag.ErrHelp)
	require.Contains(t, out.String(), "-servers")
}
