package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// restoreManifest has a Trigger of each misfire policy that is due every second.
const restoreManifest = `
projects:
  - id: ops
    name: Operations
%s    tasks:
      - id: job
        name: Job
        command: [/bin/true]
        triggers:
          - { id: skips, cron: "* * * * * *", timezone: UTC, misfire: skip }
          - { id: once, cron: "* * * * * *", timezone: UTC, misfire: fire_once }
`

// TestBackupAndRestore dumps a database while replicas work on it and brings the dump to a fresh server, as
// docs/operations.md says: what was there is there, a replica works, and what is of another time is dealt with.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	tools := dumpTools(t, super)
	program := built(t, console)
	run(t, vars, fmt.Sprintf(restoreManifest, ""), "apply", "-f", "-")
	everyKindOfRow(t, super)
	lost := serve(t, program, vars)
	admits(t, super, lost)
	dump := filepath.Join(t.TempDir(), "console.dump")
	finish(t, "pg_dump", exec.Command(tools("pg_dump"), "--format=custom", "--file="+dump, db.SuperURL()))
	admits(t, super, lost) // what the dump does not know
	lost.kill()

	fresh := freshServer(t)
	t.Run("as it comes", func(t *testing.T) {
		restored, back := restore(t, fresh, "as_it_comes", tools, dump)
		intact(t, super, back)
		if got := pgtest.Value[int](t, back, unusedProofs); got != 1 {
			t.Errorf("%d proofs are unused and unexpired in what came back, want the one of the dump", got)
		}
		signEverybodyOut(t, restored, back)
		goesOn(t, program, restored, back, super)
	})
	t.Run("from now on", func(t *testing.T) {
		restored, back := restore(t, fresh, "from_now_on", tools, dump)
		dueMS := pgtest.Value[int64](t, back, "SELECT max(next_fire_at_ms) FROM ql3.trigger_schedules WHERE project_id = 'ops'")
		run(t, restored, fmt.Sprintf(restoreManifest, "    state: archived\n"), "apply", "-f", "-")
		nowMS := clockMS(t, back)
		run(t, restored, fmt.Sprintf(restoreManifest, "    state: active\n"), "apply", "-f", "-")
		admits(t, back, serve(t, program, restored))
		if got := pgtest.Value[int](t, back, "SELECT count(*) FROM ql3.runs WHERE scheduled_for_ms > $1 AND scheduled_for_ms <= $2", dueMS, nowMS); got != 0 {
			t.Errorf("%d Runs of what was due between the dump and the restore, want none", got)
		}
		if got := pgtest.Value[int](t, back, "SELECT count(DISTINCT trigger_id) FROM ql3.schedule_events WHERE type = 'superseded' AND last_at_ms > $1", dueMS); got != 2 {
			t.Errorf("the account has what %d Triggers did not do, want 2", got)
		}
	})
}

const unusedProofs = `SELECT count(*) FROM ql3.step_up_proofs WHERE consumed_at_ms IS NULL AND revoked_at_ms IS NULL
	AND expires_at_ms > extract(epoch FROM clock_timestamp()) * 1000`

// signEverybodyOut does so, after which no proof can be used.
func signEverybodyOut(t *testing.T, vars map[string]string, back *pgxpool.Pool) {
	t.Helper()
	run(t, vars, "", "user", "sign-out", "--everybody", "--reason", "restored", "--yes")
	if got := pgtest.Value[int](t, back, unusedProofs); got != 0 {
		t.Errorf("%d proofs can be used after everybody was signed out, want none", got)
	}
}

// goesOn starts a replica that thinks a second late is too late, and sees what each misfire policy makes of what was due
// between the dump and now.
func goesOn(t *testing.T, program string, restored map[string]string, back, lost *pgxpool.Pool) {
	t.Helper()
	const cursor = "SELECT next_fire_at_ms FROM ql3.trigger_schedules WHERE trigger_id = $1"
	skips, once := pgtest.Value[int64](t, back, cursor, "skips"), pgtest.Value[int64](t, back, cursor, "once")
	eventually(t, "what is due is too late", func() bool { return clockMS(t, back) > max(skips, once)+3000 })
	admits(t, back, serve(t, program, restored, "--misfire-grace", "1s"))
	goneOn(t, back, max(skips, once))
	runsAt := func(pool *pgxpool.Pool, trigger string, ms int64) int {
		return pgtest.Value[int](t, pool, "SELECT count(*) FROM ql3.runs WHERE trigger_id = $1 AND scheduled_for_ms = $2", trigger, ms)
	}
	if got := []int{runsAt(back, "skips", skips), runsAt(back, "once", once), runsAt(back, "once", once+1000)}; !slices.Equal(got, []int{0, 1, 0}) {
		t.Errorf("Runs of what was due, by skip, by fire_once, and by fire_once a second later = %v, want 0, 1, 0", got)
	}
	if got := pgtest.Value[int](t, back, "SELECT count(*) FROM ql3.schedule_events WHERE type = 'skipped' AND trigger_id = 'skips' AND first_at_ms = $1", skips); got != 1 {
		t.Errorf("the account names the skipped instant %d times, want once", got)
	}
	if got := runsAt(lost, "once", once); got != 1 {
		t.Errorf("what was lost has %d Runs of the instant that was admitted again, want 1: such work is done twice", got)
	}
	if diff := cmp.Diff(unaccounted{}, one(t, back, pgx.RowToStructByPos[unaccounted], unaccountedSQL)); diff != "" {
		t.Errorf("what the restore did to the seconds (-want +got):\n%s", diff)
	}
}

// goneOn waits until nothing of ms and before is due: a claim that came back with the database may stand for its lease.
func goneOn(t *testing.T, pool *pgxpool.Pool, ms int64) {
	t.Helper()
	eventually(t, "each Schedule has gone on", func() bool {
		return pgtest.Value[int64](t, pool, "SELECT min(next_fire_at_ms) FROM ql3.trigger_schedules WHERE project_id = 'ops'") > ms
	})
}

// lasting is what is never changed once it is there, in a database that no worker and no user works on.
var lasting = []string{"runs", "run_attempts", "run_events", "schedule_events", "task_definition_revisions", "task_execution_revisions",
	"trigger_revisions", "trigger_pauses", "users", "project_role_bindings", "security_audit_events", "run_batches", "run_batch_items", "step_up_proofs"}

// intact compares what came back with what was lost, which went on for a while: each row of the history is the same one,
// and contents are what their digests say.
func intact(t *testing.T, lost, back *pgxpool.Pool) {
	t.Helper()
	for _, table := range lasting {
		sql := "SELECT * FROM ql3." + table
		there := map[string]bool{}
		for _, row := range pgtest.Texts(t, lost, sql) {
			there[row] = true
		}
		rows := pgtest.Texts(t, back, sql)
		for _, row := range rows {
			if !there[row] {
				t.Errorf("%s came back with a row that was not there: %s", table, row)
			}
		}
		if len(rows) == 0 {
			t.Errorf("%s came back empty", table)
		}
	}
	if got := pgtest.Value[int](t, back, tornSQL); got != 0 {
		t.Errorf("%d Runs came back without all of their Attempts and Events", got)
	}
	for table, domain := range map[string]string{"task_definition_revisions": "task-definition", "task_execution_revisions": "task-execution", "trigger_revisions": "trigger-definition"} {
		sql := fmt.Sprintf("SELECT count(*) FROM ql3.%s WHERE content_digest <> encode(sha256(convert_to('qinglong.%s.v1', 'UTF8') || '\\x00'::bytea || convert_to(content, 'UTF8')), 'hex')", table, domain)
		if got := pgtest.Value[int](t, back, sql); got != 0 {
			t.Errorf("%d rows of %s do not match their digests", got, table)
		}
	}
}

const tornSQL = `SELECT count(*) FROM ql3.runs r WHERE project_id = 'ops'
	AND ((SELECT count(*) FROM ql3.run_attempts a WHERE a.run_id = r.id) <> 1 OR (SELECT count(*) FROM ql3.run_events e WHERE e.run_id = r.id) <> r.event_sequence)`

// everyKindOfRow adds what the replicas do not make.
func everyKindOfRow(t *testing.T, super *pgxpool.Pool) {
	t.Helper()
	text, err := os.ReadFile("../migrations/testdata/rows.sql")
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, super, "DO $do$ BEGIN\n"+strings.ReplaceAll(string(text), ":now", strconv.FormatInt(clockMS(t, super), 10))+"\nEND $do$")
}

// dumpTools finds PostgreSQL's programs for dumps: those beside the server, or Debian's where they are not too old for
// it. The servers from npm have none.
func dumpTools(t *testing.T, super *pgxpool.Pool) func(program string) string {
	t.Helper()
	major := pgtest.Value[int](t, super, "SELECT current_setting('server_version_num')::int / 10000")
	dirs := []string{pgtest.Value[string](t, super, "SELECT setting FROM pg_config WHERE name = 'BINDIR'")}
	for version := 18; version >= major; version-- {
		dirs = append(dirs, fmt.Sprintf("/usr/lib/postgresql/%d/bin", version))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "pg_dump")); err == nil {
			return func(program string) string { return filepath.Join(dir, program) }
		}
	}
	t.Skipf("no pg_dump for PostgreSQL %d: the server's own directory has none, and no other on this machine is as new", major)
	return nil
}

func freshServer(t *testing.T) *postgres.Server {
	t.Helper()
	server, err := pgtest.StartIn(t.Context(), filepath.Join(pgtest.DiskDir(t), "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return server
}

// restore brings dump into a new database of server by the documented commands, and returns its variables and a
// superuser's pool.
func restore(t *testing.T, server *postgres.Server, database string, tools func(string) string, dump string) (map[string]string, *pgxpool.Pool) {
	t.Helper()
	super, err := pgxpool.New(t.Context(), server.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close()
	pgtest.Exec(t, super, "CREATE DATABASE "+database)
	to := server.URL(server.Superuser(), database)
	vars := map[string]string{"CONSOLE_BOOTSTRAP_DATABASE_URL": to}
	for role, name := range roleVariables {
		u, err := url.Parse(server.URL(role, database))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "a new password")
		vars[name] = u.String()
	}
	run(t, vars, "", "migrate", "bootstrap")
	finish(t, "pg_restore", exec.Command(tools("pg_restore"), "--clean", "--if-exists", "--single-transaction", "--exit-on-error", "--dbname="+to, dump))
	run(t, vars, "", "check")
	back, err := pgxpool.New(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(back.Close)
	return vars, back
}
