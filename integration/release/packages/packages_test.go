// Package packages builds what `make packages` builds, and installs it where there is nothing else.
package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	version = "1.2.3"
	packing = "../../../cmd/zkr/packaging"
)

// needs skips a test that builds and installs packages, unless REQUIRE_REAL=1.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	need.Root(t)
	for _, name := range programs {
		need.Program(t, name, "apt-get install dpkg rpm docker.io")
	}
}

// run returns the output of a command.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	const limit = 15 * time.Minute // a busy machine unpacks a Debian slowly
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("%s took more than %v", name, limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, errors.Join(err, context.Cause(ctx)), "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// build returns the directory with the packages.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, packing+"/build.sh", dir, version)
	return dir
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	}))
	return files
}

func TestPackages(t *testing.T) {
	needs(t, "dpkg", "rpm", "docker", "bash", "tar")
	dir := build(t)

	t.Run("the same bytes each time", func(t *testing.T) {
		first, second := contents(t, dir), contents(t, build(t))
		require.Len(t, first, 8)
		for name := range first {
			require.True(t, first[name] == second[name], "%s differs", name)
		}
	})

	t.Run("deb", func(t *testing.T) {
		root := t.TempDir()
		for _, name := range []string{"info", "updates", "triggers"} {
			require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", name), 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600))
		run(t, "dpkg", "--root="+root, "--force-script-chrootless", "--no-triggers", "-i", dir+"/zkr-linux-amd64.deb")
		installed(t, root, "usr/share/zsh/vendor-completions/_zkr")
		run(t, "dpkg", "--root="+root, "--force-script-chrootless", "--no-triggers", "-r", "zkr")
		require.NoFileExists(t, filepath.Join(root, "usr/bin/zkr"))
	})

	t.Run("rpm", func(t *testing.T) {
		root := t.TempDir()
		run(t, "rpm", "--root", root, "--nodeps", "--force-debian", "-i", dir+"/zkr-linux-amd64.rpm")
		installed(t, root, "usr/share/zsh/site-functions/_zkr")
	})

	t.Run("image", func(t *testing.T) {
		const image = "zkrecipes/zkr:test"
		run(t, "docker", "build", "-q", "-t", image, dir+"/zkr-image-amd64")
		require.Contains(t, run(t, "docker", "run", "--rm", image, "version"), "zkr version "+version)
		s := zkserver.Start(t)
		// The image contains no other program, so the one under the lock is zkr, which looks for the file in /tmp.
		run(t, "docker", "run", "--rm", "--network=host", image, "lock", "--servers", s.Addr(), "/jobs/a",
			"--", "/zkr", "held")
	})
}

// installed checks the content of a root file system that has nothing but the package.
func installed(t *testing.T, root string, more ...string) {
	t.Helper()
	require.Contains(t, run(t, "chroot", root, "/usr/bin/zkr", "version"), "zkr version "+version)
	require.Contains(t, run(t, "chroot", root, "/usr/bin/zkr", "help", "lock"), "--on-loss")
	for _, name := range append(more, "usr/share/man/man1/zkr-lock.1", "usr/share/bash-completion/completions/zkr",
		"usr/share/fish/vendor_completions.d/zkr.fish", "usr/share/doc/zkr/copyright",
		"usr/share/doc/zkr/examples/worker.service") {
		info, err := os.Stat(filepath.Join(root, name))
		require.NoError(t, err)
		require.Positive(t, info.Size(), name)
		require.Equal(t, fs.FileMode(0o644), info.Mode(), name)
	}
	run(t, "chroot", root, "/usr/bin/zkr", "doctor", "--servers", zktest.Run(t).Addr())
}

// The unit in the package is the one that the guide explains.
func TestUnit_IsTheGuides(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/guides/zkr-reference.md")
	require.NoError(t, err)
	unit, err := os.ReadFile(packing + "/worker.service")
	require.NoError(t, err)
	printed := regexp.MustCompile("(?s)```ini\n(\\[Unit\\].*?)```").FindSubmatch(guide)
	require.NotNil(t, printed)
	require.Equal(t, string(printed[1]), string(unit))
}

// Kubernetes' types accept each manifest of the guide, without unknown fields.
func TestGuide_ManifestsAreValid(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/guides/kubernetes.md")
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1) {
		var head struct {
			APIVersion, Kind string
		}
		require.NoError(t, yaml.Unmarshal(block[1], &head))
		kinds[head.APIVersion+" "+head.Kind]++
		switch head.Kind {
		case "Deployment":
			var d appsv1.Deployment
			require.NoError(t, yaml.UnmarshalStrict(block[1], &d))
			selects, pod := d.Spec.Selector.MatchLabels, d.Spec.Template
			require.Equal(t, selects, pod.Labels)
			for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
				require.NotEmpty(t, c.Image)
				if c.LivenessProbe != nil {
					require.Equal(t, c.Ports[0].ContainerPort, c.LivenessProbe.HTTPGet.Port.IntVal)
					require.Equal(t, c.Ports[0].ContainerPort, c.ReadinessProbe.HTTPGet.Port.IntVal)
				}
			}
		case "NetworkPolicy":
			require.NoError(t, yaml.UnmarshalStrict(block[1], new(networkingv1.NetworkPolicy)))
		}
	}
	require.Equal(t, map[string]int{"apps/v1 Deployment": 2, "networking.k8s.io/v1 NetworkPolicy": 1}, kinds)
}

// zkr accepts the command in the first manifest.
func TestGuide_CommandIsOne(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/guides/kubernetes.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`command: \[zkr, (.*), worker\]`).FindSubmatch(guide)
	require.NotNil(t, line)
	args := append([]string{"-C", "../../../cmd/zkr", "run", "."},
		strings.Split(strings.ReplaceAll(string(line[1]), `"`, ""), ", ")...)
	srv := zktest.Run(t)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "sh", "-c", "exit 0")...)
	cmd.Env = append(os.Environ(), "ZKR_SERVERS="+srv.Addr(), "ZKR_ID=pod-1", "ZKR_METRICS_HTTP=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "elected at /app/leader")
}
