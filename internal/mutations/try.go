package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// A mutation takes one protection away: in file, from becomes to.
type mutation struct {
	section string
	what    string // what is no longer protected
	file    string
	from    string // must be there exactly once
	to      string
	test    string // the tests of the package in pkg, as A|B, or one with its subtests, as A/expression, that must notice
	pkg     string // default: the file's own directory
}

func (m mutation) String() string { return m.section + ": " + m.what }

func (m mutation) dir() string {
	if m.pkg != "" {
		return "./" + m.pkg
	}
	return "./" + filepath.Dir(m.file)
}

// tests are the names of the tests, without subtests.
func (m mutation) tests() iter.Seq[string] {
	names, _, _ := strings.Cut(m.test, "/")
	return strings.SplitSeq(names, "|")
}

// A result is who noticed, or why nobody did.
type result struct {
	mutation
	by  []string
	err error
}

func (r result) verdict() string {
	if r.err != nil {
		return "MISSED"
	}
	return "noticed"
}

func (r result) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return strings.Join(r.by, ", ")
}

var (
	errUnnoticed = errors.New("nobody noticed")
	errNoBuild   = errors.New("it does not compile without that")
)

// try runs the tests without the protection. Every way in which they do not pass is notice, but not to compile.
func (m mutation) try(ctx context.Context) result {
	overlay, err := m.overlay()
	if err != nil {
		return result{mutation: m, err: err}
	}
	defer os.RemoveAll(filepath.Dir(overlay))
	out, err := gotest(ctx, m.dir(), m.test, "-overlay", overlay)
	switch {
	case err == nil:
		return result{mutation: m, err: errUnnoticed}
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return result{mutation: m, err: fmt.Errorf("%w:\n%s", errNoBuild, out)}
	}
	return result{mutation: m, by: failing(out)}
}

// overlay writes the file without the protection, and what tells the go command to read it instead.
func (m mutation) overlay() (string, error) {
	content, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(content), m.from); n != 1 {
		return "", fmt.Errorf("%q is in %s %d times, want once: the list is stale", m.from, m.file, n)
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "ql3-mutation-")
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(mutated, []byte(strings.Replace(string(content), m.from, m.to, 1)), 0o644), os.WriteFile(overlay, replace, 0o644))
}

func gotest(ctx context.Context, dir, test string, flags ...string) ([]byte, error) {
	name, sub, some := strings.Cut(test, "/")
	pattern := "^(" + name + ")$"
	if some {
		pattern += "/" + sub
	}
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout=5m", "-run", pattern}, flags...)
	return exec.CommandContext(ctx, "go", append(args, dir)...).CombinedOutput()
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// failing names the tests that failed, or says how else the run ended.
func failing(out []byte) (names []string) {
	for _, match := range failedTest.FindAllSubmatch(out, -1) {
		names = append(names, string(match[1]))
	}
	if len(names) == 0 {
		return []string{"the run did not end well"}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// intact fails if a test fails although nothing was deleted, or if there is no such test: then its failing shows nothing.
func intact(ctx context.Context, list []mutation, parallel int) error {
	tests := map[string]map[string]bool{}
	for _, m := range list {
		if tests[m.dir()] == nil {
			tests[m.dir()] = map[string]bool{}
		}
		for name := range m.tests() {
			tests[m.dir()][name] = true
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		group.Go(func() error { return passing(ctx, dir, slices.Sorted(maps.Keys(tests[dir]))) })
	}
	return group.Wait()
}

func passing(ctx context.Context, dir string, names []string) error {
	out, err := gotest(ctx, dir, strings.Join(names, "|"), "-v")
	if err != nil {
		return fmt.Errorf("without any deletion, in %s: %w\n%s", dir, err, out)
	}
	for _, name := range names {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			return fmt.Errorf("there is no %s in %s", name, dir)
		}
	}
	fmt.Printf("intact   %s: %d tests\n", dir, len(names))
	return nil
}
