package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// stage is an unpublished release: a repository with tags, and the modules that the go command builds from it.
type stage struct {
	tree, repo, modules string // directories
	version, gorelease  string
	environment         []string
}

func newStage(ctx context.Context, tree, dir, version, gorelease string) (stage, error) {
	if !semver.IsValid(version) {
		return stage{}, fmt.Errorf("version %q: want one such as v0.1.0", version)
	}
	tree, err := filepath.Abs(tree)
	if err != nil {
		return stage{}, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return stage{}, err
	}
	s := stage{
		tree: tree, repo: filepath.Join(dir, "repo"), modules: filepath.Join(dir, "modules"), version: version,
		gorelease: gorelease,
	}
	s.environment, err = s.newEnvironment(ctx)
	return s, err
}

// newEnvironment makes git find the repository of the stage in place of the real one, and go find our modules in the
// stage. Other modules that the machine already has are not fetched again.
func (s stage) newEnvironment(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY", "GONOSUMDB").Output()
	if err != nil {
		return nil, err
	}
	set := strings.Split(string(out), "\n")
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GOWORK=off", "GOFLAGS=-modcacherw",
		"GOMODCACHE="+s.modules,
		"GONOSUMDB="+root+","+set[2], "GOPROXY=file://"+s.modules+"/cache/download,file://"+set[0]+"/cache/download,"+set[1])
	config := [][2]string{
		{"url." + s.repo + ".insteadOf", "https://" + root},
		{"user.name", "rehearsal"},
		{"user.email", "rehearsal@example.com"},
		{"safe.directory", "*"}, // the clone may belong to another user
	}
	for i, pair := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, pair[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, pair[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config))), nil
}

// release tags the modules, each after those that it requires.
func (s stage) release(ctx context.Context, dirs []string) error {
	if err := s.copyTree(ctx); err != nil {
		return err
	}
	if err := s.checkVersions(); err != nil {
		return err
	}
	ordered, err := s.order(dirs)
	if err != nil {
		return err
	}
	for _, dir := range ordered {
		if err := s.tag(ctx, dir); err != nil {
			return fmt.Errorf("module %s: %w", dir, err)
		}
	}
	return nil
}

// copyTree commits the clone as it is, except for files that git ignores.
func (s stage) copyTree(ctx context.Context) error {
	if err := s.command(ctx, "", "git", "init", "-q", s.repo); err != nil {
		return err
	}
	gitDir := filepath.Join(s.repo, ".git")
	if err := s.command(ctx, s.tree, "git", "--git-dir", gitDir, "--work-tree", s.tree, "add", "-A", "."); err != nil {
		return err
	}
	if err := s.command(ctx, s.repo, "git", "commit", "-qm", s.version); err != nil {
		return err
	}
	return s.command(ctx, s.repo, "git", "reset", "-q", "--hard")
}

// statedVersions are the places other than go.mod files that state the version.
var statedVersions = map[string]*regexp.Regexp{
	"zktest/python/pyproject.toml": regexp.MustCompile(`(?m)^version = "(.*)"`),
	"zktest/java/pom.xml":          regexp.MustCompile(`<artifactId>zktest-junit</artifactId>\s*<version>(.*)</version>`),
	"zktest/java/README.md":        regexp.MustCompile(`<artifactId>zktest-junit</artifactId>\s*<version>(.*)</version>`),
}

func (s stage) checkVersions() error {
	want := strings.TrimPrefix(s.version, "v")
	for name, pattern := range statedVersions {
		text, err := os.ReadFile(filepath.Join(s.repo, name))
		if err != nil {
			return err
		}
		found := pattern.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			return fmt.Errorf("%s states no version: want %s", name, want)
		}
		for _, stated := range found {
			if got := string(stated[1]); got != want {
				return fmt.Errorf("%s states version %s, want %s", name, got, want)
			}
		}
	}
	return nil
}

// order sorts the modules so that each comes after those that it requires.
func (s stage) order(dirs []string) (ordered []string, err error) {
	required := map[string][]string{}
	for _, dir := range dirs {
		if required[dir], err = s.requiredBy(dir); err != nil {
			return nil, err
		}
	}
	for left := slices.Clone(dirs); len(left) > 0; {
		next := slices.IndexFunc(left, func(dir string) bool {
			return !slices.ContainsFunc(required[dir], func(other string) bool { return !slices.Contains(ordered, other) })
		})
		if next < 0 {
			return nil, fmt.Errorf("%s/go.mod requires %v, which are not all released before it", left[0], required[left[0]])
		}
		ordered = append(ordered, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return ordered, nil
}

// requiredBy returns the directories of our modules that the module in dir requires. It must require the version that
// is being released.
func (s stage) requiredBy(dir string) (others []string, err error) {
	name := filepath.Join(s.repo, dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.ParseLax(name, text, nil)
	if err != nil {
		return nil, err
	}
	if got, want := file.Module.Mod.Path, path.Join(root, dir); got != want {
		return nil, fmt.Errorf("%s/go.mod: module %s, want %s", dir, got, want)
	}
	for _, r := range file.Require {
		other, ours := strings.CutPrefix(r.Mod.Path+"/", root+"/")
		if !ours {
			continue
		}
		if r.Mod.Version != s.version {
			return nil, fmt.Errorf("%s/go.mod requires %s %s, want %s", dir, r.Mod.Path, r.Mod.Version, s.version)
		}
		others = append(others, cmp.Or(strings.TrimSuffix(other, "/"), "."))
	}
	return others, nil
}

// tag completes the checksums of the module, tags it, and makes the go command build its zip from the tag.
func (s stage) tag(ctx context.Context, dir string) error {
	tag, module := s.version, path.Join(root, dir)+"@"+s.version
	if dir != "." {
		tag = dir + "/" + s.version
		if err := s.command(ctx, filepath.Join(s.repo, dir), "go", "mod", "tidy"); err != nil {
			return err
		}
		if err := s.command(ctx, s.repo, "git", "add", "-A"); err != nil {
			return err
		}
		if err := s.command(ctx, s.repo, "git", "commit", "-qm", tag, "--allow-empty"); err != nil {
			return err
		}
	}
	if err := s.judge(ctx, dir); err != nil {
		return err
	}
	if err := s.command(ctx, s.repo, "git", "tag", tag); err != nil {
		return err
	}
	return s.command(ctx, s.repo, "env", "GOPROXY=direct", "go", "mod", "download", module)
}

// judge asks gorelease whether the module can have the version, compared with the newest version that the clone has a
// tag for. Every objection of gorelease counts.
func (s stage) judge(ctx context.Context, dir string) error {
	if s.gorelease == "" {
		return nil
	}
	base, prefix := "none", path.Join(".", dir)+"/"
	if dir == "." {
		prefix = ""
	}
	tags, err := s.output(ctx, s.tree, "git", "tag", "--list", "--sort=-version:refname", prefix+"v*")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(tags) {
		if version := strings.TrimPrefix(tag, prefix); semver.Compare(version, s.version) < 0 {
			base = version
			break
		}
	}
	said, err := s.output(ctx, filepath.Join(s.repo, dir), s.gorelease, "-base="+base, "-version="+s.version)
	if err == nil && strings.Contains(said, "# diagnostics") {
		err = fmt.Errorf("gorelease -base=%s -version=%s:\n%s", base, s.version, said)
	}
	return err
}

// returnSums copies the go.sum files of modules that require other modules of ours back into the clone.
func (s stage) returnSums(dirs []string) error {
	for _, dir := range dirs {
		if dir == "." {
			continue
		}
		name := filepath.Join(dir, "go.sum")
		sums, err := os.ReadFile(filepath.Join(s.repo, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.tree, name), sums, 0o644); err != nil { //nolint:gosec // as git makes it
			return err
		}
	}
	return nil
}

// command runs a command of the release to its successful end.
func (s stage) command(ctx context.Context, dir, name string, args ...string) error {
	_, err := s.output(ctx, dir, name, args...)
	return err
}

func (s stage) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, s.environment
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return string(out), nil
}
