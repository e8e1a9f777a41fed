package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Whoever changes a line that protects is told here, at once, that the list names it.
func TestListIsNotStale(t *testing.T) {
	t.Chdir("../..")
	list, err := choose("")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]map[string]bool{}
	for _, m := range list {
		content, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(content), m.from); n != 1 {
			t.Errorf("%s: %q is in %s %d times, want once", m, m.from, m.file, n)
		}
		if declared[m.dir()] == nil {
			declared[m.dir()] = testsIn(t, m.dir())
		}
		for name := range m.tests() {
			if !declared[m.dir()][name] {
				t.Errorf("%s: there is no %s in %s", m, name, m.dir())
			}
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range testFunction.FindAllStringSubmatch(string(content), -1) {
			names[match[1]] = true
		}
	}
	return names
}
