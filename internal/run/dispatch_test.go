package run_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
)

func TestDispatchByPriorityThenTime(t *testing.T) {
	w := newWorld(t)
	urgentLate, low, early, late, urgentEarly := w.admit(time.Minute), w.admit(5*time.Minute), w.admit(4*time.Minute), w.admit(3*time.Minute), w.admit(2*time.Minute)
	w.exec(`UPDATE runs SET priority = 9 WHERE id = ANY($1)`, []uuid.UUID{urgentLate, urgentEarly})
	w.exec(`UPDATE runs SET priority = -1 WHERE id = $1`, low)
	requeued := w.admit(6 * time.Minute) // its id says that it is the oldest
	w.exec(`UPDATE runs SET queued_at_ms = $2 WHERE id = $1`, requeued, w.nowMS-150_000)
	var got []uuid.UUID
	for {
		work, err := run.Dispatch(t.Context(), w.runtime, "worker-1", time.Minute)
		if errors.Is(err, run.ErrNoWork) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, work.RunID)
	}
	if diff := cmp.Diff([]uuid.UUID{urgentEarly, urgentLate, early, late, requeued, low}, got); diff != "" {
		t.Errorf("Dispatch order (-want +got)\n%s", diff)
	}
}

func TestDispatchHandsOverALease(t *testing.T) {
	w := newWorld(t)
	id := w.admit(time.Minute)
	before := value[int64](w, `SELECT `+pg.ClockMS)
	work, err := run.Dispatch(t.Context(), w.runtime, "worker-3", 90*time.Second)
	after := value[int64](w, `SELECT `+pg.ClockMS)
	if err != nil {
		t.Fatal(err)
	}
	want := run.Work{Lease: run.Lease{RunID: id, AttemptID: work.AttemptID, Token: work.Token, Worker: "worker-3"},
		ProjectID: "ops", TaskID: "report", TaskRevision: 1, Attempt: 1}
	if diff := cmp.Diff(want, work); diff != "" || work.Token == uuid.Nil {
		t.Errorf("Dispatch() (-want +got)\n%s", diff)
	}
	got := value[string](w, `SELECT concat_ws(' ', r.status, r.version, r.event_sequence, a.status, a.worker_id, a.lease_token = $2, a.id = $3, e.type, e.actor_type, e.actor_id, e.attempt_id = a.id)
		FROM runs r JOIN run_attempts a ON a.run_id = r.id JOIN run_events e ON e.run_id = r.id AND e.sequence = 3 WHERE r.id = $1`, id, work.Token, work.AttemptID)
	if want := "dispatching 2 3 starting worker-3 t t run.dispatching executor worker-3 t"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	expires := value[int64](w, `SELECT lease_expires_at_ms FROM run_attempts`)
	if expires < before+90_000 || expires > after+90_000 {
		t.Errorf("lease ends at %d, want 90 s after a time between %d and %d", expires, before, after)
	}
	if _, err := run.Dispatch(t.Context(), w.runtime, "worker-4", time.Minute); !errors.Is(err, run.ErrNoWork) {
		t.Errorf("Dispatch() again = %v, want ErrNoWork", err)
	}
}

// Whoever holds a Run or its Attempt in an open transaction keeps nobody waiting, and nobody gets it too.
func TestDispatchPassesByWhatIsLocked(t *testing.T) {
	tests := []struct {
		name string
		hold func(w *world, tx pgx.Tx, id uuid.UUID) error
	}{
		{"another's dispatch", func(w *world, tx pgx.Tx, id uuid.UUID) error {
			work, err := run.Dispatch(w.t.Context(), tx, "worker-1", time.Minute)
			if err == nil && work.RunID != id {
				w.t.Errorf("Dispatch(first) = %s, want %s", work.RunID, id)
			}
			return err
		}},
		{"the Run", func(w *world, tx pgx.Tx, id uuid.UUID) error {
			_, err := tx.Exec(w.t.Context(), `SELECT FROM runs WHERE id = $1 FOR UPDATE`, id)
			return err
		}},
		{"the Attempt", func(w *world, tx pgx.Tx, id uuid.UUID) error {
			_, err := tx.Exec(w.t.Context(), `SELECT FROM run_attempts WHERE run_id = $1 FOR UPDATE`, id)
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			first, second := w.admit(2*time.Minute), w.admit(time.Minute)
			tx := w.begin(w.runtime, pgx.ReadCommitted)
			if err := tt.hold(w, tx, first); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a dispatch that waits is an error
			defer cancel()
			if work, err := run.Dispatch(ctx, w.runtime, "worker-2", time.Minute); err != nil || work.RunID != second {
				t.Errorf("Dispatch() = %s, %v, want the second, %s", work.RunID, err, second)
			}
			if work, err := run.Dispatch(ctx, w.runtime, "worker-3", time.Minute); !errors.Is(err, run.ErrNoWork) {
				t.Errorf("Dispatch() with nothing left = %s, %v, want ErrNoWork", work.RunID, err)
			}
		})
	}
}

// One case for each column of the predicate: drop the column there and its case fails. CHECKs that forbid the shape are
// dropped first, so that it is the predicate that refuses.
func TestDispatchTakesOnlyPristineRuns(t *testing.T) {
	tests := []struct{ name, change, drop string }{
		{"runs.status", `UPDATE runs SET status = 'retry_wait'`, ""},
		{"runs.execution_owner", `UPDATE runs SET execution_owner = 'workflow'`, ""},
		{"runs.queued_at_ms", `UPDATE runs SET queued_at_ms = NULL`, "run_queued_has_time"},
		{"runs.cancel_requested_at_ms", `UPDATE runs SET cancel_requested_at_ms = queued_at_ms, cancel_reason = 'user'`, ""},
		{"runs.started_at_ms", `UPDATE runs SET started_at_ms = queued_at_ms`, ""},
		{"runs.output_ref", `UPDATE runs SET output_ref = 'o'`, ""},
		{"runs.error_code", `UPDATE runs SET error_code = 'e'`, ""},
		{"runs.error_summary", `UPDATE runs SET error_summary = 'e'`, ""},
		{"run_attempts.status", `UPDATE run_attempts SET status = 'starting'`, ""},
		{"run_attempts.executor_type", `UPDATE run_attempts SET executor_type = 'shell'`, "attempt_executor_known"},
		{"run_attempts.callback_sequence", `UPDATE run_attempts SET callback_sequence = 1`, ""},
		{"run_attempts.worker_id", `UPDATE run_attempts SET worker_id = 'w'`, ""},
		{"run_attempts.executor_handle", `UPDATE run_attempts SET executor_handle = 'h'`, ""},
		{"run_attempts.lease_expires_at_ms", `UPDATE run_attempts SET lease_expires_at_ms = 1`, "attempt_lease_is_whole"},
		{"run_attempts.deadline_at_ms", `UPDATE run_attempts SET deadline_at_ms = 1`, ""},
		{"run_attempts.started_at_ms", `UPDATE run_attempts SET started_at_ms = created_at_ms`, ""},
		{"run_attempts.finished_at_ms", `UPDATE run_attempts SET finished_at_ms = created_at_ms`, "attempt_terminal_is_finished"},
		{"run_attempts.exit_code", `UPDATE run_attempts SET exit_code = 0`, "attempt_exit_code_after_end"},
		{"run_attempts.error_code", `UPDATE run_attempts SET error_code = 'e'`, ""},
		{"run_attempts.error_summary", `UPDATE run_attempts SET error_summary = 'e'`, ""},
		{"a later Attempt", `INSERT INTO run_attempts (id, run_id, attempt, status, executor_type, created_at_ms, finished_at_ms)
			SELECT gen_random_uuid(), run_id, 2, 'lost', executor_type, created_at_ms, created_at_ms FROM run_attempts`, ""},
	}
	w := newWorld(t)
	w.admit(time.Minute)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tx := w.begin(w.super, pgx.ReadCommitted)
			defer tx.Rollback(t.Context())
			statements := []string{`SET LOCAL session_replication_role = replica`, tt.change}
			if tt.drop != "" {
				table := value[string](w, `SELECT conrelid::regclass::text FROM pg_constraint WHERE conname = $1`, tt.drop)
				statements = append([]string{`ALTER TABLE ` + table + ` DROP CONSTRAINT ` + tt.drop}, statements...)
			}
			for _, sql := range statements {
				if tag, err := tx.Exec(t.Context(), sql); err != nil || strings.HasPrefix(sql, "UPDATE") && tag.RowsAffected() != 1 {
					t.Fatalf("%s: %s, %v", sql, tag, err)
				}
			}
			if work, err := run.Dispatch(t.Context(), tx, "worker-1", time.Minute); !errors.Is(err, run.ErrNoWork) {
				t.Errorf("Dispatch() = %s, %v, want ErrNoWork", work.RunID, err)
			}
		})
	}
	w.dispatch() // which was possible all the time
}
