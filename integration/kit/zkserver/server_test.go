package zkserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

func TestServer_PausedAnswersNothingAndResumes(t *testing.T) {
	s := ours(t, zkserver.Start(t))
	must(t, s.Pause())
	if answer, err := s.FourLetter("ruok"); err == nil {
		t.Errorf("paused server answered %q", answer)
	}
	must(t, s.Resume())
	answer, err := s.FourLetter("ruok")
	if err != nil || answer != "imok" {
		t.Errorf("resumed server: %q, %v", answer, err)
	}
	must(t, s.Pause())
	must(t, s.Stop()) // Stop ends a paused server as well
}

// TestServer_OutlivesThreads ends all threads that are waiting for work, one of which may have been in Start. A thread
// ends with a goroutine that is locked to it.
func TestServer_OutlivesThreads(t *testing.T) {
	s := ours(t, zkserver.Start(t))
	var locked sync.WaitGroup
	for range 200 {
		locked.Go(func() {
			runtime.LockOSThread()
			time.Sleep(10 * time.Millisecond) // all of them at once
		})
	}
	locked.Wait()
	time.Sleep(100 * time.Millisecond) // lets the threads end
	if answer, err := s.FourLetter("ruok"); err != nil || answer != "imok" {
		t.Errorf("%q, %v", answer, err)
	}
}

// Debian's release and the one that .ci/run fetches can be selected, whatever ZOOKEEPER_HOME is.
func TestServer_IsOfTheReleaseAskedFor(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	for release, want := range map[string]string{"debian": "3.8.0", "3.9": "3.9."} {
		t.Run(release, func(t *testing.T) {
			s := ours(t, zkserver.Start(t, zkserver.WithRelease(release)))
			version, err := s.Version()
			must(t, err)
			if !strings.HasPrefix(version, want) {
				t.Errorf("it is %s, want %s", version, want)
			}
		})
	}
}

func TestOpen_SaysWhatIsMissing(t *testing.T) {
	t.Setenv("ZKRECIPES_SERVERS", "")
	java := t.TempDir() // JAVA_HOME, at first without a Java
	t.Setenv("JAVA_HOME", java)
	if _, err := zkserver.Open(); !errors.Is(err, versions.ErrNotInstalled) ||
		!strings.Contains(err.Error(), "java is not installed: run ") {
		t.Errorf("no Java: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(java, "bin"), 0o700))
	must(t, os.WriteFile(filepath.Join(java, "bin", "java"), nil, 0o700))
	_, err := zkserver.Open(zkserver.WithRelease("3.99"))
	if !errors.Is(err, versions.ErrNotInstalled) ||
		!strings.Contains(err.Error(), "zookeeper 3.99 is not installed: run ") {
		t.Errorf("got %v", err)
	}
	t.Setenv("ZKRECIPES_ZOOKEEPER", "3.99")
	if _, err := zkserver.Open(); !errors.Is(err, versions.ErrNotInstalled) {
		t.Errorf("ZKRECIPES_ZOOKEEPER=3.99: %v", err)
	}
}

func TestOpen_SaysWhereToGetAServer(t *testing.T) {
	t.Setenv("ZKRECIPES_SERVERS", "")
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	if _, err := zkserver.Open(); err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "apt-get") {
		t.Errorf("got %v", err)
	}
}

func TestOpen_UsesGivenServers(t *testing.T) {
	t.Setenv("ZKRECIPES_SERVERS", "192.0.2.1:2181,192.0.2.2:2181")
	s, err := zkserver.Open()
	must(t, err)
	if s.Addr() != "192.0.2.1:2181,192.0.2.2:2181" || s.Ours() {
		t.Errorf("got %s, ours %v", s.Addr(), s.Ours())
	}
	if _, err := zkserver.Open(zkserver.WithSyncLimit(3)); !errors.Is(err, zkserver.ErrExternal) {
		t.Errorf("settings of an external server: %v", err)
	}
	if err := s.Kill(); err == nil {
		t.Error("killed an external server")
	}
	must(t, s.Close())
}

func ours(t *testing.T, s *zkserver.Server) *zkserver.Server {
	t.Helper()
	if !s.Ours() {
		t.Skip(zkserver.ErrExternal)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
