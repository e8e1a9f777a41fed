package checker

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const manifest = `
projects:
  - id: ops
    name: Operations
    tasks:
      - id: job
        name: Job
        command: [/bin/true]
        triggers:
          - { id: second, cron: "* * * * * *", timezone: UTC, misfire: skip }
          - { id: other, cron: "*/2 * * * * *", timezone: UTC, misfire: fire_once }
`

// The moments of the small world: ten seconds, at whose beginning everything was published. The Trigger `second` has a
// Run of each of the first eight but the fourth, which was passed over; the ninth is not decided yet. The Trigger
// `other` was paused from the beginning of the third second to that of the seventh, and then caught up.
const (
	begin = 1_800_000_000_000
	upTo  = begin + 8000
)

// world makes it, and returns a connection on which nothing is done but in transactions that are rolled back.
func world(t *testing.T) *pgx.Conn {
	t.Helper()
	db := pgtest.New(t)
	super := db.Super(t)
	runtest.Publish(t, db, manifest)
	admit := func(trigger string, seconds ...int64) {
		for _, s := range seconds {
			runtest.Admit(t, db, "ops", trigger, begin+s*1000, begin+s*1000+20)
		}
	}
	admit("second", 1, 2, 3)
	code := 3
	runtest.Execute(t, db, run.Outcome{Status: run.Failed, ExitCode: &code, Code: "exit_code"})
	admit("second", 5, 6, 7, 8)
	admit("other", 2, 8)
	for _, sql := range fixture {
		pgtest.Force(t, super, sql, int64(begin))
	}
	conn, err := pgx.Connect(t.Context(), db.SuperURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// fixture does what the product would have done at the times of the small world, $1 being its beginning.
var fixture = []string{
	`UPDATE ql3.trigger_revisions SET created_at_ms = $1`,
	`UPDATE ql3.trigger_schedules SET base_at_ms = $1, next_fire_at_ms = $1::bigint + CASE trigger_id WHEN 'second' THEN 9000 ELSE 10000 END`,
	`INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, lateness_ms, created_at_ms)
		VALUES ('ops', 'second', 1, 'coalesced', $1::bigint + 4000, $1::bigint + 4000, 1, 1020, $1::bigint + 5020),
			('ops', 'other', 1, 'paused', $1::bigint + 4000, $1::bigint + 4000, 1, 2900, $1::bigint + 6900)`,
	`UPDATE ql3.run_attempts SET started_at_ms = created_at_ms + 1, finished_at_ms = created_at_ms + 2 WHERE status = 'failed' AND $1::bigint > 0`,
	`UPDATE ql3.runs SET started_at_ms = queued_at_ms + 1, finished_at_ms = queued_at_ms + 2 WHERE status = 'failed' AND $1::bigint > 0`,
	`UPDATE ql3.run_events SET created_at_ms = r.created_at_ms FROM ql3.runs r WHERE r.id = run_id AND $1::bigint > 0`,
	`INSERT INTO ql3.users (id, issuer, subject, created_at_ms, updated_at_ms) VALUES ('00000000-0000-4000-8000-000000000001', 'i', 's', $1, $1)`,
	`INSERT INTO ql3.trigger_pauses (id, project_id, trigger_id, reason, paused_by, paused_at_ms, resumed_by, resumed_at_ms, caught_up)
		VALUES ('00000000-0000-4000-8000-00000000000a', 'ops', 'other', 'because', '00000000-0000-4000-8000-000000000001', $1::bigint + 2900,
			'00000000-0000-4000-8000-000000000001', $1::bigint + 6900, true)`,
	`INSERT INTO ql3.step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id,
			auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms, consumed_at_ms, consumed_mutation_id)
		SELECT proof::uuid, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), action, 'ops', '[{}]', '', 'hardware', 'i', 's', 'c',
			$1::bigint / 1000, 'always', sha256(''), $1, $1::bigint + 300000, $1::bigint + 1, mutation::uuid
		FROM (VALUES ('00000000-0000-4000-8000-0000000000f1', 'run.retry', '00000000-0000-4000-8000-0000000000a1'),
			('00000000-0000-4000-8000-0000000000f2', 'run.stop', '00000000-0000-4000-8000-0000000000a2')) v(proof, action, mutation)`,
	`WITH retry AS (
		INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin, triggered_by,
			step_up_proof_id, status, event_sequence, idempotency_key, created_at_ms, queued_at_ms)
		SELECT (lpad(to_hex($1::bigint + 7000), 12, '0') || repeat('0', 20))::uuid, project_id, task_id, task_revision, task_name, task_snapshot_ref, id,
			'run_manual_retry', 'manual', 'somebody', '00000000-0000-4000-8000-0000000000f1', 'queued', 2, 'ql3:run-manual-retry:v1:a1', $1::bigint + 7000, $1::bigint + 7000
		FROM ql3.runs WHERE status = 'failed' RETURNING id, created_at_ms
	), attempt AS (
		INSERT INTO ql3.run_attempts (id, run_id, attempt, status, executor_type, created_at_ms) SELECT gen_random_uuid(), id, 1, 'claimed', 'remote_worker', created_at_ms FROM retry
	)
	INSERT INTO ql3.run_events (id, run_id, sequence, type, actor_type, actor_id, payload, created_at_ms)
	SELECT gen_random_uuid(), id, n, type, 'user', 'somebody', jsonb_build_object('mutation_id', '00000000-0000-4000-8000-0000000000a1'), created_at_ms
	FROM retry, (VALUES (1, 'run.created'), (2, 'run.queued')) v(n, type)`,
	`WITH stopped AS (
		UPDATE ql3.runs SET event_sequence = 3, cancel_requested_at_ms = created_at_ms, cancel_reason = 'user' WHERE scheduled_for_ms = $1::bigint + 5000 RETURNING id, created_at_ms
	)
	INSERT INTO ql3.run_events (id, run_id, sequence, type, actor_type, actor_id, payload, created_at_ms)
	SELECT gen_random_uuid(), id, 3, 'run.cancel_requested', 'user', 'somebody', jsonb_build_object('mutation_id', '00000000-0000-4000-8000-0000000000a2',
		'authentication_id', '00000000-0000-4000-8000-0000000000f2'), created_at_ms FROM stopped`,
	`INSERT INTO ql3.security_audit_events (id, action, outcome, actor_type, actor, mutation_id, proof_id, created_at_ms)
		SELECT gen_random_uuid(), action, 'allowed', 'command', 'somebody', mutation::uuid, proof::uuid, $1
		FROM (VALUES ('run.retry', '00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000f1'),
			('run.stop', '00000000-0000-4000-8000-0000000000a2', '00000000-0000-4000-8000-0000000000f2'),
			('trigger.pause', '00000000-0000-4000-8000-00000000000a', NULL), ('trigger.resume', '00000000-0000-4000-8000-00000000000a', NULL)) v(action, mutation, proof)`,
	// The sixth second of the other Trigger is what catching up made a Run of.
	`WITH caught AS (
		UPDATE ql3.runs SET scheduled_for_ms = $1::bigint + 6000, idempotency_key = 'ql3:cron:v1:other:1:' || $1::bigint + 6000
		WHERE trigger_id = 'other' AND scheduled_for_ms = $1::bigint + 8000 RETURNING id
	)
	UPDATE ql3.run_events SET payload = payload || '{"catch_up": true}' FROM caught WHERE run_id = caught.id AND sequence = 1`,
	`INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, lateness_ms, created_at_ms)
		VALUES ('ops', 'other', 1, 'coalesced', $1::bigint + 8000, $1::bigint + 8000, 1, 20, $1::bigint + 8020)`,
}

// Whoever reports that the rules held says how many there are.
func TestRulesAreAllThatAreDeclared(t *testing.T) {
	var declared []string
	for _, name := range []string{"judge.go", "ledger.go", "record.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].IsExported() {
				rule, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				declared = append(declared, rule)
				return err == nil
			}
			return true
		})
	}
	if diff := cmp.Diff(declared, Rules); diff != "" {
		t.Errorf("Rules (-declared +listed):\n%s", diff)
	}
}

// TestCheckerNamesWhatIsWrong corrupts the database in each way and looks for its rule. What else is then named as well
// follows from it.
func TestCheckerNamesWhatIsWrong(t *testing.T) {
	conn := world(t)
	const second = `project_id = 'ops' AND trigger_id = 'second'`
	tests := []struct {
		name string
		sql  string
		want []string
	}{
		{"nothing", `SELECT`, nil},
		{"a second Run of an instant", `ALTER TABLE ql3.runs DROP CONSTRAINT run_idempotency_key_once; ` + copyOf(`scheduled_for_ms = 1800000002000 AND `+second),
			[]string{Duplicate, EventGap, NotAdmitted, NotOneAttempt, WrongID}},
		{"a Run is missing", without(`scheduled_for_ms = 1800000002000 AND ` + second), []string{Unaccounted}},
		{"a reason is missing", `DELETE FROM ql3.schedule_events WHERE type = 'coalesced' AND first_at_ms = 1800000004000`, []string{Unaccounted}},
		{"the cursor stands still", `UPDATE ql3.trigger_schedules SET next_fire_at_ms = 1800000008000 WHERE ` + second + `; ` + without(`scheduled_for_ms = 1800000008000 AND `+second),
			[]string{Undecided}},
		{"a Run and a reason", `UPDATE ql3.schedule_events SET first_at_ms = 1800000003000, instants = 2 WHERE type = 'coalesced' AND first_at_ms = 1800000004000`, []string{Both}},
		{"two reasons", `INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, created_at_ms)
			VALUES ('ops', 'second', 1, 'superseded', 1800000004000, 1800000004000, 1, 1800000004000)`, []string{TwoReasons}},
		{"a reason counts wrongly", `UPDATE ql3.schedule_events SET instants = 2 WHERE type = 'coalesced' AND first_at_ms = 1800000004000`, []string{Miscounted}},
		{"a Run of no instant", `UPDATE ql3.runs SET scheduled_for_ms = 1800000001500, idempotency_key = 'ql3:cron:v1:second:1:1800000001500' WHERE scheduled_for_ms = 1800000001000`,
			[]string{Unexpected, Unaccounted}},
		{"a Run before its time", `UPDATE ql3.run_events SET payload = payload || '{"observed_at_ms": 1800000001999}' WHERE sequence = 1 AND run_id IN
			(SELECT id FROM ql3.runs WHERE scheduled_for_ms = 1800000002000 AND ` + second + `)`, []string{Early}},
		{"later than the policy allows", `UPDATE ql3.run_events SET payload = payload || '{"observed_at_ms": 1800000004001}' WHERE sequence = 1 AND run_id IN
			(SELECT id FROM ql3.runs WHERE scheduled_for_ms = 1800000002000)`, []string{TooLate}},
		{"a skip that was not late", `UPDATE ql3.schedule_events SET type = 'skipped', lateness_ms = 1999 WHERE type = 'coalesced' AND first_at_ms = 1800000004000`, []string{NoSkip}},
		{"a revision comes between", `INSERT INTO ql3.trigger_revisions (project_id, trigger_id, revision, content, content_digest, created_at_ms)
			SELECT project_id, trigger_id, 2, content, content_digest, 1800000007010 FROM ql3.trigger_revisions WHERE ` + second, []string{Replaced, Unexpected, Unaccounted}},
		{"an archived Project", `INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms)
			VALUES ('ops', 'second', 1, 'archived', 1800000007010)`, []string{InArchive, Unexpected}},
		{"a pause around Runs", `UPDATE ql3.trigger_pauses SET trigger_id = 'second'`, []string{InPause, HeldBack, NoPause, NoCatchUp}},
		{"a pause that was not caught up", `UPDATE ql3.trigger_pauses SET caught_up = false`, []string{NoCatchUp}},
		{"an Event is missing", `DELETE FROM ql3.run_events WHERE sequence = 2 AND run_id IN (SELECT id FROM ql3.runs WHERE scheduled_for_ms = 1800000005000)`, []string{EventGap, NotAdmitted}},
		{"an Event is older than the last", `UPDATE ql3.run_events SET created_at_ms = 1 WHERE sequence = 2`, []string{BackInTime}},
		{"an Attempt is missing", `DELETE FROM ql3.run_attempts WHERE run_id IN (SELECT id FROM ql3.runs WHERE scheduled_for_ms = 1800000005000)`, []string{NotOneAttempt}},
		{"an Attempt that did better", `UPDATE ql3.run_attempts SET status = 'succeeded', error_code = NULL WHERE status = 'failed'`, []string{AttemptDiffers}},
		{"a proof used twice", `UPDATE ql3.run_events SET payload = payload || '{"authentication_id": "00000000-0000-4000-8000-0000000000f1"}' WHERE type = 'run.cancel_requested'`,
			[]string{ProofTwice, ProofUnmarked, ProofUnused, StopUnaudited}},
		{"a proof that was never consumed", `UPDATE ql3.step_up_proofs SET consumed_at_ms = NULL, consumed_mutation_id = NULL WHERE action = 'run.retry'`, []string{ProofUnmarked}},
		{"a mutation done twice", `DROP INDEX ql3.event_cancel_mutation_once; UPDATE ql3.run_events SET payload = payload || '{"mutation_id": "00000000-0000-4000-8000-0000000000a1"}'
			WHERE type = 'run.cancel_requested'`, []string{MutationTwice}},
		{"what was retried goes on", `UPDATE ql3.runs SET status = 'running', finished_at_ms = NULL, error_code = NULL WHERE status = 'failed'`, []string{SourceNotOver}},
		{"no audit row of a retry", `DELETE FROM ql3.security_audit_events WHERE action = 'run.retry'`, []string{RetryUnaudited}},
		{"no audit row of a stop", `DELETE FROM ql3.security_audit_events WHERE action = 'run.stop'`, []string{StopUnaudited}},
		{"no audit row of a resumption", `DELETE FROM ql3.security_audit_events WHERE action = 'trigger.resume'`, []string{PauseUnaudited}},
		{"an audit row of nothing", `UPDATE ql3.security_audit_events SET mutation_id = gen_random_uuid() WHERE action = 'run.retry'`, []string{RetryUnaudited, AuditOfNothing}},
		{"a claim past its lease", `UPDATE ql3.trigger_schedules SET claim_owner = 'gone', claim_token = gen_random_uuid(), updated_at_ms = 1, claim_expires_at_ms = 2 WHERE ` + second,
			[]string{LapsedClaim}},
		{"a pause that goes on after its end", `UPDATE ql3.trigger_schedules SET enabled = false, pause_id = p.id FROM ql3.trigger_pauses p WHERE p.trigger_id = trigger_schedules.trigger_id`,
			[]string{NoResumption}},
		{"more retries than the quota", quota, []string{OverQuota}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := corrupted(t, conn, tt.sql, nil)
			broken := map[string]bool{}
			for _, rule := range r.Broken() {
				broken[rule] = true
			}
			for _, rule := range tt.want {
				if !broken[rule] {
					t.Errorf("not named: %s\nbut: %v", rule, r.Wrong)
				}
			}
			if tt.want == nil && len(r.Wrong) > 0 {
				t.Errorf("named without a reason: %v", r.Wrong)
			}
		})
	}
}

// The figures are those of the small world, and what they count is what makes them differ.
func TestCheckerCounts(t *testing.T) {
	conn := world(t)
	want := Report{Expected: 12, Admitted: 9, Accounted: 3}
	if diff := cmp.Diff(want, corrupted(t, conn, `SELECT`, nil)); diff != "" {
		t.Errorf("Check() (-want +got):\n%s", diff)
	}
	r := corrupted(t, conn, `ALTER TABLE ql3.runs DROP CONSTRAINT run_idempotency_key_once; `+copyOf(`scheduled_for_ms = 1800000001000`)+`; `+
		`DELETE FROM ql3.schedule_events WHERE type = 'paused'`, nil)
	r.Wrong = nil
	want = Report{Expected: 12, Admitted: 9, Accounted: 2, Duplicates: 1, Unaccounted: 1}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("Check() with a Run too many and a reason too few (-want +got):\n%s", diff)
	}
}

// corrupted is the report on the small world after sql, which is undone.
func corrupted(t *testing.T, conn *pgx.Conn, sql string, record *Record) Report {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; `+sql); err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), tx, Question{UpToMS: upTo, GraceMS: 2000, Record: record})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// copyOf makes a second Run of what is like that.
func copyOf(where string) string {
	return `INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
			scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
		SELECT gen_random_uuid(), project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
			scheduled_for_ms, trigger_type, execution_origin, 'queued', idempotency_key, created_at_ms, queued_at_ms FROM ql3.runs WHERE ` + where
}

// without removes Runs with all that belongs to them.
func without(where string) string {
	of := ` WHERE run_id IN (SELECT id FROM ql3.runs WHERE ` + where + `); `
	return `DELETE FROM ql3.run_events` + of + `DELETE FROM ql3.run_attempts` + of + `DELETE FROM ql3.runs WHERE ` + where
}

// quota makes 64 more retries in the same minute.
const quota = `INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin,
		triggered_by, step_up_proof_id, status, idempotency_key, created_at_ms, queued_at_ms)
	SELECT gen_random_uuid(), project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin,
		triggered_by, gen_random_uuid(), status, idempotency_key || n, created_at_ms + n, created_at_ms + n
	FROM ql3.runs, generate_series(1, 64) n WHERE retry_of_run_id IS NOT NULL`
