package runmgmt

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

// running makes the world's source a Run that is running.
func (w *world) running() {
	w.t.Helper()
	now := runtest.Clock(w.t, w.super)
	runtest.Admit(w.t, w.Database, "ops", "report", now, now)
	w.source = runtest.Execute(w.t, w.Database, run.Outcome{})
}

func (w *world) stopForm() Stop {
	w.t.Helper()
	return Stop{Who: w.proof(policy.StopRun, 0), MutationID: uuid.New(), ProjectID: "ops", RunID: w.source, Version: w.read(w.source).Version, Words: "because"}
}

func TestStopAsksAndNeverWritesTheStatus(t *testing.T) {
	w := newWorld(t)
	w.running()
	s := w.stopForm()
	made, err := w.manager.Stop(t.Context(), s)
	if err != nil || made.Replayed {
		t.Fatalf("Stop = %+v, %v", made, err)
	}
	got := value[string](w, `SELECT concat_ws(' ', r.status, r.version - $2, r.cancel_reason, r.cancel_requested_at_ms IS NOT NULL, e.type, e.payload ->> 'reason', e.sequence = r.event_sequence)
		FROM runs r JOIN run_events e ON e.run_id = r.id AND e.type = 'run.cancel_requested' WHERE r.id = $1`, w.source, s.Version)
	if want := "running 1 user t run.cancel_requested because t"; got != want {
		t.Errorf("the Run is %q, want %q", got, want)
	}
	again, err := w.manager.Stop(t.Context(), s)
	if err != nil || !again.Replayed || again.AtMS != made.AtMS {
		t.Errorf("the same form again = %+v, %v, want the first", again, err)
	}
	if diff := cmp.Diff(ledger{Allowed: 1, Consumed: 1}, w.ledger()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	s.Words = "another reason"
	if _, err := w.manager.Stop(t.Context(), s); reasonOf(err) != string(MutationConflict) {
		t.Errorf("the same mutation with another reason = %v, want mutation_conflict", err)
	}
}

func TestStopRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world, s *Stop)
		want   Reason
	}{
		{"no reason", func(_ *world, s *Stop) { s.Words = "" }, Invalid},
		{"a reason that is too long", func(_ *world, s *Stop) { s.Words = strings.Repeat("x", 501) }, Invalid},
		{"no proof", func(_ *world, s *Stop) { s.Who.ProofID = uuid.Nil }, StepUpRequired},
		{"a proof for retrying", func(w *world, s *Stop) { s.Who = w.proof(policy.RetryRun, 0) }, AuthenticationChanged},
		{"another project", func(_ *world, s *Stop) { s.ProjectID = "other" }, NotFound},
		{"role revoked", func(w *world, _ *Stop) {
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, gen_random_uuid(), 'test', 1)`, w.user)
		}, AuthorizationChanged},
		{"ended meanwhile", func(w *world, _ *Stop) {
			w.change(`UPDATE runs SET status = 'failed', finished_at_ms = started_at_ms WHERE status = 'running'`)
		}, NotStoppable},
		{"asked before", func(w *world, _ *Stop) {
			w.change(`UPDATE runs SET cancel_requested_at_ms = 1, cancel_reason = 'user' WHERE status = 'running'`)
		}, NotStoppable},
		{"lost", func(w *world, _ *Stop) { w.change(`UPDATE runs SET status = 'lost' WHERE status = 'running'`) }, NotStoppable},
		{"another plan", func(w *world, _ *Stop) {
			w.change(`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_digest_matches`, `UPDATE task_execution_revisions SET content_digest = 'x'`)
		}, PlanChanged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.running()
			s := w.stopForm()
			tt.change(w, &s)
			if _, err := w.manager.Stop(t.Context(), s); reasonOf(err) != string(tt.want) {
				t.Errorf("Stop = %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(ledger{Denied: 1}, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStopWhoseCommitGetsNoAnswer(t *testing.T) {
	for name, loss := range map[string]pgtest.Loss{"committed": pgtest.LoseAnswer, "not committed": pgtest.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.running()
			s := w.stopForm()
			pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRunManager), loss, 1)
			if _, err := w.newManager(pool).Stop(t.Context(), s); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatalf("Stop = %v, want ErrOutcomeUnknown", err)
			}
			made, err := w.manager.Stop(t.Context(), s)
			if err != nil || made.Replayed != (loss == pgtest.LoseAnswer) {
				t.Errorf("the same form again = %+v, %v", made, err)
			}
			if n := value[int](w, `SELECT count(*) FROM run_events WHERE type = 'run.cancel_requested'`); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}
