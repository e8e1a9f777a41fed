package architecture

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/migrations"
)

func readDocument(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStateDiagramsAreTheTables(t *testing.T) {
	text := readDocument(t, "docs/architecture.md")
	for heading, moves := range map[string]map[run.Status][]run.Status{
		"## The states of a Run":      run.RunMoves,
		"## The states of an Attempt": run.AttemptMoves,
	} {
		if diff := cmp.Diff(arrows(moves), drawn(text, heading)); diff != "" {
			t.Errorf("the diagram under %q differs from the table (-table +diagram):\n%s", heading, diff)
		}
	}
}

// arrows lists moves as a diagram draws them: a state without a way out is an end.
func arrows(moves map[run.Status][]run.Status) (list []string) {
	for from, targets := range moves {
		for _, to := range targets {
			list = append(list, fmt.Sprintf("%s --> %s", from, to))
			if len(moves[to]) == 0 {
				list = append(list, fmt.Sprintf("%s --> [*]", to))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var arrow = regexp.MustCompile(`(?m)^ +([a-z_]+ --> (?:[a-z_]+|\[\*\]))$`)

// drawn lists the arrows between states in the section under heading.
func drawn(text, heading string) (list []string) {
	_, section, _ := strings.Cut(text, heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range arrow.FindAllStringSubmatch(section, -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return list
}

func TestDocumentsNameEverything(t *testing.T) {
	named := map[string][]string{"docs/security.md": migrations.Roles()}
	for _, p := range readTree(t).packages {
		if slices.ContainsFunc(p.files, func(f file) bool { return !f.test }) {
			named["docs/architecture.md"] = append(named["docs/architecture.md"], p.path)
		}
	}
	for path, names := range named {
		text := readDocument(t, path)
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s does not tell of `%s`", path, name)
			}
		}
	}
}

// link is a Markdown link or image to something that is not another site.
var link = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	root := "../.."
	documents, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{} // and a document that links there
	for _, path := range append(documents, root+"/README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			targets[filepath.Join(filepath.Dir(path), m[1])] = path
		}
	}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s links to %s, which is not there", targets[target], target)
		}
	}
}

// A threat is the last cell of a row under this heading, and that names tests of packages: `internal/pg` TestA, TestB; `web` TestC.
const threatTable = "| threat | answer | tests |\n| --- | --- | --- |\n"

var testsOfAPackage = regexp.MustCompile("^`([a-z0-9/]+)` ((?:Test|Fuzz)\\w+(?:, (?:Test|Fuzz)\\w+)*)$")

func TestEveryThreatNamesTestsThatExist(t *testing.T) {
	tables := strings.Split(readDocument(t, "docs/security.md"), threatTable)[1:]
	if len(tables) == 0 {
		t.Fatal("docs/security.md has no table of threats")
	}
	declared := map[string]string{} // the test files of a package
	for _, table := range tables {
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.Lines(table) {
			cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(row), " |"), " | ")
			for list := range strings.SplitSeq(cells[len(cells)-1], "; ") {
				m := testsOfAPackage.FindStringSubmatch(list)
				if m == nil {
					t.Errorf("%q names no tests, in: %s", list, row)
					continue
				}
				if _, read := declared[m[1]]; !read {
					declared[m[1]] = readTests(t, m[1])
				}
				for name := range strings.SplitSeq(m[2], ", ") {
					if !strings.Contains(declared[m[1]], "\nfunc "+name+"(") {
						t.Errorf("docs/security.md names %s of %s, which is not there", name, m[1])
					}
				}
			}
		}
	}
}

// readTests is the text of all test files of a package.
func readTests(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// quoted is what a document quotes: a title of a page, or what a program says.
var quoted = regexp.MustCompile("\\*([^*]+)\\*|`([^`]+)`")

// What operators are told to look for is what the program says, but for the numbers, and for what stands for …
func TestSymptomsAreWhatTheProgramSays(t *testing.T) {
	_, section, _ := strings.Cut(readDocument(t, "docs/operations.md"), "## What to do when\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/operations.md does not say what to do when")
	}
	source := readSource(t)
	number := regexp.MustCompile(`[0-9]+`)
	for row := range strings.Lines(section) {
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		symptom, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, m := range quoted.FindAllStringSubmatch(symptom, -1) {
			for part := range strings.SplitSeq(m[1]+m[2], "…") {
				part = strings.Trim(part, " :;,")
				pattern := number.ReplaceAllLiteralString(regexp.QuoteMeta(part), `(?:[0-9]+|%d)`)
				if !strings.HasPrefix(part, "ql3_") && !regexp.MustCompile(pattern).MatchString(source) {
					t.Errorf("docs/operations.md quotes %q, which nothing says", part)
				}
			}
		}
	}
}

// readSource is the text of every Go file of the product.
func readSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, p := range readTree(t).packages {
		for _, f := range p.files {
			if !f.test {
				all.WriteString(readDocument(t, f.path))
			}
		}
	}
	return all.String()
}
