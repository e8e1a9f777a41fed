package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A world is one database, with the role that publishes and one that may do anything.
type world struct {
	*testing.T
	admin *pgxpool.Pool
	super *pgxpool.Pool
	db    *pgtest.Database
}

func newWorld(t *testing.T) world {
	t.Helper()
	db := pgtest.New(t)
	return world{T: t, admin: db.Pool(t, migrations.RoleAdmin), super: db.Super(t), db: db}
}

// in is the same world without any rows, for a subtest.
func (w world) in(t *testing.T) world {
	t.Helper()
	w.T = t
	w.exec(`TRUNCATE projects CASCADE`)
	return w
}

func (w world) manifest(text string) Manifest {
	w.Helper()
	m, err := read(text)
	if err != nil {
		w.Fatalf("Read() = %v", err)
	}
	return m
}

// apply publishes text and returns what it says about it.
func (w world) apply(text string) string {
	w.Helper()
	changes, err := Apply(w.Context(), w.admin, w.manifest(text), Options{})
	if err != nil {
		w.Fatalf("Apply() = %v", err)
	}
	return show(changes)
}

func show(changes []ProjectChange) string {
	var b strings.Builder
	for _, c := range changes {
		c.WriteTo(&b)
	}
	return b.String()
}

func (w world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.super.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// rows returns a query's rows as text, a line each.
func (w world) rows(sql string, args ...any) string {
	w.Helper()
	rows, err := w.super.Query(w.Context(), "SELECT r::text FROM ("+sql+") AS r", args...)
	if err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

func (w world) wantRows(want, sql string, args ...any) {
	w.Helper()
	if diff := cmp.Diff(want, w.rows(sql, args...)); diff != "" {
		w.Errorf("%s (-want +got):\n%s", sql, diff)
	}
}

// everything is every row of every table that publishing writes, with its
// version: two equal answers mean that nothing was written in between.
func (w world) everything() string {
	w.Helper()
	var all strings.Builder
	for _, table := range []string{"projects", "task_definitions", "task_definition_revisions", "task_execution_revisions",
		"triggers", "trigger_revisions", "trigger_schedules", "schedule_events"} {
		all.WriteString(table + "\n" + w.rows("SELECT xmin, t.* FROM "+table+" t ORDER BY t::text") + "\n")
	}
	return all.String()
}

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
			w.wantRows("", `SELECT * FROM schedule_events`) // the cursor was not due
		})
	}
}

// The instants of */5: 600000, 900000, … ms after midnight of 1 January 1970.
func TestApplyRecordsSuperseded(t *testing.T) {
	all := newWorld(t)
	changed := strings.Replace(ops, `"*/5 *`, `"*/6 *`, 1)
	const count = `SELECT trigger_id, trigger_revision, type, first_at_ms, instants, at_least, reason,
		last_at_ms / 300000 = created_at_ms / 300000, lateness_ms = created_at_ms - first_at_ms FROM schedule_events`
	tests := []struct{ name, prepare, manifest, want string }{
		{"due cursor", `next_fire_at_ms = 600000`, changed, `(sweep,1,superseded,600000,10001,t,"revision 2 was published",t,t)`},
		{"one instant", `next_fire_at_ms = (extract(epoch FROM now())::bigint / 300) * 300000`, changed, ""},
		{"never initialised", `next_fire_at_ms = NULL, base_at_ms = 600000`, changed, `(sweep,1,superseded,900000,10001,t,"revision 2 was published",t,t)`},
		{"archived", `next_fire_at_ms = 600000`, strings.Replace(ops, "name: Operations", "name: Operations\n  state: archived", 1),
			`(sweep,1,superseded,600000,10001,t,"the Project was archived",t,t)`},
		{"not enabled", `next_fire_at_ms = 600000, enabled = false`, changed, ""},
		{"not due", `next_fire_at_ms = 9000000000000`, changed, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := all.in(t)
			w.apply(ops)
			w.exec(`UPDATE trigger_schedules SET ` + tt.prepare + ` WHERE trigger_id = 'sweep'`)
			w.apply(tt.manifest)
			if tt.name == "one instant" {
				w.wantRows("(1,t)", `SELECT instants, first_at_ms = last_at_ms FROM schedule_events`)
				return
			}
			w.wantRows(tt.want, count)
		})
	}
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

// blocked waits until n sessions wait for a lock.
func (w world) blocked(n int) {
	w.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		got := w.rows(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if got == fmt.Sprintf("(%d)", n) {
			return
		}
	}
	w.Fatalf("no %d sessions wait for a lock", n)
}

type outcome struct {
	text string
	err  error
}

// applies starts n concurrent publications of m.
func (w world) applies(n int, m Manifest) <-chan outcome {
	out := make(chan outcome, n)
	for range n {
		go func() {
			changes, err := Apply(w.Context(), w.admin, m, Options{})
			out <- outcome{show(changes), err}
		}()
	}
	return out
}

// hold runs sql in a transaction that stays open until release is called with
// COMMIT or ROLLBACK.
func (w world) hold(sql string) (release func(end string)) {
	w.Helper()
	conn, err := w.super.Acquire(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	exec := func(sql string) {
		w.Helper()
		if _, err := conn.Exec(w.Context(), sql); err != nil {
			w.Fatalf("%s: %v", sql, err)
		}
	}
	exec("BEGIN")
	exec(sql)
	return func(end string) {
		w.Helper()
		exec(end)
		conn.Release()
	}
}

func TestApplyConcurrently(t *testing.T) {
	all := newWorld(t)
	changed := strings.Replace(ops, "/bin/report", "/bin/report2", 1)
	tests := []struct {
		name        string
		first, then string
		hold        string
		end         string
		changes     int
		tasks       string
	}{
		{"new Project", "", ops, `INSERT INTO projects VALUES ('ops', 'Held', 'active', 1, 0, 1, 1)`, "ROLLBACK", 1, "(report,1)\n(sweep,1)"},
		{"new Project, there meanwhile", "", ops, `INSERT INTO projects VALUES ('ops', 'Operations', 'active', 1, 0, 1, 1)`, "COMMIT", 1, "(report,1)\n(sweep,1)"},
		{"changed Task", ops, changed, `SELECT FROM projects FOR NO KEY UPDATE`, "COMMIT", 1, "(report,2)\n(sweep,1)"},
		{"Project raised meanwhile", ops, changed, `UPDATE projects SET guard = guard + 1`, "COMMIT", 1, "(report,2)\n(sweep,1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := all.in(t)
			if tt.first != "" {
				w.apply(tt.first)
			}
			release := w.hold(tt.hold)
			out := w.applies(2, w.manifest(tt.then))
			w.blocked(2)
			release(tt.end)
			changes := 0
			for range 2 {
				o := <-out
				if o.err != nil {
					t.Fatalf("Apply() = %v", o.err)
				}
				if o.text != "project ops: unchanged\n" {
					changes++
				}
			}
			if changes != tt.changes {
				t.Errorf("%d of 2 concurrent applications published, want %d", changes, tt.changes)
			}
			w.wantRows(tt.tasks, selectTasks)
		})
	}
}

// An admission that commits while the publication waits for its row is seen:
// its instant is not superseded as well.
func TestApplyWaitsForAdmission(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = 600000 WHERE trigger_id = 'sweep'`)
	release := w.hold(`UPDATE trigger_schedules SET next_fire_at_ms = 9000000000000, state_version = state_version + 1 WHERE trigger_id = 'sweep'`)
	out := w.applies(1, w.manifest(strings.Replace(ops, `"*/5 *`, `"*/6 *`, 1)))
	w.blocked(1)
	release("COMMIT")
	if o := <-out; o.err != nil {
		t.Fatalf("Apply() = %v", o.err)
	}
	w.wantRows("", `SELECT * FROM schedule_events`)
	w.wantRows("(sweep,2,t,,3,1)", `SELECT trigger_id, trigger_revision, enabled, next_fire_at_ms, state_version, claim_version FROM trigger_schedules WHERE trigger_id = 'sweep'`)
}

// However long it waited: what it publishes, it publishes as of then.
func TestApplyReadsClockAfterLocks(t *testing.T) {
	all := newWorld(t)
	for _, table := range []string{"projects", "trigger_schedules"} {
		t.Run(table, func(t *testing.T) {
			w := all.in(t)
			w.apply(ops)
			release := w.hold(`SELECT FROM ` + table + ` FOR UPDATE`)
			out := w.applies(1, w.manifest(strings.Replace(ops, "/bin/report", "/bin/report2", 1)))
			w.blocked(1)
			var released int64
			if err := w.super.QueryRow(t.Context(), `SELECT pg_sleep(0.01), `+pg.ClockMS).Scan(nil, &released); err != nil {
				t.Fatal(err)
			}
			release("ROLLBACK")
			if o := <-out; o.err != nil {
				t.Fatalf("Apply() = %v", o.err)
			}
			w.wantRows("(t,t)", `SELECT r.created_at_ms >= $1, s.base_at_ms = r.created_at_ms FROM trigger_schedules s
				JOIN trigger_revisions r ON r.trigger_id = s.trigger_id AND r.revision = 2 WHERE s.trigger_id = 'nightly'`, released)
		})
	}
}

// A lostAnswer is a connection that breaks after COMMIT was sent, once.
type lostAnswer struct {
	net.Conn
	lose      *atomic.Bool
	committed bool
}

func (c *lostAnswer) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) && c.lose.CompareAndSwap(true, false) {
		c.committed = true
	}
	return c.Conn.Write(b)
}

func (c *lostAnswer) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.committed && err == nil {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// The answer to the COMMIT is lost; what happened is found out, not done twice.
func TestApplySettlesUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	config, err := pgxpool.ParseConfig(w.db.URL(migrations.RoleAdmin))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = migrations.Schema
	var lose atomic.Bool
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &lostAnswer{Conn: conn, lose: &lose}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	m := w.manifest(ops)
	if _, err := Apply(t.Context(), pool, m, Options{DryRun: true}); err != nil {
		t.Fatal(err) // its COMMIT is not the one to lose
	}
	to := m.Projects[0]
	lose.Store(true)
	change, err := publish(t.Context(), pool, m.File, to)
	if err != nil || len(change.Changes) != 6 {
		t.Errorf("publish() = %v, %v, want the 6 changes that were committed", change, err)
	}
	if lose.Load() {
		t.Error("no COMMIT lost its answer")
	}
	w.wantRows("(ops,0)", `SELECT id, guard FROM projects`)
	w.wantRows("(report,1)\n(sweep,1)", selectTasks)
}

// A publication that fails for good under contention says so in time.
func TestApplyGivesUp(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	release := w.hold(`SELECT FROM projects FOR UPDATE`)
	defer release("ROLLBACK")
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	m := w.manifest(strings.Replace(ops, "/bin/report", "/bin/report2", 1))
	go func() {
		_, err := Apply(ctx, w.admin, m, Options{})
		out <- err
	}()
	w.blocked(1)
	cancel()
	if err := <-out; !errors.Is(err, context.Canceled) || errors.Is(err, pg.ErrOutcomeUnknown) {
		t.Errorf("Apply() = %v, want %v", err, context.Canceled)
	}
	w.wantRows("(report,1)\n(sweep,1)", selectTasks)
}
