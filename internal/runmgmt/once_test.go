package runmgmt

import (
	"testing"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
)

// A proof makes one retry of a Run and a form one stop, by the database's own word.
func TestFactsAreOnce(t *testing.T) {
	w := newWorld(t)
	if _, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 0))); err != nil {
		t.Fatal(err)
	}
	w.running()
	if _, err := w.manager.Stop(t.Context(), w.stopForm()); err != nil {
		t.Fatal(err)
	}
	for constraint, sql := range map[string]string{
		"run_proof_once_per_source": `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin,
				triggered_by, step_up_proof_id, status, event_sequence, idempotency_key, created_at_ms, queued_at_ms)
			SELECT gen_random_uuid(), project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin,
				triggered_by, step_up_proof_id, 'queued', 2, 'ql3:run-manual-retry:v1:' || gen_random_uuid(), created_at_ms, queued_at_ms FROM runs WHERE step_up_proof_id IS NOT NULL`,
		"event_cancel_mutation_once": `INSERT INTO run_events (id, run_id, sequence, type, dedupe_key, actor_type, actor_id, payload, created_at_ms)
			SELECT gen_random_uuid(), run_id, sequence + 1, type, 'another', actor_type, actor_id, payload, created_at_ms FROM run_events WHERE type = 'run.cancel_requested'`,
	} {
		if _, err := w.super.Exec(t.Context(), sql); pg.Constraint(err) != constraint {
			t.Errorf("a second row = %v, want refused by %s", err, constraint)
		}
	}
}

// A proof that was good when it was read is good for nothing if it cannot be consumed any more: the retry is refused.
func TestProofSpentMeanwhile(t *testing.T) {
	w := newWorld(t)
	r := w.form(w.proof(policy.RetryRun, 0))
	w.exec(`CREATE FUNCTION public.spare() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	w.exec(`CREATE TRIGGER injected BEFORE UPDATE OF consumed_at_ms ON step_up_proofs FOR EACH ROW EXECUTE FUNCTION public.spare()`)
	if _, err := w.manager.Retry(t.Context(), r); reasonOf(err) != string(StepUpRequired) {
		t.Errorf("Retry = %s, want %s", reasonOf(err), StepUpRequired)
	}
	if n := w.ledger().Retries; n != 0 {
		t.Errorf("%d retries, want none", n)
	}
}
