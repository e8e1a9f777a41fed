package architecture

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checks are everything the repository is held to. Each returns a sentence for each thing that is wrong.
var checks = []struct {
	name  string
	check func(tree) []string
}{
	{"every package has its place in the table", unknownPackages},
	{"imports run one way", forbiddenImports},
	{"what is for console dev stays there", devImports},
	{"test packages are for tests", testImports},
	{"every package says what it is for", packageComments},
	{"no drawer packages", drawers},
	{"tests wait for something, not for a while", sleeps},
	{"what is left to do has an owner", unownedToDos},
}

func TestRepository(t *testing.T) {
	here := readTree(t)
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, sentence := range c.check(here) {
				t.Error(sentence)
			}
		})
	}
}

func unknownPackages(tr tree) (wrong []string) {
	for _, p := range tr.packages {
		if _, ok := rules[p.path]; !ok {
			wrong = append(wrong, fmt.Sprintf("package %s is not in the table of internal/architecture: say there what it may import", p.path))
		}
	}
	return wrong
}

func forbiddenImports(tr tree) (wrong []string) {
	known := map[string]bool{}
	for _, p := range tr.packages {
		known[p.path] = true
	}
	for _, p := range tr.packages {
		r := rules[p.path]
		for f, imported := range p.imports() {
			if !r.allows(imported, known[imported]) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s, which %s may not: %s", f.path, imported, p.path, r.why))
			}
		}
	}
	return wrong
}

// allows reports whether a package under r may import imported, which is of this module or not.
func (r rule) allows(imported string, ours bool) bool {
	switch {
	case ours:
		return slices.Contains(r.ours, imported)
	case r.third == nil || !strings.Contains(strings.Split(imported, "/")[0], "."): // the standard library
		return true
	}
	return slices.ContainsFunc(r.third, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") })
}

// imports iterates over what the package's files import, tests aside.
func (p pkg) imports() func(yield func(file, string) bool) {
	return func(yield func(file, string) bool) {
		for _, f := range p.files {
			for _, imported := range f.imports {
				if !f.test && !yield(f, imported) {
					return
				}
			}
		}
	}
}

func devImports(tr tree) (wrong []string) {
	for _, p := range tr.packages {
		for f, imported := range p.imports() {
			if !strings.HasPrefix(imported, "internal/dev/") || slices.Contains(devImporters, f.path) || p.forTests() {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s imports %s: outside tests only %s may", f.path, imported, strings.Join(devImporters, " and ")))
		}
	}
	return wrong
}

// forTests reports whether p exists to be imported by tests.
func (p pkg) forTests() bool { return strings.HasSuffix(p.path, "test") }

func testImports(tr tree) (wrong []string) {
	for _, p := range tr.packages {
		for f, imported := range p.imports() {
			if (pkg{path: imported}).forTests() && !p.forTests() && isOurs(tr, imported) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: packages that end in test are for tests alone", f.path, imported))
			}
		}
	}
	return wrong
}

func isOurs(tr tree, imported string) bool {
	return slices.ContainsFunc(tr.packages, func(p pkg) bool { return p.path == imported })
}

func packageComments(tr tree) (wrong []string) {
	for _, p := range tr.packages {
		var in []string
		for _, f := range p.files {
			if f.doc == "" {
				continue
			}
			in = append(in, f.path)
			if strings.Count(strings.TrimSpace(f.doc), "\n") == 0 {
				wrong = append(wrong, fmt.Sprintf("%s: the package comment is one line: say what always holds, not only what is inside", f.path))
			}
		}
		switch {
		case len(in) == 0:
			wrong = append(wrong, fmt.Sprintf("package %s has no package comment", p.path))
		case len(in) > 1:
			wrong = append(wrong, fmt.Sprintf("package %s has %d package comments, in %s: keep one", p.path, len(in), strings.Join(in, " and ")))
		}
	}
	return wrong
}

func drawers(tr tree) (wrong []string) {
	for _, p := range tr.packages {
		for _, word := range []string{path.Base(p.path), p.name} {
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc"}, word) {
				wrong = append(wrong, fmt.Sprintf("package %s is called %s: put each thing beside what uses it", p.path, word))
				break
			}
		}
	}
	return wrong
}

func sleeps(tr tree) (wrong []string) {
	for _, p := range tr.packages {
		for _, f := range p.files {
			if f.sleeps && (f.test || p.forTests()) {
				wrong = append(wrong, fmt.Sprintf("%s sleeps: wait for a condition with a deadline, use a barrier, or testing/synctest", f.path))
			}
		}
	}
	return wrong
}

// toDo finds the words; owned is how they are written with an owner, a person or an issue.
var (
	toDo  = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	owned = regexp.MustCompile(`\b(TODO|FIXME|XXX)\((#\d+|[a-z][a-z0-9-]*)\)`)
)

func unownedToDos(tr tree) (wrong []string) {
	for _, l := range tr.lines {
		if toDo.MatchString(l.text) && !owned.MatchString(l.text) && !strings.HasPrefix(l.path, "internal/architecture/") {
			wrong = append(wrong, fmt.Sprintf("%s:%d: something is left to do and nobody is named: write the word with an owner, as in (name) or (#12)", l.path, l.n))
		}
	}
	return wrong
}

// TestChecksFail shows each check a repository that breaks its rule.
func TestChecksFail(t *testing.T) {
	one := func(path, name string, files ...file) tree {
		return tree{packages: []pkg{{path: path, name: name, files: files}}}
	}
	with := func(path string, others ...string) tree {
		f := file{path: path + "/a.go", imports: others}
		tr := one(path, "a", f)
		for _, o := range others {
			tr.packages = append(tr.packages, pkg{path: o})
		}
		return tr
	}
	tests := []struct {
		name  string
		check func(tree) []string
		tree  tree
		want  []string
	}{
		{"unknown package", unknownPackages, one("internal/novel", "novel"),
			[]string{"package internal/novel is not in the table of internal/architecture: say there what it may import"}},
		{"the plumbing knows a table", forbiddenImports, with("internal/pg", "internal/run"),
			[]string{"internal/pg/a.go imports internal/run, which internal/pg may not: plumbing knows no table"}},
		{"two of a layer", forbiddenImports, with("internal/runmgmt", "internal/scheduler"),
			[]string{"internal/runmgmt/a.go imports internal/scheduler, which internal/runmgmt may not: scheduler, runmgmt and oidc do not import one another, and nothing below web imports web"}},
		{"a page with SQL", forbiddenImports, one("web", "web", file{path: "web/a.go", imports: []string{"net/http", "github.com/jackc/pgx/v5"}}),
			[]string{"web/a.go imports github.com/jackc/pgx/v5, which web may not: it words what others decide and contains no SQL"}},
		{"a name that begins like an allowed one", forbiddenImports, one("web/templates", "templates", file{path: "web/templates/a.go", imports: []string{"github.com/a-h/templ2"}}),
			[]string{"web/templates/a.go imports github.com/a-h/templ2, which web/templates may not: a template only says what others worded"}},
		{"a test may", forbiddenImports, tree{packages: []pkg{{path: "internal/pg", files: []file{{path: "internal/pg/a_test.go", test: true, imports: []string{"migrations"}}}}, {path: "migrations"}}}, nil},
		{"dev's server in serve", devImports, one("cmd/console", "main", file{path: "cmd/console/serve.go", imports: []string{"internal/dev/postgres"}}, file{path: "cmd/console/dev.go", imports: []string{"internal/dev/postgres"}}),
			[]string{"cmd/console/serve.go imports internal/dev/postgres: outside tests only cmd/console/dev.go and cmd/console/dev_identity.go may"}},
		{"a test package in the product", testImports, with("internal/run", "internal/pg/pgtest"),
			[]string{"internal/run/a.go imports internal/pg/pgtest: packages that end in test are for tests alone"}},
		{"no comment", packageComments, one("web", "web", file{path: "web/a.go"}), []string{"package web has no package comment"}},
		{"one line", packageComments, one("web", "web", file{path: "web/a.go", doc: "Package web is pages.\n"}),
			[]string{"web/a.go: the package comment is one line: say what always holds, not only what is inside"}},
		{"two comments", packageComments, one("web", "web", file{path: "web/a.go", doc: "Package web\nis\n"}, file{path: "web/b.go", doc: "Package web\nwas\n"}),
			[]string{"package web has 2 package comments, in web/a.go and web/b.go: keep one"}},
		{"a drawer", drawers, one("internal/utils", "utils"), []string{"package internal/utils is called utils: put each thing beside what uses it"}},
		{"a sleeping test", sleeps, one("web", "web", file{path: "web/a_test.go", test: true, sleeps: true}, file{path: "web/a.go", sleeps: true}),
			[]string{"web/a_test.go sleeps: wait for a condition with a deadline, use a barrier, or testing/synctest"}},
		{"nobody's work", unownedToDos, tree{lines: []line{{"web/a.go", 3, "// TODO: later"}, {"web/a.go", 4, "// TODO(#3): later"}}},
			[]string{"web/a.go:3: something is left to do and nobody is named: write the word with an owner, as in (name) or (#12)"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.check(test.tree)); diff != "" {
				t.Errorf("the check says (-want +got):\n%s", diff)
			}
		})
	}
}
