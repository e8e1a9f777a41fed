package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const oldestMajor = 15

// errNotFound says what to do about it.
var errNotFound = fmt.Errorf("no PostgreSQL server (version %d or later) on this machine: install one, "+
	"for example with `apt-get install postgresql`, or run `.ci/setup`", oldestMajor)

// A binaries is a directory with initdb and postgres of one version.
type binaries struct {
	dir   string
	major int
}

// findBinaries returns the first usable directory, and of version major if that is
// not 0: a cluster can be opened only by the version that made it.
func findBinaries(given string, major int, a account) (binaries, error) {
	if given != "" {
		b, err := probe(given, a)
		if err == nil {
			err = b.mustOpen(major)
		}
		return b, err
	}
	var refused []error
	for _, dir := range searchDirs() {
		b, err := probe(dir, a)
		if err == nil {
			err = b.mustOpen(major)
		}
		if err == nil {
			return b, nil
		}
		refused = append(refused, err)
	}
	return binaries{}, errors.Join(append([]error{errNotFound}, refused...)...)
}

// searchDirs lists the directories that hold a server, best first, each once.
func searchDirs() []string {
	dirs := slices.Concat(debianDirs("/"), pathDirs())
	// What .ci/setup unpacks for a user who may not install.
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, debianDirs(filepath.Join(cache, "qinglong-console", "debian"))...)
	}
	return holdingServer(dirs)
}

// debianDirs returns where Debian puts servers under root, the newest first.
func debianDirs(root string) []string {
	var dirs []string
	for major := 18; major >= oldestMajor; major-- {
		dirs = append(dirs, filepath.Join(root, "usr/lib/postgresql", strconv.Itoa(major), "bin"))
	}
	return dirs
}

// pathDirs returns the directories that PATH leads to.
func pathDirs() []string {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if file, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// holdingServer keeps the directories with both programs. Links are resolved, for
// postgres finds its own files relative to where it really is.
func holdingServer(dirs []string) []string {
	var found []string
	for _, dir := range dirs {
		postgres, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil {
			continue
		}
		dir = filepath.Dir(postgres)
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil || slices.Contains(found, dir) {
			continue
		}
		found = append(found, dir)
	}
	return found
}

var versionOutput = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// probe asks the server in dir for its version, as the account that will run it, so
// that a file it may not execute or a library it lacks shows here.
func probe(dir string, a account) (binaries, error) {
	b := binaries{dir: dir}
	if err := a.mustReach(dir); err != nil {
		return b, err
	}
	cmd := exec.Command(filepath.Join(dir, "postgres"), "--version")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", b.env(), a.attr()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return b, fmt.Errorf("%s --version: %w: %s", cmd.Path, err, exit.Stderr)
	}
	if err != nil {
		return b, err
	}
	match := versionOutput.FindSubmatch(out)
	if match == nil {
		return b, fmt.Errorf("%s --version printed %q, which is no version of PostgreSQL", cmd.Path, out)
	}
	b.major, err = strconv.Atoi(string(match[1]))
	return b, err
}

// mustOpen fails unless this version can open a cluster made by major, 0 for none yet.
func (b binaries) mustOpen(major int) error {
	switch {
	case b.major < oldestMajor:
		return fmt.Errorf("%s is PostgreSQL %d; %d is the oldest supported", b.dir, b.major, oldestMajor)
	case major != 0 && b.major != major:
		return fmt.Errorf("%s is PostgreSQL %d, but the data was made by %d: install that, or remove the data", b.dir, b.major, major)
	}
	return nil
}

// env is the whole environment of a child: no PG* variable of the caller reaches it.
func (b binaries) env() []string {
	env := []string{"PATH=" + b.dir + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
	if libraries := b.libraries(); libraries != "" {
		env = append(env, "LD_LIBRARY_PATH="+libraries)
	}
	return env
}

var debianLayout = regexp.MustCompile(`^(/.+)/usr/lib/postgresql/\d+/bin$`)

// libraries returns the library path of a server that was unpacked from Debian
// packages anywhere but at the root; elsewhere the dynamic linker knows by itself.
func (b binaries) libraries() string {
	match := debianLayout.FindStringSubmatch(b.dir)
	if match == nil {
		return ""
	}
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(match[1], pattern)) // the pattern is well formed
		dirs = append(dirs, found...)
	}
	return strings.Join(dirs, ":")
}
