package runmgmt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

func TestRetryMakesANewRun(t *testing.T) {
	w := newWorld(t)
	before := value[string](w, `SELECT r::text FROM runs r WHERE id = $1`, w.source)
	r := w.form(w.proof(policy.RetryRun, 0))
	made, err := w.manager.Retry(t.Context(), r)
	if err != nil || made.Replayed {
		t.Fatalf("Retry = %+v, %v", made, err)
	}
	if diff := cmp.Diff(ledger{1, 1, 2, 1, 0, 1}, w.ledger()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if after := value[string](w, `SELECT r::text FROM runs r WHERE id = $1`, w.source); after != before {
		t.Errorf("the source went from\n%s to\n%s", before, after)
	}
	got := value[string](w, `SELECT concat_ws(' ', n.status, n.trigger_type, n.execution_origin, n.triggered_by = $2::text, n.retry_of_run_id = $3, n.step_up_proof_id = $4,
			n.task_revision = s.task_revision, n.task_snapshot_ref = s.task_snapshot_ref, n.priority = s.priority, n.request_id, num_nonnulls(n.trigger_id, n.scheduled_for_ms),
			a.status, e.payload ->> 'inherit_retry_policy', e.payload ->> 'source_status', e.payload ->> 'reason', au.words, au.strength, au.acr, au.role, au.id::text = e.payload ->> 'audit_event_id')
		FROM runs n JOIN runs s ON s.id = n.retry_of_run_id JOIN run_attempts a ON a.run_id = n.id JOIN run_events e ON e.run_id = n.id AND e.sequence = 1,
			security_audit_events au WHERE n.id = $1 AND au.outcome = 'allowed' AND au.action = 'run.retry'`, made.RunID, w.user, w.source, r.Who.ProofID)
	if want := "queued run_manual_retry manual t t t t t t req 0 claimed false failed because because multi_factor gold operator t"; got != want {
		t.Errorf("the retry is\n%s, want\n%s", got, want)
	}
}

// Each refusal, by a change between preview and submission that leaves everything else as it was. Nothing is written
// but the one denied row, and the proof is not consumed.
func TestRetryRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world, r *Retry)
		want   Reason
	}{
		{"no reason", func(_ *world, r *Retry) { r.Words = " " }, Invalid},
		{"a reason of 501 characters", func(_ *world, r *Retry) { r.Words = strings.Repeat("é", 501) }, Invalid},
		{"no mutation id", func(_ *world, r *Retry) { r.MutationID = uuid.Nil }, Invalid},
		{"no proof", func(_ *world, r *Retry) { r.Who.ProofID = uuid.Nil }, StepUpRequired},
		{"an invented proof", func(_ *world, r *Retry) { r.Who.ProofID = uuid.New() }, StepUpRequired},
		{"301 s old", func(w *world, r *Retry) {
			w.change(`ALTER TABLE step_up_proofs DROP CONSTRAINT proof_lives_five_minutes`, `UPDATE step_up_proofs SET auth_time_s = auth_time_s - 301`)
		}, StepUpRequired},
		{"expired", func(w *world, r *Retry) {
			w.change(`UPDATE step_up_proofs SET created_at_ms = created_at_ms - 400000, auth_time_s = auth_time_s - 400, expires_at_ms = expires_at_ms - 400000`)
		}, StepUpRequired},
		{"revoked", func(w *world, _ *Retry) { w.change(`UPDATE step_up_proofs SET revoked_at_ms = 1`) }, StepUpRequired},
		{"session signed out", func(w *world, _ *Retry) {
			w.exec(`UPDATE console_sessions SET revoked_at_ms = created_at_ms, revoke_reason = 'signed_out'`)
		}, StepUpRequired},
		{"session revoked behind the trigger's back", func(w *world, _ *Retry) {
			w.change(`UPDATE console_sessions SET revoked_at_ms = created_at_ms, revoke_reason = 'signed_out'`)
		}, StepUpRequired},
		{"session expired", func(w *world, _ *Retry) {
			w.change(`UPDATE console_sessions SET created_at_ms = 1, expires_at_ms = 2`) // seen a moment ago
		}, StepUpRequired},
		{"session idle for too long", func(w *world, _ *Retry) {
			w.change(`UPDATE console_sessions SET created_at_ms = 1, last_seen_at_ms = last_seen_at_ms - idle_ms - 1`)
		}, StepUpRequired},
		{"another session of the same user", func(w *world, r *Retry) { r.Who.SessionID = uuid.New() }, AuthenticationChanged},
		{"another browser", func(_ *world, r *Retry) { r.Who.CookieHash = make([]byte, 32) }, AuthenticationChanged},
		{"no proof cookie", func(_ *world, r *Retry) { r.Who.CookieHash = nil }, AuthenticationChanged},
		{"a proof for stopping", func(w *world, r *Retry) { r.Who = w.proof(policy.StopRun, 0) }, AuthenticationChanged},
		{"a proof for another Run", func(w *world, r *Retry) { r.Who = w.proof(policy.RetryRun, 0, w.failed()) }, AuthenticationChanged},
		{"another user's proof", func(w *world, r *Retry) {
			bob, session := w.signIn("bob", policy.Operator)
			r.Who.ProofID = w.proofOf(bob, session, "bob", policy.RetryRun, 0).ProofID
		}, AuthenticationChanged},
		{"role revoked", func(w *world, _ *Retry) {
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, gen_random_uuid(), 'test', 1)`, w.user)
		}, AuthorizationChanged},
		{"role reduced to viewer", func(w *world, _ *Retry) {
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, 'viewer', gen_random_uuid(), 'test', 1)`, w.user)
		}, AuthorizationChanged},
		{"role revoked and given again", func(w *world, _ *Retry) {
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, gen_random_uuid(), 'test', 1)`, w.user)
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms)
				SELECT 'ops', $1, 3, 'operator', gen_random_uuid(), 'test', created_at_ms + 1 FROM step_up_proofs`, w.user)
		}, AuthorizationChanged},
		{"user disabled", func(w *world, _ *Retry) { w.exec(`UPDATE users SET status = 'disabled'`) }, AuthorizationChanged},
		{"project archived", func(w *world, _ *Retry) { w.exec(`UPDATE projects SET status = 'archived'`) }, AuthorizationChanged},
		{"another project", func(_ *world, r *Retry) { r.ProjectID = "other" }, NotFound},
		{"the Run was other when previewed", func(_ *world, r *Retry) { r.SourceVersion-- }, SourceChanged},
		{"the Run had another status when previewed", func(_ *world, r *Retry) { r.SourceStatus = "timed_out" }, SourceChanged},
		{"the Run has changed since the step-up", func(w *world, r *Retry) {
			w.change(`UPDATE runs SET version = version + 1`)
			r.SourceVersion++
		}, SourceChanged},
		{"succeeded", func(w *world, r *Retry) { w.change(`UPDATE runs SET status = 'succeeded', error_code = NULL`) }, SourceNotRetryable},
		{"running", func(w *world, r *Retry) { w.change(`UPDATE runs SET status = 'running', finished_at_ms = NULL`) }, SourceNotTerminal},
		{"lost", func(w *world, r *Retry) { w.change(`UPDATE runs SET status = 'lost', finished_at_ms = NULL`) }, SourceNotRetryable},
		{"a workflow's", func(w *world, r *Retry) { w.change(`UPDATE runs SET execution_owner = 'workflow'`) }, SourceNotRetryable},
		{"not top level", func(w *world, r *Retry) { w.change(`UPDATE runs SET parent_run_id = id`) }, SourceNotRetryable},
		{"execution tampered with", func(w *world, _ *Retry) {
			w.change(`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_digest_matches`, `UPDATE task_execution_revisions SET content = content || ' '`)
		}, SourceNotRetryable},
		{"execution gone", func(w *world, _ *Retry) { w.change(`DELETE FROM task_execution_revisions`) }, SourceNotRetryable},
		{"another plan was previewed", func(_ *world, r *Retry) { r.PlanDigest = "x" }, PlanChanged},
		{"task disabled", func(w *world, _ *Retry) {
			runtest.Publish(w.t, w.Database, strings.Replace(definitions, "name: Report", "name: Report\n        enabled: false", 1))
		}, TaskDisabled},
		{"retried by somebody else since the preview", func(w *world, r *Retry) {
			bob, session := w.signIn("bob", policy.Operator)
			if _, err := w.manager.Retry(w.t.Context(), w.form(w.proofOf(bob, session, "bob", policy.RetryRun, 0))); err != nil {
				w.t.Fatal(err)
			}
			w.change(`DELETE FROM security_audit_events`, `UPDATE step_up_proofs SET consumed_at_ms = NULL, consumed_mutation_id = NULL`)
		}, RetriedMeanwhile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.form(w.proof(policy.RetryRun, 0))
			tt.change(w, &r)
			before := w.ledger()
			_, err := w.manager.Retry(t.Context(), r)
			if got := reasonOf(err); got != string(tt.want) {
				t.Errorf("Retry = %s, want %s", got, tt.want)
			}
			before.Denied++
			if diff := cmp.Diff(before, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if got := value[string](w, `SELECT string_agg(reason, ',') FROM security_audit_events WHERE outcome = 'denied'`); got != string(tt.want) {
				t.Errorf("audited as %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRetryAgainAnywayNamesTheOther(t *testing.T) {
	w := newWorld(t)
	first, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 0)))
	if err != nil {
		t.Fatal(err)
	}
	r := w.form(w.proof(policy.RetryRun, 0))
	r.NewestRetry = nil
	_, err = w.manager.Retry(t.Context(), r)
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || refusal.Reason != RetriedMeanwhile || *refusal.Retry != first.RunID {
		t.Fatalf("Retry = %v, want retried_meanwhile naming %s", err, first.RunID)
	}
	r.NewestRetry = refusal.Retry
	if _, err := w.manager.Retry(t.Context(), r); err != nil {
		t.Errorf("Retry that names the other = %v, want made", err)
	}
}

func TestProofAgeIsJudgedToTheSecond(t *testing.T) {
	w := newWorld(t)
	if _, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 295))); err != nil {
		t.Errorf("Retry with an authentication of 295 s ago = %v, want made", err)
	}
}

func TestExactReplay(t *testing.T) {
	w := newWorld(t)
	r := w.form(w.proof(policy.RetryRun, 0))
	first, err := w.manager.Retry(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	after := w.ledger()
	expect := func(name string, r Retry, want string) {
		t.Helper()
		got, err := w.manager.Retry(t.Context(), r)
		if reasonOf(err) != want || err == nil && (got.RunID != first.RunID || got.AttemptID != first.AttemptID || !got.Replayed) {
			t.Errorf("%s: Retry = %+v, %v, want %s of the first Run", name, got, err, want)
		}
	}
	expect("the same form", r, "made")
	w.change(`UPDATE step_up_proofs SET created_at_ms = 1, auth_time_s = 1, expires_at_ms = 2, consumed_at_ms = 1`, `UPDATE runs SET status = 'running', started_at_ms = queued_at_ms WHERE trigger_type = 'run_manual_retry'`)
	expect("the proof long expired, the Run running", r, "made")
	other := r
	other.Who.ProofID, other.Who.SessionID, other.Who.CookieHash = uuid.Nil, uuid.New(), nil
	expect("another session, without a proof", other, "made")
	runtest.Publish(t, w.Database, strings.Replace(definitions, "name: Report", "name: Report\n        enabled: false", 1))
	expect("the Task disabled since", r, "made")
	if diff := cmp.Diff(after, w.ledger()); diff != "" {
		t.Errorf("replays wrote (-want +got):\n%s", diff)
	}
	changes := map[string]func(*Retry){
		"source version": func(r *Retry) { r.SourceVersion++ }, "source status": func(r *Retry) { r.SourceStatus = "timed_out" },
		"plan": func(r *Retry) { r.PlanDigest = "x" }, "reason": func(r *Retry) { r.Words = "other" }, "Run": func(r *Retry) { r.RunID = w.failed() },
	}
	for name, change := range changes {
		r := r
		change(&r)
		expect(name, r, string(MutationConflict))
	}
	bob, session := w.signIn("bob", policy.Operator)
	foreign := r
	foreign.Who = w.proofOf(bob, session, "bob", policy.RetryRun, 0)
	expect("another user", foreign, string(MutationConflict))
	w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, gen_random_uuid(), 'test', 1)`, w.user)
	expect("without permission", r, string(AuthorizationChanged))
}

// together runs n submissions at once over two independent pools and counts the answers.
func (w *world) together(n int, form func(i int) Retry) (answers map[string]int, ids map[uuid.UUID]int) {
	w.t.Helper()
	managers := []*Manager{w.manager, w.newManager(w.Pool(w.t, migrations.RoleRunManager))}
	answers, ids = map[string]int{}, map[uuid.UUID]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		r := form(i)
		all.Go(func() {
			<-start
			made, err := managers[i%2].Retry(context.Background(), r)
			mu.Lock()
			defer mu.Unlock()
			answers[reasonOf(err)]++
			if err == nil {
				ids[made.RunID]++
			}
		})
	}
	close(start)
	all.Wait()
	return answers, ids
}

func TestConcurrentExactReplay(t *testing.T) {
	w := newWorld(t)
	r := w.form(w.proof(policy.RetryRun, 0))
	answers, ids := w.together(20, func(int) Retry { return r })
	if answers["made"] != 20 || len(ids) != 1 {
		t.Errorf("20 submissions of one form = %v naming %d Runs, want 20 made naming 1", answers, len(ids))
	}
	if diff := cmp.Diff(ledger{1, 1, 2, 1, 0, 1}, w.ledger()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestOneProofContestedByTwentyMutations(t *testing.T) {
	w := newWorld(t)
	who := w.proof(policy.RetryRun, 0)
	answers, _ := w.together(20, func(int) Retry { return w.form(who) })
	if answers["made"] != 1 || answers[string(StepUpRequired)] != 19 {
		t.Errorf("answers = %v, want 1 made and 19 step_up_required", answers)
	}
	if diff := cmp.Diff(ledger{1, 1, 2, 1, 19, 1}, w.ledger()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestLastQuotaSlotContestedByEight(t *testing.T) {
	w := newWorld(t)
	for range Quota - 1 {
		if _, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 0))); err != nil {
			t.Fatal(err)
		}
	}
	sources := make([]uuid.UUID, 8)
	for i := range sources {
		sources[i] = w.failed()
	}
	answers, _ := w.together(8, func(i int) Retry {
		w.source = sources[i]
		return w.form(w.proof(policy.RetryRun, 0))
	})
	if answers["made"] != 1 || answers[string(RateLimited)] != 7 {
		t.Errorf("answers = %v, want 1 made and 7 rate_limited", answers)
	}
	if n := w.ledger().Retries; n != Quota {
		t.Errorf("%d retries, want %d", n, Quota)
	}
	_, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 0)))
	if r, ok := errors.AsType[*Refusal](err); !ok || r.RetryAfter <= 0 || r.RetryAfter > QuotaWindow {
		t.Errorf("Retry over the quota = %v, want one that says when a place is free", err)
	}
	w.change(`UPDATE runs SET created_at_ms = created_at_ms - 61000, queued_at_ms = queued_at_ms - 61000 WHERE trigger_type = 'run_manual_retry'`)
	if _, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 0))); err != nil {
		t.Errorf("Retry after the window = %v, want made", err)
	}
}

// What commits while the retry waits for the Project is seen: the writer raised the guard, so the retry starts again.
func TestChangesThatCommitWhileTheRetryWaits(t *testing.T) {
	const guard = `UPDATE projects SET guard = guard + 1`
	tests := []struct {
		name string
		sql  string
		want Reason
	}{
		{"role revoked", `INSERT INTO project_role_bindings (project_id, user_id, version, mutation_id, actor, created_at_ms) SELECT 'ops', id, 2, gen_random_uuid(), 'test', 1 FROM users`, AuthorizationChanged},
		{"user disabled", `UPDATE users SET status = 'disabled'`, AuthorizationChanged},
		{"project archived", `UPDATE projects SET status = 'archived'`, AuthorizationChanged},
		{"signed out", `UPDATE console_sessions SET revoked_at_ms = created_at_ms, revoke_reason = 'signed_out'`, StepUpRequired},
		{"proof expires", `UPDATE step_up_proofs SET created_at_ms = created_at_ms - 400000, auth_time_s = auth_time_s - 400, expires_at_ms = expires_at_ms - 400000`, StepUpRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.form(w.proof(policy.RetryRun, 0))
			tx, err := w.super.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			for _, sql := range []string{guard, tt.sql} {
				if _, err := tx.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			answer := make(chan error, 1)
			go func() {
				_, err := w.manager.Retry(context.Background(), r)
				answer <- err
			}()
			w.waiting()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := reasonOf(<-answer); got != string(tt.want) {
				t.Errorf("Retry = %s, want %s", got, tt.want)
			}
			if n := w.ledger().Retries; n != 0 {
				t.Errorf("%d retries, want none", n)
			}
		})
	}
}

func TestRetryIsAllOrNothing(t *testing.T) {
	for name, trigger := range map[string]string{
		"the proof":   `BEFORE UPDATE ON step_up_proofs FOR EACH ROW`,
		"the Run":     `BEFORE INSERT ON runs FOR EACH ROW`,
		"the Attempt": `BEFORE INSERT ON run_attempts FOR EACH ROW`,
		"run.created": `BEFORE INSERT ON run_events FOR EACH ROW WHEN (NEW.sequence = 1)`,
		"run.queued":  `BEFORE INSERT ON run_events FOR EACH ROW WHEN (NEW.sequence = 2)`,
		"the audit":   `BEFORE INSERT ON security_audit_events FOR EACH ROW WHEN (NEW.outcome = 'allowed')`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.form(w.proof(policy.RetryRun, 0))
			w.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '23514'; END $$`)
			w.exec(`CREATE TRIGGER injected ` + trigger + ` EXECUTE FUNCTION public.refuse()`)
			if _, err := w.manager.Retry(t.Context(), r); !errors.Is(err, ErrUnavailable) {
				t.Errorf("Retry = %v, want ErrUnavailable", err)
			}
			if diff := cmp.Diff(ledger{}, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			w.exec(`DROP FUNCTION public.refuse CASCADE`)
			if _, err := w.manager.Retry(t.Context(), r); err != nil {
				t.Errorf("the same form without the fault = %v, want made: the proof was not consumed", err)
			}
		})
	}
}

// A refusal that cannot be put on record is not given: the answer is unavailable.
func TestRefusalThatCannotBeAuditedIsUnavailable(t *testing.T) {
	w := newWorld(t)
	r := w.form(w.proof(policy.RetryRun, 0))
	r.PlanDigest = "x"
	w.exec(`REVOKE INSERT ON security_audit_events FROM ql3_run_manager`)
	if _, err := w.manager.Retry(t.Context(), r); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Retry = %v, want ErrUnavailable", err)
	}
}

// The COMMIT of a retry gets no answer. The same form, sent again, finds out: also when the proof has expired by then.
func TestRetryWhoseCommitGetsNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		loss    pgtest.Loss
		expired bool
		again   string
		retries int
	}{
		"committed":              {pgtest.LoseAnswer, false, "made replayed", 1},
		"committed, then late":   {pgtest.LoseAnswer, true, "made replayed", 1},
		"not committed":          {pgtest.LoseRequest, false, "made new", 1},
		"not committed and late": {pgtest.LoseRequest, true, string(StepUpRequired), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.form(w.proof(policy.RetryRun, 0))
			pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRunManager), tt.loss, 1)
			if _, err := w.newManager(pool).Retry(t.Context(), r); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatalf("Retry = %v, want ErrOutcomeUnknown", err)
			}
			if tt.expired {
				w.change(`UPDATE step_up_proofs SET created_at_ms = 1, auth_time_s = 1, expires_at_ms = 2, consumed_at_ms = CASE WHEN consumed_at_ms IS NOT NULL THEN 1 END`)
			}
			made, err := w.manager.Retry(t.Context(), r)
			got := reasonOf(err)
			if err == nil {
				got = fmt.Sprintf("made %s", result(made.Replayed))
			}
			if got != tt.again || w.ledger().Retries != tt.retries {
				t.Errorf("the same form again = %s with %d retries, want %s with %d", got, w.ledger().Retries, tt.again, tt.retries)
			}
		})
	}
}
