package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestApply(t *testing.T) {
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	revisions := func() int64 { return pgtest.Value[int64](t, super, "SELECT count(*) FROM trigger_revisions") }

	console(t, vars, "apply", "--dry-run", "-f", "sample.yaml").said(t, "project sample:", "+ project sample", "+ task heartbeat", "+ trigger every-ten-seconds")
	if n := revisions(); n != 0 {
		t.Errorf("--dry-run left %d revisions, want none", n)
	}
	console(t, vars, "apply", "-f", "sample.yaml").said(t, "project sample:", "+ task heartbeat")
	published := revisions()
	console(t, vars, "apply", "--file", "sample.yaml").said(t, "project sample: unchanged")
	if n := revisions(); n != published || n == 0 {
		t.Errorf("applying it again made %d revisions of %d", n, published)
	}

	changed := strings.Replace(sample, `"*/20 * * * * *"`, `"*/30 * * * * *"`, 1)
	consoleReading(t, changed, vars, "apply", "--dry-run", "-f", "-").said(t, `~ trigger every-twenty-seconds: cron "*/20 * * * * *" → "*/30 * * * * *"`)
	consoleReading(t, changed, vars, "apply", "-f", "-").said(t, `~ trigger every-twenty-seconds: cron "*/20 * * * * *" → "*/30 * * * * *"`)
	consoleReading(t, changed, vars, "apply", "-f", "-").said(t, "project sample: unchanged")
}

// A role is given in a project that is there, so nobody has one in a project that is new.
func TestApplySaysWhoSeesANewProject(t *testing.T) {
	vars := variables(pgtest.New(t))
	const web, ops = "projects:\n  - { id: web, name: Web }\n", "  - { id: ops, name: Operations }\n"
	const hint = "nobody sees a new project yet; give somebody a role who has signed in once, such as\n"
	grant := func(project string) string {
		return "  console grant --project " + project + " --role owner --subject ISSUER SUBJECT\n"
	}
	steps := []struct{ name, manifest, args, want string }{
		{"not done", web, "apply --dry-run -f -", "project web:\n  + project web\n"},
		{"new", web, "apply -f -", "project web:\n  + project web\n" + hint + grant("web")},
		{"there already", web, "apply -f -", "project web: unchanged\n"},
		{"one of two is new", strings.Replace(web, "Web", "Web pages", 1) + ops, "apply -f -",
			"project web:\n  ~ project web: name \"Web\" → \"Web pages\"\nproject ops:\n  + project ops\n" + hint + grant("ops")},
	}
	for _, step := range steps {
		if got := consoleReading(t, step.manifest, vars, strings.Fields(step.args)...); got != (result{0, step.want, ""}) {
			t.Errorf("%s: %+v, want %q", step.name, got, step.want)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	project := func(rest string) string { return "projects:\n  - id: ops\n    name: Operations\n" + rest }
	trigger := func(rest string) string {
		return project("    tasks:\n      - id: job\n        name: Job\n        command: [/bin/true]\n        triggers:\n          - { id: t, timezone: UTC, " + rest + " }\n")
	}
	consoleReading(t, project("    state: archived\n"), vars, "apply", "-f", "-").said(t, "+ project ops")
	tests := []struct {
		name     string
		manifest string
		want     []string
	}{
		{"no YAML", "projects: [", []string{"standard input:1: "}},
		{"an unknown field", project("    owner: me\n"), []string{"standard input:4: projects[0].owner: "}},
		{"a macro", trigger(`cron: "@daily"`), []string{"standard input:9: projects[0].tasks[0].triggers[0].cron: "}},
		{"two mistakes", trigger(`cron: "61 * * * *", misfire: never`), []string{"triggers[0].cron: ", "triggers[0].misfire: "}},
		{"a literal secret", project("    tasks:\n      - id: job\n        name: Job\n        command: [/bin/true]\n        env: { API_TOKEN: hunter2hunter2 }\n"),
			[]string{"standard input:8: projects[0].tasks[0].env.API_TOKEN: "}},
		{"a change of an archived Project", trigger(`cron: "0 3 * * *"`), []string{"tasks[0]: changes the Project ops, which is archived", "triggers[0]: changes the Project ops, which is archived"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, args := range [][]string{{"apply", "-f", "-"}, {"apply", "--dry-run", "-f", "-"}} {
				got := consoleReading(t, test.manifest, vars, args...)
				got.refused(t, exitUsage, test.want...)
				if strings.Contains(got.stderr, "hunter2") {
					t.Errorf("standard error repeats a value: %q", got.stderr)
				}
			}
		})
	}
	if n := pgtest.Value[int64](t, super, "SELECT count(*) FROM task_definitions"); n != 0 {
		t.Errorf("%d Tasks were published by manifests with mistakes", n)
	}

	gone := filepath.Join(t.TempDir(), "gone.yaml")
	console(t, vars, "apply", "-f", gone).refused(t, exitUsage, "--file: cannot read "+gone+": no such file or directory")
	if err := os.WriteFile(gone, []byte("projects: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	console(t, vars, "apply", "-f", gone).refused(t, exitUsage, gone+":1: projects: ")
}

func TestApplyTheManifestOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, _ := strings.Cut(string(text), "```yaml\n")
	manifest, _, _ = strings.Cut(manifest, "```\n")
	consoleReading(t, manifest, variables(pgtest.New(t)), "apply", "--dry-run", "-f", "-").said(t, "+ project ops", "+ task nightly-report", "+ trigger nightly-report")
}
