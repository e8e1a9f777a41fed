package run_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
)

// admission is what the scheduler would admit of the hourly Trigger.
func (w *world) admission(scheduledForMS int64) run.Admission {
	w.t.Helper()
	a := run.Admission{ProjectID: "ops", TaskID: "report", TaskRevision: 1, TaskName: "Nightly report", Actor: "replica-7", AtMS: w.nowMS,
		Created: map[string]any{"latenessMs": 12, "policy": "skip"}, Occurrence: run.Occurrence{TriggerID: "hourly", TriggerRevision: 1, ScheduledForMS: scheduledForMS}}
	a.TaskSnapshotRef = value[string](w, `SELECT id FROM task_execution_revisions WHERE project_id = 'ops' AND task_id = 'report'`)
	a.Occurrence.TriggerDigest = value[string](w, `SELECT content_digest FROM trigger_revisions WHERE trigger_id = 'hourly'`)
	return a
}

func (w *world) admitAll(list ...run.Admission) (ids []uuid.UUID, err error) {
	err = pg.InTx(w.t.Context(), w.runtime, func(tx pgx.Tx) error {
		ids, err = run.Admit(w.t.Context(), tx, list)
		return err
	})
	return ids, err
}

// Every column, so that a new one is decided here too.
func TestAdmitWritesTheWholeRun(t *testing.T) {
	w := newWorld(t)
	a := w.admission(5000)
	ids, err := w.admitAll(a)
	if err != nil || len(ids) != 1 {
		t.Fatalf("Admit() = %v, %v, want one id", ids, err)
	}
	id, at := ids[0].String(), float64(w.nowMS)
	event := func(sequence float64, kind string, payload map[string]any) map[string]any {
		return map[string]any{"run_id": id, "sequence": sequence, "type": kind, "dedupe_key": nil, "actor_type": "scheduler", "actor_id": "replica-7",
			"payload": payload, "created_at_ms": at}
	}
	tests := []struct {
		name, sql string
		want      []map[string]any
	}{
		{"Run", `SELECT jsonb_agg(to_jsonb(r)) FROM runs r`, []map[string]any{{
			"id": id, "project_id": "ops", "task_id": "report", "task_revision": 1.0, "task_name": "Nightly report", "task_snapshot_ref": a.TaskSnapshotRef,
			"parent_run_id": nil, "retry_of_run_id": nil, "trigger_id": "hourly", "trigger_revision": 1.0, "trigger_content_digest": a.Occurrence.TriggerDigest,
			"scheduled_for_ms": 5000.0, "trigger_type": "cron", "execution_origin": "scheduled", "execution_owner": "runtime", "triggered_by": nil,
			"request_id": nil, "step_up_proof_id": nil, "status": "queued", "version": 1.0, "event_sequence": 2.0, "priority": 0.0,
			"idempotency_key": "ql3:cron:v1:hourly:1:5000", "input_ref": nil, "output_ref": nil, "created_at_ms": at, "queued_at_ms": at, "started_at_ms": nil,
			"finished_at_ms": nil, "cancel_requested_at_ms": nil, "cancel_reason": nil, "error_code": nil, "error_summary": nil}}},
		{"Attempt", `SELECT jsonb_agg(to_jsonb(a) - 'id') FROM run_attempts a`, []map[string]any{{
			"run_id": id, "attempt": 1.0, "status": "claimed", "executor_type": "remote_worker", "worker_id": nil, "executor_handle": nil,
			"lease_token": nil, "lease_expires_at_ms": nil, "deadline_at_ms": nil, "callback_sequence": 0.0, "created_at_ms": at, "started_at_ms": nil,
			"finished_at_ms": nil, "exit_code": nil, "error_code": nil, "error_summary": nil}}},
		{"Events", `SELECT jsonb_agg(to_jsonb(e) - '{id,attempt_id}'::text[] ORDER BY sequence) FROM run_events e`, []map[string]any{
			event(1, "run.created", map[string]any{"latenessMs": 12.0, "policy": "skip"}), event(2, "run.queued", map[string]any{})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, value[[]map[string]any](w, tt.sql)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if n := value[int](w, `SELECT count(*) FROM run_events e JOIN run_attempts a ON a.id = e.attempt_id`); n != 2 {
		t.Errorf("%d Events name the Attempt, want 2", n)
	}
	for _, table := range []string{"runs", "run_attempts", "run_events"} {
		if n := value[int](w, `SELECT count(*) FROM `+table+` WHERE id::text NOT LIKE '________-____-7%' OR ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint <> $1`, w.nowMS); n != 0 {
			t.Errorf("%d ids of %s are no version 7 of the database clock's time", n, table)
		}
	}
}

func TestAdmitIsOnceForEachKey(t *testing.T) {
	w := newWorld(t)
	first, err := w.admitAll(w.admission(1))
	if err != nil || first[0] == uuid.Nil {
		t.Fatalf("Admit(1) = %v, %v", first, err)
	}
	before := w.everything(first[0])
	ids, err := w.admitAll(w.admission(1), w.admission(2), w.admission(2), w.admission(3))
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, id := range ids {
		got = append(got, id != uuid.Nil)
	}
	if diff := cmp.Diff([]bool{false, true, false, true}, got); diff != "" {
		t.Errorf("Admit(1 again, 2, 2 again, 3) inserted (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(before, w.everything(first[0])); diff != "" {
		t.Errorf("the Run already there (-before +after)\n%s", diff)
	}
	w.wantWritten(3)
	if ids, err := w.admitAll(); err != nil || len(ids) != 0 {
		t.Errorf("Admit(nothing) = %v, %v, want nothing", ids, err)
	}
}

// wantWritten wants n Runs with what belongs to each.
func (w *world) wantWritten(n int) {
	w.t.Helper()
	got := value[[]int](w, `SELECT array[(SELECT count(*) FROM runs), (SELECT count(*) FROM run_attempts), (SELECT count(*) FROM run_events)]`)
	if diff := cmp.Diff([]int{n, n, 2 * n}, got); diff != "" {
		w.t.Errorf("Runs, Attempts and Events (-want +got)\n%s", diff)
	}
}

// The second transaction has begun before the first commits, and waits for it at the key.
func TestAdmitOfOneKeyByTwoTransactions(t *testing.T) {
	tests := []struct {
		name           string
		end            func(*world, pgx.Tx) error
		inserted, runs int
	}{
		{"the first commits", func(w *world, tx pgx.Tx) error { return tx.Commit(w.t.Context()) }, 0, 1},
		{"the first rolls back", func(w *world, tx pgx.Tx) error { return tx.Rollback(w.t.Context()) }, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			a := w.admission(1)
			first := w.begin(w.runtime, pgx.Serializable)
			if ids, err := run.Admit(t.Context(), first, []run.Admission{a}); err != nil || ids[0] == uuid.Nil {
				t.Fatalf("Admit(first) = %v, %v", ids, err)
			}
			type result struct {
				ids []uuid.UUID
				err error
			}
			second := make(chan result, 1)
			go func() {
				ids, err := w.admitAll(a)
				second <- result{ids, err}
			}()
			w.waiting(1)
			if err := tt.end(w, first); err != nil {
				t.Fatal(err)
			}
			r := <-second
			if r.err != nil || (r.ids[0] != uuid.Nil) != (tt.inserted == 1) {
				t.Errorf("Admit(second) = %v, %v, want %d inserted", r.ids, r.err, tt.inserted)
			}
			w.wantWritten(tt.runs)
		})
	}
}

// A payload that is no object, or a Run that its definitions do not know, writes nothing of the whole list.
func TestAdmitRefusesAll(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name   string
		change func(*run.Admission)
		want   string
	}{
		{"payload is no object", func(a *run.Admission) { a.Created = []int{1} }, "event_payload_is_object"},
		{"another execution revision", func(a *run.Admission) { a.TaskSnapshotRef = "qltd:v1:1:0" }, "run_pins_execution"},
		{"a Trigger revision that is not there", func(a *run.Admission) { a.Occurrence.TriggerRevision = 2 }, "run_of_trigger_revision"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad := w.admission(time.Now().UnixMilli())
			tt.change(&bad)
			if ids, err := w.admitAll(w.admission(1), bad); pg.Constraint(err) != tt.want {
				t.Errorf("Admit() = %v, %v, want %s violated", ids, err, tt.want)
			}
			w.wantWritten(0)
		})
	}
	bad := w.admission(1)
	bad.Created = make(chan int)
	if _, err := w.admitAll(bad); err == nil {
		t.Error("Admit(payload that is no JSON) = nil, want an error")
	}
}
