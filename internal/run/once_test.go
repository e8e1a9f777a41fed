package run_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
)

// What must be there once is refused by the database when somebody writes it twice, whoever that is.
func TestFactsAreOnce(t *testing.T) {
	w := newWorld(t)
	id := w.admit(time.Minute)
	w.exec(`UPDATE run_events SET dedupe_key = 'once' WHERE run_id = $1 AND sequence = 2`, id)
	for constraint, sql := range map[string]string{
		"attempt_once": `INSERT INTO run_attempts (id, run_id, attempt, status, executor_type, created_at_ms)
			SELECT gen_random_uuid(), run_id, attempt, status, executor_type, created_at_ms FROM run_attempts WHERE run_id = $1`,
		"event_sequence_once": `INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, created_at_ms)
			SELECT gen_random_uuid(), run_id, sequence, type, actor_type, actor_id, created_at_ms FROM run_events WHERE run_id = $1 AND sequence = 1`,
		"event_dedupe_once": `INSERT INTO run_events (id, run_id, sequence, type, dedupe_key, actor_type, actor_id, created_at_ms)
			SELECT gen_random_uuid(), run_id, 3, type, dedupe_key, actor_type, actor_id, created_at_ms FROM run_events WHERE run_id = $1 AND sequence = 2`,
	} {
		if _, err := w.super.Exec(t.Context(), sql, id); pg.Constraint(err) != constraint {
			t.Errorf("a second row = %v, want refused by %s", err, constraint)
		}
	}
}

// A Run that has been asked to stop is not asked again, also by who read it in the same version; nor is one that has
// changed.
func TestCancelIsRequestedOnce(t *testing.T) {
	for name, change := range map[string]string{
		"asked already":   `UPDATE runs SET cancel_requested_at_ms = created_at_ms, cancel_reason = 'user'`,
		"another version": `UPDATE runs SET version = version + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.admit(time.Minute)
			s, err := run.ReadSource(t.Context(), w.super, "ops", id)
			if err != nil {
				t.Fatal(err)
			}
			w.exec(change)
			before := w.everything(id)
			tx := w.begin(w.super, pgx.Serializable)
			if err := run.RequestCancel(t.Context(), tx, s, uuid.New(), map[string]string{}, w.nowMS); err == nil {
				t.Error("RequestCancel() = nil, want refused")
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if after := w.everything(id); after != before {
				t.Errorf("the Run went from\n%s to\n%s", before, after)
			}
		})
	}
}
