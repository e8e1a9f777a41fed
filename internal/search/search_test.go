package search_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const manifest = `
projects:
  - id: ops
    name: Operations
    tasks:
      - id: report
        name: Nightly Report
        command: [/bin/report, needle]
        timeout: 1m
        triggers:
          - {id: nightly, cron: "30 2 * * *", timezone: Europe/Berlin}
          - {id: report-hourly, cron: "0 * * * *", timezone: UTC}
  - id: growth
    name: Growth
    tasks:
      - id: report-digest
        name: Mail digest
        command: [/bin/digest]
        timeout: 1m
        triggers:
          - {id: report, cron: "15 9 * * *", timezone: Asia/Shanghai}
`

func TestFind(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	mei, idle := uuid.New(), uuid.New()
	for id, name := range map[uuid.UUID]string{mei: "Mei Lin", idle: "Mei Idle"} {
		pgtest.Exec(t, super, `INSERT INTO users (id, issuer, subject, name, email, created_at_ms, updated_at_ms) VALUES ($1, 'https://idp', $2, $3, 'mei@example.org', 1, 1)`,
			id, id.String(), name)
	}
	source := runtest.Admit(t, d, "ops", "nightly", now, now)
	pgtest.Force(t, super, `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type,
			execution_origin, triggered_by, step_up_proof_id, status, idempotency_key, created_at_ms, queued_at_ms)
		SELECT gen_random_uuid(), project_id, task_id, task_revision, task_name, task_snapshot_ref, id, 'run_manual_retry',
			'manual', $2, id, 'queued', 'ql3:run-manual-retry:v1:1', created_at_ms, queued_at_ms FROM runs WHERE id = $1`, source, mei.String())

	both := []string{"growth", "ops"}
	tests := []struct {
		name, text string
		projects   []string
		want       string
	}{
		{"equal before beginning before containing", "report", both,
			"tasks [{ops report Nightly Report} {growth report-digest Mail digest}] triggers [{growth report} {ops report-hourly}]"},
		{"a Task's name", "mail D", both, "tasks [{growth report-digest Mail digest}]"},
		{"a Project's name", "operat", both, "projects [{ops Operations}]"},
		{"a Project's id", "ops", both, "projects [{ops Operations}]"},
		{"nothing of another Project", "report", []string{"ops"}, "tasks [{ops report Nightly Report}] triggers [{ops report-hourly}]"},
		{"nor the Project itself", "growth", []string{"ops"}, ""},
		{"only a user who has retried", "mei", both, "users [Mei Lin]"},
		{"by address", "@example.org", both, "users [Mei Lin]"},
		{"and where the reader sees it", "mei", []string{"growth"}, ""},
		{"a command is not searched", "needle", both, ""},
		{"no wildcards", "r_port", both, ""},
		{"no Project sees nothing", "report", nil, ""},
		{"blanks", " \t ", both, ""},
		{"not text", "re\xffport", both, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := search.Find(t.Context(), q, tt.projects, tt.text)
			if diff := cmp.Diff(tt.want, said(f)); err != nil || diff != "" || f.More {
				t.Errorf("Find(%v, %q): %v, more %t (-want +got)\n%s", tt.projects, tt.text, err, f.More, diff)
			}
		})
	}
}

// said is what f found, in one line.
func said(f search.Found) (line string) {
	add := func(n int, format string, args ...any) {
		if n > 0 && line != "" {
			line += " "
		}
		if n > 0 {
			line += fmt.Sprintf(format, args...)
		}
	}
	add(len(f.Projects), "projects %v", f.Projects)
	add(len(f.Tasks), "tasks %v", f.Tasks)
	add(len(f.Triggers), "triggers %v", f.Triggers)
	var names []string
	for _, u := range f.Users {
		names = append(names, u.Name)
	}
	add(len(names), "users %v", names)
	return line
}

// More than one search finds is said, and the one that is named whole is found among any number.
func TestFindSaysThatThereIsMore(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	pgtest.Force(t, super, `INSERT INTO triggers (project_id, trigger_id, current_revision, created_at_ms, updated_at_ms)
		SELECT 'ops', 'many-' || lpad(n::text, 5, '0'), 1, 1, 1 FROM generate_series(1, 20000) n`)
	pgtest.Force(t, super, `INSERT INTO triggers (project_id, trigger_id, current_revision, created_at_ms, updated_at_ms) VALUES ('ops', 'zz-last', 1, 1, 1)`)
	f, err := search.Find(t.Context(), q, []string{"ops"}, "many")
	if err != nil || len(f.Triggers) != search.Most || !f.More || f.Cut != (search.Cut{Triggers: true}) {
		t.Errorf("Find(many) = %d Triggers, more %t of %+v, %v, want %d and more", len(f.Triggers), f.More, f.Cut, err, search.Most)
	}
	f, err = search.Find(t.Context(), q, []string{"ops"}, "zz-last")
	if err != nil || len(f.Triggers) != 1 {
		t.Errorf("Find(zz-last) = %v, %v, want it: it is named whole", f.Triggers, err)
	}
}

// The ids that are listed are of the Projects that are asked about, Project by Project, and not more than are asked for.
func TestList(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	tests := []struct {
		name     string
		projects []string
		most     int
		want     search.IDs
	}{
		{"all", []string{"growth", "ops"}, 9, search.IDs{
			Tasks:    []search.Task{{ProjectID: "growth", ID: "report-digest", Name: "Mail digest"}, {ProjectID: "ops", ID: "report", Name: "Nightly Report"}},
			Triggers: []search.Trigger{{ProjectID: "growth", ID: "report"}, {ProjectID: "ops", ID: "nightly"}, {ProjectID: "ops", ID: "report-hourly"}}}},
		{"one Project", []string{"growth"}, 9, search.IDs{
			Tasks: []search.Task{{ProjectID: "growth", ID: "report-digest", Name: "Mail digest"}}, Triggers: []search.Trigger{{ProjectID: "growth", ID: "report"}}}},
		{"the first alone", []string{"ops"}, 1, search.IDs{
			Tasks: []search.Task{{ProjectID: "ops", ID: "report", Name: "Nightly Report"}}, Triggers: []search.Trigger{{ProjectID: "ops", ID: "nightly"}}}},
		{"no Project", nil, 9, search.IDs{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := search.List(t.Context(), q, tt.projects, tt.most)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("List(%v, %d): %v (-want +got)\n%s", tt.projects, tt.most, err, diff)
			}
		})
	}
}

// What is near an id has all of it, or else its first half, in the Projects that are asked about.
func TestNear(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	both := []string{"growth", "ops"}
	tests := []struct {
		name, text string
		projects   []string
		tasks      string
		triggers   string
	}{
		{"whole", "report", both, "[{ops report} {growth report-digest}]", "[{growth report} {ops report-hourly}]"},
		{"mistyped at its end", "report-hou1ry", both, "[{growth report-digest}]", "[{ops report-hourly}]"},
		{"in one Project", "report", []string{"growth"}, "[{growth report-digest}]", "[{growth report}]"},
		{"nothing", "xyz", both, "[]", "[]"},
		{"blank", " ", both, "[]", "[]"},
		{"no Project", "report", nil, "[]", "[]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tasks, err := search.NearTasks(t.Context(), q, tt.projects, tt.text)
			if got := fmt.Sprint(tasks); err != nil || got != tt.tasks {
				t.Errorf("NearTasks(%v, %q) = %s, %v, want %s", tt.projects, tt.text, got, err, tt.tasks)
			}
			triggers, err := search.NearTriggers(t.Context(), q, tt.projects, tt.text)
			if got := fmt.Sprint(triggers); err != nil || got != tt.triggers {
				t.Errorf("NearTriggers(%v, %q) = %s, %v, want %s", tt.projects, tt.text, got, err, tt.triggers)
			}
		})
	}
}
