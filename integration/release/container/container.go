// Package container runs ZooKeeper in containers, with testcontainers, for machines that have Docker and no Java.
//
// The image is "zookeeper", or the value of ZOOKEEPER_IMAGE. docker/build.sh builds an image without pulling. Images
// read different environment variables, so these servers are configured by a file: /conf/zoo.cfg.
package container

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

const port = "2181/tcp"

// A Server is one ZooKeeper in a container.
type Server struct {
	testcontainers.Container
	addr string
}

// Addr returns the host:port for clients. It may change when the container is restarted.
func (s *Server) Addr() string { return s.addr }

// Start runs a standalone server until the end of the test. It may not serve yet; conn.Dial waits for it.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb)
}

// StartNamed runs a standalone server, which containers of the network find by its name, until the end of the test.
func StartNamed(tb testing.TB, name string) (*testcontainers.DockerNetwork, *Server) {
	tb.Helper()
	available(tb)
	nw, err := network.New(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = nw.Remove(context.WithoutCancel(tb.Context())) }) // after the containers are gone
	return nw, start(tb, network.WithNetwork([]string{name}, nw))
}

func start(tb testing.TB, opts ...testcontainers.ContainerCustomizer) *Server {
	tb.Helper()
	available(tb)
	opts = append(opts, testcontainers.WithExposedPorts(port), testcontainers.WithFiles(testcontainers.ContainerFile{
		Reader: strings.NewReader(config), ContainerFilePath: "/conf/zoo.cfg", FileMode: 0o644,
	}))
	c, err := testcontainers.Run(tb.Context(), Image(), opts...)
	testcontainers.CleanupContainer(tb, c, testcontainers.StopTimeout(0))
	if err != nil {
		tb.Fatalf("%s: %v", Image(), err)
	}
	s := &Server{Container: c}
	if s.addr, err = c.PortEndpoint(tb.Context(), port, ""); err != nil {
		tb.Fatal(err)
	}
	return s
}

const config = `dataDir=/data
clientPort=2181
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
`

// Image returns the image of the servers.
func Image() string {
	if image := os.Getenv("ZOOKEEPER_IMAGE"); image != "" {
		return image
	}
	return "zookeeper"
}

// available skips the test unless REQUIRE_REAL=1, and fails it unless Docker runs and has the image.
func available(tb testing.TB) {
	tb.Helper()
	need.Asked(tb, "Docker")
	prepare()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	if err := healthy(ctx); err != nil {
		tb.Fatalf("no containers: %v: see integration/kit/docker/start.sh", err)
	}
}

// prepare sets environment variables of testcontainers that are not set.
var prepare = sync.OnceFunc(func() {
	set := func(name, value string) {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value) // never fails for a valid name
		}
	}
	// The reaper would need another image. It only cleans up after killed tests.
	set("TESTCONTAINERS_RYUK_DISABLED", "true")
	// On a machine that is itself a container, testcontainers looks for ports on the enclosing host. Here the daemon
	// runs inside.
	if _, err := os.Stat("/var/run/docker.pid"); err == nil {
		set("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
})

// healthy checks that Docker runs. Without Docker, testcontainers panics.
func healthy(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return err
	}
	defer func() { _ = provider.Close() }() // it was only queried
	if err := provider.Health(ctx); err != nil {
		return err
	}
	images, err := provider.ListImages(ctx)
	if err != nil {
		return err
	}
	for _, image := range images {
		if image.Name == Image() || image.Name == Image()+":latest" {
			return nil
		}
	}
	// A test never pulls an image by itself: the network may be missing or metered.
	return fmt.Errorf("no image %s: docker pull it, or make nightly PART=containers, which builds one", Image())
}
