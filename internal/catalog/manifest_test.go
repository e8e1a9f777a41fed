package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const whole = `projects:
  - id: ops
    name: Operations
    tasks:
      - id: nightly-report
        name: Nightly report
        command: [/usr/local/bin/report, --day, yesterday, --retries, 010]
        env: { REGION: eu, TOKEN: "qlsecret:v1:report-token", DEBUG: yes, PORT: 8080 }
        workingDirectory: /srv/report
        timeout: 30m
        placement: { requires: [linux, arm64] }
        runbook: https://wiki.example/runbooks/nightly-report
        logs: https://logs.example/?run={run}&attempt={attempt}
        retry: { safe: no, note: sends an e-mail to all customers }
        triggers:
          - id: nightly-report
            cron: "30 2 * * *"
            timezone: Europe/Berlin
            misfire: fire_once
      - id: smallest
        name: Smallest
        command: [true-ish]
        triggers: [{ id: hourly, cron: "0 * * * *", timezone: UTC, enabled: false }]
  - { id: old, name: Old, state: archived }
`

func read(manifest string) (Manifest, error) { return Read("m.yaml", strings.NewReader(manifest)) }

func TestRead(t *testing.T) {
	got, err := read(whole)
	if err != nil {
		t.Fatalf("Read() = %v, want no mistakes", err)
	}
	want := Manifest{File: "m.yaml", Projects: []Project{
		{ID: "ops", Name: "Operations", At: Position{2, "projects[0]"}, Tasks: []Task{
			{
				ID: "nightly-report", Name: "Nightly report", Enabled: true, At: Position{5, "projects[0].tasks[0]"},
				Command:          []string{"/usr/local/bin/report", "--day", "yesterday", "--retries", "010"},
				Env:              map[string]string{"REGION": "eu", "TOKEN": "qlsecret:v1:report-token", "DEBUG": "yes", "PORT": "8080"},
				WorkingDirectory: "/srv/report",
				Timeout:          30 * time.Minute,
				Placement:        Placement{Requires: []string{"arm64", "linux"}},
				Runbook:          "https://wiki.example/runbooks/nightly-report",
				Logs:             "https://logs.example/?run={run}&attempt={attempt}",
				Retry:            Retry{Safe: "no", Note: "sends an e-mail to all customers"},
				Triggers: []Trigger{{
					ID: "nightly-report", At: Position{16, "projects[0].tasks[0].triggers[0]"}, Enabled: true, Cron: "30 2 * * *", Written: "30 2 * * *",
					Timezone: "Europe/Berlin", Misfire: "fire_once",
				}},
			},
			{
				ID: "smallest", Name: "Smallest", Enabled: true, At: Position{20, "projects[0].tasks[1]"}, Command: []string{"true-ish"},
				Timeout: time.Hour, Retry: Retry{Safe: "ask"},
				Triggers: []Trigger{{
					ID: "hourly", At: Position{23, "projects[0].tasks[1].triggers[0]"}, Cron: "0 * * * *", Written: "0 * * * *", Timezone: "UTC", Misfire: "skip",
				}},
			},
		}},
		{ID: "old", Name: "Old", State: "archived", At: Position{24, "projects[1]"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Read() (-want +got):\n%s", diff)
	}
}

// task returns a manifest of one Task with lines added at the Task's indent;
// the first of them is line 5, and the command stands on line 4.
func task(lines ...string) string {
	return "projects:\n- id: p\n  name: P\n  tasks: [{id: t, name: T, command: [/bin/x],\n" + strings.Join(lines, "\n") + "}]\n"
}

func trigger(fields string) string {
	return task("triggers: [{id: g, cron: '0 2 * * *', timezone: UTC, " + fields + "}]")
}

func TestReadRefuses(t *testing.T) {
	const t0 = "projects[0].tasks[0]"
	tests := []struct {
		name     string
		manifest string
		want     []string // without the file's name
	}{
		{"empty", "", []string{"1: is empty; a manifest begins with projects:"}},
		{"only a comment", "# nothing\n", []string{"1: is empty; a manifest begins with projects:"}},
		{"null", "---\n~\n", []string{"1: is empty; a manifest begins with projects:"}},
		{"a list", "- projects\n", []string{"1: must be a mapping (key: value)"}},
		{"text", "projects\n", []string{"1: must be a mapping (key: value)"}},
		{"no projects", "{}\n", []string{"1: projects: is required: the list of projects to publish"}},
		{"projects without value", "projects:\n", []string{"1: projects: has no value: give it one or leave the line out"}},
		{"projects as mapping", "projects: {id: p}\n", []string{"1: projects: must be a list"}},
		{"project as text", "projects: [p]\n", []string{"1: projects[0]: must be a mapping (key: value)"}},
		{"two documents", "projects: []\n---\nprojects: []\n", []string{"2: begins a second document; a manifest is one document"}},
		{"bad second document", "projects: []\n---\n\tx: [\n", []string{"3: begins with a tab; YAML is indented with spaces"}},
		{"not UTF-8", "projects: []\n# \xff\n", []string{"2: is not UTF-8 text"}},
		{"UTF-16", "\xff\xfep\x00", []string{"1: is not UTF-8 text"}},
		{"too large", "projects: []\n" + strings.Repeat("#", MaxManifestBytes), []string{"1: is larger than 4 MiB; split it, a manifest need not hold everything"}},
		{"too deep", "projects: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), []string{
			"1: projects" + strings.Repeat("[0]", 16) + ": is nested too deeply", "1: projects[0]: must be a mapping (key: value)"}},
		{"tab", "projects:\n- id: p\n\tname: P\n", []string{"3: begins with a tab; YAML is indented with spaces"}},
		{"unclosed quote", "projects:\n- id: \"p\n  name: P\n", []string{"2: is not valid YAML: found unexpected end of stream"}},
		{"bad line of a very large file", "projects: [\n" + strings.Repeat("#\n", 300_000) + "}\n", []string{"300001: is not valid YAML: did not find expected node content"}},
		{"bad indentation", "projects:\n- id: p\n  name: P\n tasks: []\n", []string{"4: is not valid YAML: did not find expected key"}},
		{"star without quotes", "projects:\n- id: p\n  name: *every day\n", []string{"3: is an alias (*name): text that begins with * needs quotes"}},
		{"stars without quotes", "projects:\n- id: p\n  name: * * * * *\n", []string{"3: is not valid YAML: text that begins with one of * & ! % @ ` needs quotes"}},
		{"macro without quotes", "projects:\n- id: p\n  name: @daily\n", []string{"3: is not valid YAML: text that begins with one of * & ! % @ ` needs quotes"}},
		{"anchor and alias", "projects:\n- id: &a p\n  name: *a\n", []string{
			"2: projects[0].id: has an anchor (&name): write the value out where it is needed; text that begins with & needs quotes",
			"3: projects[0].name: is an alias (*name): write the value out; text that begins with * needs quotes"}},
		{"merge key", "projects:\n- &a {id: p, name: P}\n- <<: *a\n  id: q\n  name: Q\n", []string{
			"2: projects[0]: has an anchor (&name): write the value out where it is needed; text that begins with & needs quotes",
			"3: projects[1]: is a merge key (<<): write the fields out",
			"3: projects[1].(unprintable): is an alias (*name): write the value out; text that begins with * needs quotes"}},
		{"tag", "projects:\n- id: !!str p\n  name: !secret P\n", []string{
			"2: projects[0].id: has a tag (!name): write the plain value; text that begins with ! needs quotes",
			"3: projects[0].name: has a tag (!name): write the plain value; text that begins with ! needs quotes",
			"3: projects[0].name: must be text: put it in quotes"}},
		{"key given twice", "projects:\n- id: p\n  name: P\n  name: Q\n", []string{"4: projects[0].name: is given twice, first on line 3"}},
		{"key that is a list", "projects:\n- id: p\n  name: P\n  ? [x]\n  : y\n", []string{"4: projects[0]: has a key that is not plain text"}},
		{"unknown fields", "projekte: []\nprojects:\n- id: p\n  name: P\n  priority: 3\n", []string{
			"1: projekte: is no field here; the fields are projects",
			"5: projects[0].priority: is no field here; the fields are id, name, state, tasks"}},
		{"unprintable field", "\"a\\e[31m\": 1\nprojects: []\n", []string{"1: (unprintable): is no field here; the fields are projects"}},
		{"every mistake", "projects:\n- id: P\n  state: gone\n  tasks:\n  - id: t\n    command: []\n    timeout: 1\n", []string{
			"2: projects[0].id: must be 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit",
			"2: projects[0].name: is required",
			"3: projects[0].state: must be active or archived",
			"5: projects[0].tasks[0].name: is required",
			"6: projects[0].tasks[0].command: is empty: the program and its arguments",
			"7: projects[0].tasks[0].timeout: needs a unit, such as 90s, 30m or 2h"}},
		{"id for a key's parts", "projects: [{id: 'a:b', name: P}, {id: a/b, name: P}, {id: -a, name: P}]\n", []string{
			"1: projects[0].id: must be 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit",
			"1: projects[1].id: must be 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit",
			"1: projects[2].id: must be 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit"}},
		{"id of 64", "projects: [{id: " + strings.Repeat("a", 64) + ", name: P}]", []string{
			"1: projects[0].id: must be 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit"}},
		{"id that is a number", "projects: [{id: 7, name: P}]", []string{"1: projects[0].id: must be text: put it in quotes"}},
		{"Project twice", "projects:\n- {id: p, name: P}\n- {id: p, name: P}\n", []string{`3: projects[1]: "p" is already on line 2`}},
		{"Task twice", "projects:\n- id: p\n  name: P\n  tasks:\n  - {id: t, name: T, command: [x]}\n  - {id: t, name: T, command: [x]}\n", []string{
			`6: projects[0].tasks[1]: "t" is already on line 5`}},
		{"Trigger twice in one Project", "projects:\n- id: p\n  name: P\n  tasks:\n" +
			"  - {id: t, name: T, command: [x], triggers: [{id: g, cron: 0 2 * * *, timezone: UTC}]}\n" +
			"  - {id: u, name: U, command: [x], triggers: [{id: g, cron: 0 2 * * *, timezone: UTC}]}\n", []string{
			`6: projects[0].tasks[1].triggers[0]: "g" is already on line 5`}},
		{"name that turns the text", "projects: [{id: p, name: \"a\\u202eb\"}]", []string{"1: projects[0].name: holds a control, invisible or text-direction character"}},
		{"name with an escape", "projects: [{id: p, name: \"a\\e[31mb\"}]", []string{"1: projects[0].name: holds a control, invisible or text-direction character"}},
		{"name of 201", "projects: [{id: p, name: " + strings.Repeat("ä", 201) + "}]", []string{"1: projects[0].name: is longer than 200 characters"}},
		{"empty name", "projects: [{id: p, name: ''}]", []string{"1: projects[0].name: is empty"}},
		{"name in blanks", "projects: [{id: p, name: ' P'}]", []string{"1: projects[0].name: begins or ends with a blank"}},
		{"tasks without value", "projects:\n- id: p\n  name: P\n  tasks:\n", []string{"4: projects[0].tasks: has no value: give it one or leave the line out"}},

		{"no command", "projects: [{id: p, name: P, tasks: [{id: t, name: T}]}]", []string{"1: " + t0 + ".command: is required: the program and its arguments, as a list"}},
		{"command as a shell line", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: rm -rf /}]}]", []string{"1: " + t0 + ".command: must be a list"}},
		{"shell line in a list", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [echo hi]}]}]", []string{
			"1: " + t0 + ".command[0]: holds a blank: give the program and each argument as elements of their own"}},
		{"relative program", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [bin/x]}]}]", []string{
			"1: " + t0 + ".command[0]: must be an absolute, clean path or a bare program name"}},
		{"empty program", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: ['']}]}]", []string{"1: " + t0 + ".command[0]: is empty: the program to execute"}},
		{"argument without value", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, ~, [y]]}]}]", []string{
			"1: " + t0 + `.command[1]: has no value: write "" for an empty one`, "1: " + t0 + ".command[2]: must be text"}},
		{"argument with NUL", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, \"a\\0\"]}]}]", []string{"1: " + t0 + ".command[1]: holds a NUL"}},
		{"argument too long", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, " + strings.Repeat("a", 4097) + "]}]}]", []string{
			"1: " + t0 + ".command[1]: is longer than 4096 bytes"}},
		{"257 arguments", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x" + strings.Repeat(", a", 256) + "]}]}]", []string{
			"1: " + t0 + ".command: has 257 elements; at most 256 are allowed"}},
		{"reference in an argument", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, 'qlsecret:v1:a']}]}]", []string{
			"1: " + t0 + ".command[1]: a secret reference works in env only: an argument is seen by everybody on the machine"}},
		{"password argument", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, --password=hunter2]}]}]", []string{
			"1: " + t0 + ".command[1]: looks like a secret: pass it in env as a reference, qlsecret:v1:<name>"}},

		{"env as a list", task("env: [A=b]"), []string{"5: " + t0 + ".env: must be a mapping (key: value)"}},
		{"env name", task("env: {9A: b, A-B: c}"), []string{
			"5: " + t0 + ".env.9A: must be a variable name: letters, digits and underscore, not beginning with a digit, at most 128 long",
			"5: " + t0 + ".env.A-B: must be a variable name: letters, digits and underscore, not beginning with a digit, at most 128 long"}},
		{"env without value", task("env: {", "A: ,", "B: {c: d}}"), []string{
			"6: " + t0 + `.env.A: has no value: write "" for an empty one`, "7: " + t0 + ".env.B: must be text"}},
		{"env given twice", task("env: {A: a,", "A: b}"), []string{"6: " + t0 + ".env.A: is given twice, first on line 5"}},
		{"env too long", task("env: {A: " + strings.Repeat("a ", 16384) + "b}"), []string{"5: " + t0 + ".env.A: is longer than 32768 bytes"}},
		{"env with NUL", task(`env: {A: "a\0"}`), []string{"5: " + t0 + ".env.A: holds a NUL"}},
		{"literal secret", task("env: {", "DB_PASSWORD: hunter2}"), []string{
			"6: " + t0 + ".env.DB_PASSWORD: looks like a secret: write a reference, qlsecret:v1:<name>, and keep the value in the secret store"}},
		{"malformed reference", task("env: {A: qlsecret:v2:x, B: 'qlsecret:v1:', C: Bearer qlsecret:v1:x}"), []string{
			"5: " + t0 + ".env.A: must be the whole of qlsecret:v1:<name>, the name 1 to 63 of a-z, 0-9, dot, hyphen and underscore",
			"5: " + t0 + ".env.B: must be the whole of qlsecret:v1:<name>, the name 1 to 63 of a-z, 0-9, dot, hyphen and underscore",
			"5: " + t0 + ".env.C: must be the whole of qlsecret:v1:<name>, the name 1 to 63 of a-z, 0-9, dot, hyphen and underscore"}},
		{"too large in all", task("env: {", bigEnv(33), "Z: z}"), []string{"4: " + t0 + ".command: and env together are larger than 1024 KiB"}},

		{"relative directory", task("workingDirectory: srv"), []string{"5: " + t0 + ".workingDirectory: must be absolute"}},
		{"unclean directory", task("workingDirectory: /srv/../etc"), []string{"5: " + t0 + ".workingDirectory: must be clean: no . or .. parts, no double or trailing slash"}},
		{"timeout without unit", task("timeout: 30"), []string{"5: " + t0 + ".timeout: needs a unit, such as 90s, 30m or 2h"}},
		{"timeout in words", task("timeout: soon"), []string{"5: " + t0 + ".timeout: must be a duration such as 90s, 30m or 2h; a day is 24h"}},
		{"timeout too short", task("timeout: 999ms"), []string{"5: " + t0 + ".timeout: must be from 1s to 168h"}},
		{"timeout too long", task("timeout: 168h1s"), []string{"5: " + t0 + ".timeout: must be from 1s to 168h"}},
		{"timeout in parts", task("timeout: 1500ms"), []string{"5: " + t0 + ".timeout: must be whole seconds"}},
		{"placement as list", task("placement: [linux]"), []string{"5: " + t0 + ".placement: must be a mapping (key: value)"}},
		{"label", task("placement: {requires: [Linux, gpu, gpu]}"), []string{
			"5: " + t0 + ".placement.requires[0]: must be 1 to 63 of a-z, 0-9 and . _ = / -, beginning with a letter or digit",
			"5: " + t0 + `.placement.requires[2]: "gpu" is already on line 5`}},
		{"http runbook", task("runbook: http://wiki.example/"), []string{"5: " + t0 + ".runbook: must be an https URL"}},
		{"script as a link", task("runbook: 'javascript:alert(1)'"), []string{"5: " + t0 + ".runbook: must be an https URL"}},
		{"link without host", task("logs: 'https:///x'"), []string{"5: " + t0 + ".logs: must be an https URL"}},
		{"unknown placeholder", task("logs: 'https://x/{user}'"), []string{"5: " + t0 + ".logs: may hold the placeholders {run}, {attempt}, {task} and {project} and no other braces"}},
		{"placeholder as host", task("logs: 'https://{task}.example/'"), []string{"5: " + t0 + ".logs: must not have a placeholder in the host name"}},
		{"link with a password", task("logs: 'https://u:p@x/'"), []string{"5: " + t0 + ".logs: must not hold a user name or password"}},
		{"link with a blank", task("logs: 'https://x/a b'"), []string{"5: " + t0 + ".logs: holds a blank or a character that must be percent-encoded"}},
		{"retry in other words", task("retry: {safe: maybe}"), []string{"5: " + t0 + ".retry.safe: must be yes, no or ask"}},
		{"retry as a boolean", task("retry: {safe: true}"), []string{"5: " + t0 + ".retry.safe: must be yes, no or ask"}},
		{"long note", task("retry: {note: " + strings.Repeat("a", 501) + "}"), []string{"5: " + t0 + ".retry.note: is longer than 500 characters"}},
		{"enabled in words", task("enabled: 'true'"), []string{"5: " + t0 + ".enabled: must be true or false, without quotes"}},

		{"no cron, no zone", task("triggers: [{id: g}]"), []string{
			"5: " + t0 + ".triggers[0].cron: is required", "5: " + t0 + ".triggers[0].timezone: is required"}},
		{"misfire", trigger("misfire: replay"), []string{"5: " + t0 + ".triggers[0].misfire: must be skip or fire_once"}},
		{"trigger name", trigger("name: G"), []string{"5: " + t0 + ".triggers[0].name: is no field here; the fields are id, enabled, cron, timezone, misfire"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(tt.manifest)
			mistakes, _ := errors.AsType[Mistakes](err)
			var got []string
			for _, m := range mistakes {
				got = append(got, strings.TrimPrefix(m.Error(), "m.yaml:"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Read() (-want +got):\n%s", diff)
			}
		})
	}
}

// What is wrong with an expression or zone is internal/cron's to word; that it
// arrives with its place is ours.
func TestReadRefusesCron(t *testing.T) {
	const g = "projects[0].tasks[0].triggers[0]"
	tests := []struct {
		name, cron, zone string
		want             []string // prefixes
	}{
		{"macro", "@daily", "UTC", []string{"m.yaml:6: " + g + ".cron: "}},
		{"prefix", "TZ=UTC 0 2 * * *", "UTC", []string{"m.yaml:6: " + g + ".cron: "}},
		{"minute", "61 * * * *", "UTC", []string{"m.yaml:6: " + g + ".cron: "}},
		{"never", "0 0 30 2 *", "UTC", []string{"m.yaml:6: " + g + ".cron: "}},
		{"empty", " ", "UTC", []string{"m.yaml:6: " + g + ".cron: "}},
		{"Local", "0 2 * * *", "Local", []string{"m.yaml:7: " + g + ".timezone: "}},
		{"path", "0 2 * * *", "../etc/passwd", []string{"m.yaml:7: " + g + ".timezone: "}},
		{"both", "61 2 * * *", "Europe/Berlinn", []string{"m.yaml:6: " + g + ".cron: ", "m.yaml:7: " + g + ".timezone: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(task("triggers: [{id: g,", "cron: '"+tt.cron+"',", "timezone: '"+tt.zone+"'}]"))
			mistakes, _ := errors.AsType[Mistakes](err)
			if len(mistakes) != len(tt.want) {
				t.Fatalf("Read(cron %q, timezone %q) = %v, want %d mistakes", tt.cron, tt.zone, err, len(tt.want))
			}
			for i, want := range tt.want {
				if got := mistakes[i].Error(); !strings.HasPrefix(got, want) {
					t.Errorf("Read(cron %q, timezone %q) = %q, want %q…", tt.cron, tt.zone, got, want)
				}
			}
		})
	}
}

func TestReadAccepts(t *testing.T) {
	tests := []struct{ name, manifest string }{
		{"nothing to publish", "projects: []\n"},
		{"byte order mark", "\ufeffprojects: []\n"},
		{"carriage returns", "projects:\r\n- id: p\r\n  name: P\r\n"},
		{"end of document", "---\nprojects: []\n...\n"},
		{"JSON", `{"projects": [{"id": "p", "name": "P", "tasks": []}]}`},
		{"names in other scripts", "projects: [{id: p, name: 'می\u200cخواهم 运维 👩\u200d💻'}]"},
		{"every placeholder", task("logs: 'https://x/{project}/{task}?{run}#{attempt}'")},
		{"longest timeout", task("timeout: 168h")},
		{"seven days and a half in minutes", task("timeout: 10080m")},
		{"empty argument", "projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, '']}]}]"},
		{"script of several lines", "projects:\n- id: p\n  name: P\n  tasks:\n  - id: t\n    name: T\n    command:\n    - sh\n    - -c\n    - |\n      if x; then\n      \techo y\n      fi\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := read(tt.manifest); err != nil {
				t.Errorf("Read() = %v, want no mistakes", err)
			}
		})
	}
}

func bigEnv(n int) string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("V%d: %s,", i, strings.Repeat("a ", 16000)+"b"))
	}
	return strings.Join(lines, "\n")
}

// asManifest writes a manifest as JSON, which is YAML. Reading it again must
// give the same definitions.
func asManifest(m Manifest) string {
	var projects []any
	for _, p := range m.Projects {
		project := map[string]any{"id": p.ID, "name": p.Name}
		if p.State != "" {
			project["state"] = p.State
		}
		var tasks []any
		for _, t := range p.Tasks {
			tasks = append(tasks, taskFields(t))
		}
		if tasks != nil {
			project["tasks"] = tasks
		}
		projects = append(projects, project)
	}
	if projects == nil {
		projects = []any{}
	}
	text, err := json.Marshal(map[string]any{"projects": projects})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func taskFields(t Task) map[string]any {
	fields := map[string]any{
		"id": t.ID, "name": t.Name, "enabled": t.Enabled, "command": t.Command,
		"timeout": t.Timeout.String(), "retry": map[string]any{"safe": t.Retry.Safe, "note": t.Retry.Note},
	}
	optional := map[string]string{"workingDirectory": t.WorkingDirectory, "runbook": t.Runbook, "logs": t.Logs}
	for name, value := range optional {
		if value != "" {
			fields[name] = value
		}
	}
	if t.Env != nil {
		fields["env"] = t.Env
	}
	if len(t.Placement.Requires) > 0 {
		fields["placement"] = map[string]any{"requires": t.Placement.Requires}
	}
	var triggers []any
	for _, g := range t.Triggers {
		triggers = append(triggers, map[string]any{
			"id": g.ID, "enabled": g.Enabled, "cron": g.Written, "timezone": g.Timezone, "misfire": g.Misfire,
		})
	}
	if triggers != nil {
		fields["triggers"] = triggers
	}
	return fields
}

func TestMistakesAreToldOfUpToAHundred(t *testing.T) {
	mistakes := func(n int) (ms Mistakes) {
		for i := range n {
			ms = append(ms, Mistake{File: "m.yaml", Line: i + 1, Reason: "unknown field"})
		}
		return ms
	}
	if got := strings.Split(mistakes(mostTold).Error(), "\n"); len(got) != mostTold || got[mostTold-1] != "m.yaml:100: unknown field" {
		t.Errorf("%d mistakes are %d lines, the last %q, want each on its own", mostTold, len(got), got[len(got)-1])
	}
	if got := strings.Split(mistakes(mostTold+50).Error(), "\n"); len(got) != mostTold+1 || got[mostTold] != "and 50 more" {
		t.Errorf("%d mistakes are %d lines, the last %q, want %d, the last: and 50 more", mostTold+50, len(got), got[len(got)-1], mostTold+1)
	}
}
