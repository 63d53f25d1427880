package soak_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/soak"
	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/others/curator"
)

// kazoo is the release that the tests of package foreign pin.
const kazoo = "2.11.0"

// curators returns Curator mates, all in one process.
func curators(t *testing.T, addr string, session time.Duration) []soak.Mate {
	t.Helper()
	dir := t.TempDir()
	curator.Compile(t, dir)
	return mates(curator.Start(t, dir, addr, session, nil), "java",
		[]soak.Mate{{Lock: "curator-mutex", Kind: "mutex"}, {Lock: "curator-write", Kind: "write"}},
		[]string{"mutex", "write"})
}

// pythons returns kazoo mates, all in one process.
func pythons(t *testing.T, addr string, session time.Duration) []soak.Mate {
	t.Helper()
	source := kazooSource(t)
	p := exec.Command("/usr/bin/python3", "../../others/foreign/testdata/kazoo_peer.py", addr,
		strconv.FormatInt(session.Milliseconds(), 10))
	p.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+source)
	return mates(peer.Start(t, p, nil), "py", []soak.Mate{{Lock: "kazoo-mutex", Kind: "kazoo"}}, []string{"mutex"})
}

// kazooSource fetches and unpacks the published source of kazoo.
func kazooSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{
			"/usr/bin/python3", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "kazoo", "-d", dir,
			"--require-hashes", "-r", "../../others/foreign/testdata/kazoo.txt",
		},
		{"tar", "-xzf", filepath.Join(dir, "kazoo-"+kazoo+".tar.gz"), "-C", dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(dir, "kazoo-"+kazoo)
}

// mates fills in the loops. All run in one process.
func mates(p *peer.Peer, side string, list []soak.Mate, kinds []string) []soak.Mate {
	for i := range list {
		name, kind := fmt.Sprint(side, "-", i), kinds[i]
		list[i].Loop = func(ctx context.Context, path, socket string) error {
			_, err := p.Ask(ctx, "loop", name, kind, path, "-", 10, socket)
			return err
		}
	}
	return list
}
