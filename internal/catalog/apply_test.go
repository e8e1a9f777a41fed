package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/migrations"
)

const ops = `projects:
- id: ops
  name: Operations
  tasks:
  - id: report
    name: Report
    command: [/bin/report]
    env: { REGION: eu, TOKEN: "qlsecret:v1:a" }
    triggers:
    - { id: nightly, cron: 30 2 * * *, timezone: Europe/Berlin, misfire: fire_once }
    - { id: hourly, cron: 0 * * * *, timezone: UTC, enabled: false }
  - id: sweep
    name: Sweep
    command: [/bin/sweep]
    triggers:
    - { id: sweep, cron: "*/5 * * * *", timezone: UTC }
`

const (
	selectTasks     = `SELECT task_id, current_revision FROM task_definitions ORDER BY 1`
	selectTriggers  = `SELECT trigger_id, revision, task_id, task_revision FROM trigger_revisions ORDER BY 1, 2`
	selectSchedules = `SELECT trigger_id, trigger_revision, enabled, next_fire_at_ms, state_version, claim_version FROM trigger_schedules ORDER BY 1`
)

func TestApplyPublishes(t *testing.T) {
	w := newWorld(t)
	want := `project ops:
  + project ops
  + task report
  + trigger nightly
  + trigger hourly
  + task sweep
  + trigger sweep
`
	if diff := cmp.Diff(want, w.apply(ops)); diff != "" {
		t.Errorf("Apply() (-want +got):\n%s", diff)
	}
	w.wantRows("(ops,Operations,active,1,0,t)", `SELECT id, name, status, version, guard, created_at_ms = updated_at_ms FROM projects`)
	w.wantRows("(report,1)\n(sweep,1)", selectTasks)
	w.wantRows("(hourly,1,report,1)\n(nightly,1,report,1)\n(sweep,1,sweep,1)", selectTriggers)
	w.wantRows("(hourly,1,f,,1,0)\n(nightly,1,t,,1,0)\n(sweep,1,t,,1,0)", selectSchedules)
	w.wantRows("(t,t)", `SELECT bool_and(e.id = 'qltd:v1:1:' || r.content_digest), bool_and(e.created_at_ms = r.created_at_ms)
		FROM task_execution_revisions e JOIN task_definition_revisions r ON (r.project_id, r.task_id, r.revision) = (e.project_id, e.task_id, e.task_revision)`)
	w.wantRows("(t)", `SELECT bool_and(base_at_ms = p.created_at_ms) FROM trigger_schedules, projects p`)
	w.wantRows("", `SELECT * FROM schedule_events`)
}

func TestApplyAgainWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	before := w.everything()
	if got, want := w.apply(ops), "project ops: unchanged\n"; got != want {
		t.Errorf("Apply() again = %q, want %q", got, want)
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("Apply() again wrote (-before +after):\n%s", diff)
	}
}

func TestApplyOmittedStays(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	before := w.everything()
	if got, want := w.apply("projects: [{id: ops, name: Operations, tasks: []}]"), "project ops: unchanged\n"; got != want {
		t.Errorf("Apply() = %q, want %q", got, want)
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("Apply() of less wrote (-before +after):\n%s", diff)
	}
}

// Every row is the same manifest with one thing changed, applied over ops.
func TestApplyChanges(t *testing.T) {
	all := newWorld(t)
	tests := []struct {
		name      string
		replace   [2]string
		want      string
		triggers  string
		schedules string
	}{
		{
			"cron", [2]string{"30 2 * * *", "45 2 * * *"},
			`  ~ trigger nightly: cron "30 2 * * *" → "45 2 * * *"` + "\n",
			"(hourly,1,report,1)\n(nightly,1,report,1)\n(nightly,2,report,1)\n(sweep,1,sweep,1)",
			"(hourly,1,f,,1,0)\n(nightly,2,t,,2,1)\n(sweep,1,t,,1,0)",
		},
		{
			"a Task takes its Triggers along", [2]string{"/bin/report", "/bin/report2"},
			`  ~ task report: command ["/bin/report"] → ["/bin/report2"]` + "\n" +
				"  ~ trigger nightly: task revision 1 → 2\n  ~ trigger hourly: task revision 1 → 2\n",
			"(hourly,1,report,1)\n(hourly,2,report,2)\n(nightly,1,report,1)\n(nightly,2,report,2)\n(sweep,1,sweep,1)",
			"(hourly,2,f,,2,1)\n(nightly,2,t,,2,1)\n(sweep,1,t,,1,0)",
		},
		{
			"omitted Triggers too", [2]string{ops[strings.Index(ops, "  - id: sweep"):], "  - { id: sweep, name: Sweeper, command: [/bin/sweep] }\n"},
			`  ~ task sweep: name "Sweep" → "Sweeper"` + "\n  ~ trigger sweep: task revision 1 → 2\n",
			"(hourly,1,report,1)\n(nightly,1,report,1)\n(sweep,1,sweep,1)\n(sweep,2,sweep,2)",
			"(hourly,1,f,,1,0)\n(nightly,1,t,,1,0)\n(sweep,2,t,,2,1)",
		},
		{
			"Task disabled", [2]string{"name: Report", "name: Report\n    enabled: false"},
			"  ~ task report: enabled true → false\n  ~ trigger nightly: task revision 1 → 2\n  ~ trigger hourly: task revision 1 → 2\n",
			"(hourly,1,report,1)\n(hourly,2,report,2)\n(nightly,1,report,1)\n(nightly,2,report,2)\n(sweep,1,sweep,1)",
			"(hourly,2,f,,2,1)\n(nightly,2,f,,2,1)\n(sweep,1,t,,1,0)",
		},
		{
			"Trigger enabled", [2]string{"enabled: false", "enabled: true"},
			"  ~ trigger hourly: enabled false → true\n",
			"(hourly,1,report,1)\n(hourly,2,report,1)\n(nightly,1,report,1)\n(sweep,1,sweep,1)",
			"(hourly,2,t,,2,1)\n(nightly,1,t,,1,0)\n(sweep,1,t,,1,0)",
		},
		{
			"Trigger moved to another Task", [2]string{"    - { id: hourly, cron: 0 * * * *, timezone: UTC, enabled: false }\n  - id: sweep\n    name: Sweep\n    command: [/bin/sweep]\n    triggers:\n",
				"  - id: sweep\n    name: Sweep\n    command: [/bin/sweep]\n    triggers:\n    - { id: hourly, cron: 0 * * * *, timezone: UTC, enabled: false }\n"},
			"  ~ trigger hourly: task report → sweep\n",
			"(hourly,1,report,1)\n(hourly,2,sweep,1)\n(nightly,1,report,1)\n(sweep,1,sweep,1)",
			"(hourly,2,f,,2,1)\n(nightly,1,t,,1,0)\n(sweep,1,t,,1,0)",
		},
		{
			"Project renamed", [2]string{"name: Operations", "name: Ops"},
			`  ~ project ops: name "Operations" → "Ops"` + "\n",
			"(hourly,1,report,1)\n(nightly,1,report,1)\n(sweep,1,sweep,1)",
			"(hourly,1,f,,1,0)\n(nightly,1,t,,1,0)\n(sweep,1,t,,1,0)",
		},
		{
			"Project archived", [2]string{"name: Operations", "name: Operations\n  state: archived"},
			"  ~ project ops: state active → archived\n",
			"(hourly,1,report,1)\n(nightly,1,report,1)\n(sweep,1,sweep,1)",
			"(hourly,1,f,,2,1)\n(nightly,1,f,,2,1)\n(sweep,1,f,,2,1)",
		},
		{
			"environment by name only", [2]string{`{ REGION: eu, TOKEN: "qlsecret:v1:a" }`, `{ ZONE: x, TOKEN: "qlsecret:v1:b" }`},
			"  ~ task report: env REGION a value → none\n  ~ task report: env TOKEN qlsecret:v1:a → qlsecret:v1:b\n  ~ task report: env ZONE none → a value\n" +
				"  ~ trigger nightly: task revision 1 → 2\n  ~ trigger hourly: task revision 1 → 2\n",
			"(hourly,1,report,1)\n(hourly,2,report,2)\n(nightly,1,report,1)\n(nightly,2,report,2)\n(sweep,1,sweep,1)",
			"(hourly,2,f,,2,1)\n(nightly,2,t,,2,1)\n(sweep,1,t,,1,0)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := all.in(t)
			w.apply(ops)
			changed := strings.Replace(ops, tt.replace[0], tt.replace[1], 1)
			before := w.everything()
			planned, err := Apply(t.Context(), w.admin, w.manifest(changed), Options{DryRun: true})
			if err != nil {
				t.Fatalf("Apply(dry run) = %v", err)
			}
			if diff := cmp.Diff("project ops:\n"+tt.want, show(planned)); diff != "" {
				t.Errorf("Apply(dry run) (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, w.everything()); diff != "" {
				t.Errorf("Apply(dry run) wrote (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff("project ops:\n"+tt.want, w.apply(changed)); diff != "" {
				t.Errorf("Apply() (-want +got):\n%s", diff)
			}
			w.wantRows(tt.triggers, selectTriggers)
			w.wantRows(tt.schedules, selectSchedules)
			w.wantRows("(1)", `SELECT guard FROM projects`)
			if got := w.apply(changed); got != "project ops: unchanged\n" {
				t.Errorf("Apply() again = %q, want no change", got)
			}
		})
	}
}

func TestApplyArchives(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	archived := strings.Replace(ops, "name: Operations", "name: Operations\n  state: archived", 1)
	w.apply(archived)
	w.wantRows("(archived,2,1)", `SELECT status, version, guard FROM projects`)

	t.Run("what is unchanged is no mistake", func(t *testing.T) {
		for _, m := range []string{ops, archived} {
			if got := w.apply(m); got != "project ops: unchanged\n" {
				t.Errorf("Apply() = %q, want no change", got)
			}
		}
	})
	t.Run("a change is refused and changes nothing anywhere", func(t *testing.T) {
		before := w.everything()
		changed := strings.Replace(strings.Replace(ops, "/bin/sweep", "/bin/sweep2", 1), "30 2 *", "31 2 *", 1)
		other := strings.Replace(changed, "projects:\n", "projects:\n- { id: other, name: Other }\n", 1)
		_, err := Apply(t.Context(), w.admin, w.manifest(other), Options{})
		mistakes, _ := errors.AsType[Mistakes](err)
		want := "m.yaml:11: projects[1].tasks[0].triggers[0]: changes the Project ops, which is archived: write state: active to un-archive it\n" +
			"m.yaml:13: projects[1].tasks[1]: changes the Project ops, which is archived: write state: active to un-archive it\n" +
			"m.yaml:17: projects[1].tasks[1].triggers[0]: changes the Project ops, which is archived: write state: active to un-archive it"
		if diff := cmp.Diff(want, mistakes.Error()); diff != "" {
			t.Errorf("Apply() (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, w.everything()); diff != "" {
			t.Errorf("Apply() wrote (-before +after):\n%s", diff)
		}
	})
	t.Run("un-archived, it expects from now on", func(t *testing.T) {
		w.exec(`UPDATE trigger_schedules SET base_at_ms = 1`)
		w.apply(strings.Replace(archived, "state: archived", "state: active", 1))
		w.wantRows("(active,3,2)", `SELECT status, version, guard FROM projects`)
		w.wantRows("(hourly,1,f,,3,2)\n(nightly,1,t,,3,2)\n(sweep,1,t,,3,2)", selectSchedules)
		w.wantRows("(t)", `SELECT bool_and(base_at_ms = p.updated_at_ms) FROM trigger_schedules, projects p`)
	})
}

// A Project that is created archived, or becomes so, still takes its Tasks.
func TestApplyCreatesArchived(t *testing.T) {
	w := newWorld(t)
	w.apply(strings.Replace(ops, "name: Operations", "name: Operations\n  state: archived", 1))
	w.wantRows("(archived,1)", `SELECT status, version FROM projects`)
	w.wantRows("(hourly,1,f,,1,0)\n(nightly,1,f,,1,0)\n(sweep,1,f,,1,0)", selectSchedules)
}

func TestApplyEndsClaims(t *testing.T) {
	all := newWorld(t)
	tests := []struct{ name, manifest string }{
		{"published", strings.Replace(ops, `"*/5 *`, `"*/6 *`, 1)},
		{"Task published", strings.Replace(ops, "/bin/sweep", "/bin/sweep2", 1)},
		{"disabled", strings.Replace(ops, `"*/5 * * * *", timezone: UTC`, `"*/5 * * * *", timezone: UTC, enabled: false`, 1)},
		{"archived", strings.Replace(ops, "name: Operations", "name: Operations\n  state: archived", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := all.in(t)
			w.apply(ops)
			w.exec(`UPDATE trigger_schedules SET claim_owner = 'r', claim_token = gen_random_uuid(), claim_version = 7, state_version = 9,
				claim_expires_at_ms = updated_at_ms + 30000, next_fire_at_ms = 9000000000000, blocked_reason = 'b' WHERE trigger_id = 'sweep'`)
			w.apply(tt.manifest)
			w.wantRows("(10,8,,,,,)", `SELECT state_version, claim_version, claim_owner, claim_token, claim_expires_at_ms, next_fire_at_ms, blocked_reason
				FROM trigger_schedules WHERE trigger_id = 'sweep'`)
			w.wantRows("", `SELECT * FROM schedule_events WHERE type = 'superseded'`) // the cursor was not due
		})
	}
}

func TestApplyRecordsSuperseded(t *testing.T) {
	all := newWorld(t)
	changed := strings.Replace(ops, `"*/5 *`, `"*/6 *`, 1)
	tests := []struct{ name, prepare, manifest, want string }{
		{"due cursor", `next_fire_at_ms = 600000`, changed, `(sweep,1,superseded,600000,1001,t,"revision 2 was published",t,t)`},
		{"never initialised", `next_fire_at_ms = NULL, base_at_ms = 600000`, changed, `(sweep,1,superseded,900000,1001,t,"revision 2 was published",t,t)`},
		{"archived", `next_fire_at_ms = 600000`, strings.Replace(ops, "name: Operations", "name: Operations\n  state: archived", 1),
			`(sweep,1,superseded,600000,1001,t,"the Project was archived",t,t)`},
		{"not enabled", `next_fire_at_ms = 600000, enabled = false`, changed, ""},
		{"not due", `next_fire_at_ms = 9000000000000`, changed, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := all.in(t)
			w.apply(ops)
			w.exec(`UPDATE trigger_schedules SET ` + tt.prepare + ` WHERE trigger_id = 'sweep'`)
			w.apply(tt.manifest)
			w.wantRows(tt.want, `SELECT trigger_id, trigger_revision, type, first_at_ms, instants, at_least, reason,
				last_at_ms BETWEEN created_at_ms - 300000 AND created_at_ms, lateness_ms = created_at_ms - first_at_ms FROM schedule_events WHERE type = 'superseded'`)
		})
	}
}

func TestApplyRecordsWhenAProjectIsArchived(t *testing.T) {
	w := newWorld(t)
	archived := strings.Replace(ops, "name: Operations", "name: Operations\n  state: archived", 1)
	w.apply(ops)
	w.apply(archived)
	w.apply(archived)
	w.apply(strings.Replace(archived, "archived", "active", 1))
	w.wantRows("(archived,3)\n(unarchived,3)", `SELECT type, count(*) FROM schedule_events GROUP BY type ORDER BY type`)
}

// A Schedule that no replica can decide is repaired by publishing over it.
func TestApplyOverBrokenRevision(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	w.exec(`ALTER TABLE trigger_revisions DISABLE TRIGGER immutable`)
	w.exec(`UPDATE trigger_revisions SET (content, content_digest) = (SELECT c, ql3.content_digest('qinglong.trigger-definition.v1', c)
		FROM replace(content, '"UTC"', '"Nowhere/Gone"') c) WHERE trigger_id = 'sweep'`)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = 600000 WHERE trigger_id = 'sweep'`)
	want := "project ops:\n  ~ trigger sweep: timezone Nowhere/Gone → UTC\n"
	if got := w.apply(ops); got != want {
		t.Errorf("Apply() = %q, want %q", got, want)
	}
	w.wantRows("(600000,600000,1,t)", `SELECT first_at_ms, last_at_ms, instants, at_least FROM schedule_events`)
}

// What cannot be trusted is not copied into a new revision.
func TestApplyRefusesToCopyBrokenContent(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	w.exec(`ALTER TABLE trigger_revisions DISABLE TRIGGER immutable`)
	w.exec(`ALTER TABLE trigger_revisions DROP CONSTRAINT trigger_digest_matches`)
	w.exec(`UPDATE trigger_revisions SET content = replace(content, '*/5', '*/6') WHERE trigger_id = 'sweep'`)
	before := w.everything()
	m := w.manifest("projects: [{id: ops, name: Operations, tasks: [{id: sweep, name: S, command: [x]}]}]")
	if _, err := Apply(t.Context(), w.admin, m, Options{}); !errors.Is(err, ErrDigest) {
		t.Errorf("Apply() = %v, want %v", err, ErrDigest)
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("Apply() wrote (-before +after):\n%s", diff)
	}
	if got, want := w.apply(ops), "project ops:\n  ~ trigger sweep: cron \"*/6 * * * *\" → \"*/5 * * * *\"\n"; !strings.HasPrefix(got, "project ops:\n  ~ trigger sweep: ") {
		t.Errorf("Apply() of the whole = %q, want %q", got, want)
	}
}

func TestApplyNotifies(t *testing.T) {
	w := newWorld(t)
	conn, err := pgx.Connect(t.Context(), w.db.URL(migrations.RoleRuntime))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "LISTEN "+NotifyChannel); err != nil {
		t.Fatal(err)
	}
	w.apply(ops)
	w.apply(ops)
	w.exec(`SELECT pg_notify('` + NotifyChannel + `', 'end')`)
	var got []string
	for len(got) < 2 {
		n, err := conn.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n.Payload)
	}
	if diff := cmp.Diff([]string{"", "end"}, got); diff != "" {
		t.Errorf("notifications of a publication and of none (-want +got):\n%s", diff)
	}
}

func TestApplyFailsWhole(t *testing.T) {
	all := newWorld(t)
	all.exec(`CREATE FUNCTION ql3.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected'; END $$`)
	for _, table := range []string{"projects", "task_definitions", "task_definition_revisions", "task_execution_revisions",
		"triggers", "trigger_revisions", "trigger_schedules"} {
		t.Run(table, func(t *testing.T) {
			w := all.in(t)
			before := w.everything()
			w.exec(`CREATE TRIGGER fail AFTER INSERT ON ql3.` + table + ` FOR EACH ROW WHEN (NEW::text LIKE '(ops,%') EXECUTE FUNCTION ql3.fail()`)
			both := "projects:\n- { id: first, name: First }\n" + strings.TrimPrefix(ops, "projects:\n")
			done, err := Apply(t.Context(), w.admin, w.manifest(both), Options{})
			if err == nil || !strings.Contains(err.Error(), "publish project ops: ") {
				t.Errorf("Apply() = %v, want the failure of project ops", err)
			}
			if got, want := show(done), "project first:\n  + project first\n"; got != want {
				t.Errorf("Apply() = %q, want %q", got, want)
			}
			w.exec(`DROP TRIGGER fail ON ` + table)
			w.wantRows("(first)", `SELECT id FROM projects`)
			w.exec(`DELETE FROM projects`)
			if diff := cmp.Diff(before, w.everything()); diff != "" {
				t.Errorf("Apply() that failed wrote (-before +after):\n%s", diff)
			}
		})
	}
}
