package runmgmt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

// outage is n Runs that have failed: the world's own source, and copies of it that came a millisecond after one another.
func (w *world) outage(n int) []uuid.UUID {
	w.t.Helper()
	const later = `'created_at_ms', created_at_ms + n, 'started_at_ms', started_at_ms + n, 'finished_at_ms', finished_at_ms + n`
	w.exec(`CREATE TABLE public.copies AS SELECT n, CASE n WHEN 0 THEN $1::uuid ELSE gen_random_uuid() END AS id FROM generate_series(0, $2::int - 1) n`, w.source, n)
	w.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', c.id, 'queued_at_ms', queued_at_ms + n, `+later+`,
		'scheduled_for_ms', scheduled_for_ms + n, 'idempotency_key', 'ql3:cron:v1:report:' || trigger_revision || ':' || scheduled_for_ms + n))).*
		FROM runs r, public.copies c WHERE r.id = $1 AND n > 0`, w.source)
	w.exec(`INSERT INTO run_attempts SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'run_id', c.id, `+later+`))).*
		FROM run_attempts a, public.copies c WHERE a.run_id = $1 AND n > 0`, w.source)
	return value[[]uuid.UUID](w, `SELECT array_agg(id ORDER BY n) FROM public.copies`)
}

// frozen freezes ids for action, proves it, and returns the form that submits all of them.
func (w *world) frozen(action policy.Permission, ids ...uuid.UUID) BatchForm {
	w.t.Helper()
	return w.frozenBy(w.user, w.session, "alice", action, ids...)
}

func (w *world) frozenBy(user, session uuid.UUID, name string, action policy.Permission, ids ...uuid.UUID) BatchForm {
	w.t.Helper()
	who := Who{SessionID: session, Actor: policy.Actor{Type: policy.ByUser, UserID: &user, Issuer: "https://idp.example", Subject: name, Name: name, SessionID: &session}}
	b, err := w.manager.Freeze(w.t.Context(), Selection{Who: who, Action: action, ProjectID: "ops", Runs: ids, Words: "after the outage"})
	if err != nil {
		w.t.Fatalf("Freeze: %v", err)
	}
	form := BatchForm{Who: w.prove(user, session, name, b), BatchID: b.ID}
	for _, id := range ids {
		form.Runs = append(form.Runs, Chosen{Run: id, NewestRetry: w.read(id).NewestRetry})
	}
	return form
}

// prove records a fresh step-up for the batch.
func (w *world) prove(user, session uuid.UUID, name string, b Batch) Who {
	w.t.Helper()
	p := policy.Proof{ID: uuid.New(), TransactionID: uuid.New(), SessionID: session, UserID: user, Words: b.Words, CookieHash: w.cookie, Purpose: b.Purpose(),
		Assurance: policy.Assurance{Level: "multi_factor", Issuer: "https://idp.example", Subject: name, ClientID: "console",
			AuthTimeS: runtest.Clock(w.t, w.super) / 1000, SecondFactor: "always"}}
	if err := policy.InsertProof(w.t.Context(), w.Pool(w.t, migrations.RoleAuthn), &p); err != nil {
		w.t.Fatal(err)
	}
	return Who{SessionID: session, ProofID: p.ID, CookieHash: w.cookie,
		Actor: policy.Actor{Type: policy.ByUser, UserID: &user, Issuer: "https://idp.example", Subject: name, Name: name, SessionID: &session, RequestID: "req"}}
}

// refusedOf lists the Runs of a refusal as their places among ids and the reason.
func refusedOf(err error, ids []uuid.UUID) (list []string) {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		return []string{fmt.Sprint(err)}
	}
	if len(r.Runs) == 0 {
		return []string{string(r.Reason)}
	}
	for _, one := range r.Runs {
		list = append(list, fmt.Sprintf("%d %s", slices.Index(ids, one.Run), one.Refusal.Reason))
	}
	return list
}

func TestFortyAtOnce(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(40)
	form := w.frozen(policy.RetryRun, ids...)
	p, err := w.manager.PreviewBatch(t.Context(), form.Who, form.BatchID)
	if err != nil || !p.Ready() || len(p.Runs) != 40 || p.Quota != Quota || len(p.Duplicates()) != 1 {
		t.Fatalf("PreviewBatch = ready %v, %d Runs, quota %d, %d groups of duplicates, %v", p.Ready(), len(p.Runs), p.Quota, len(p.Duplicates()), err)
	}
	made, err := w.manager.Submit(t.Context(), form)
	if err != nil || made.Replayed || len(made.Runs) != 40 {
		t.Fatalf("Submit = %d Runs, replayed %v, %v", len(made.Runs), made.Replayed, err)
	}
	want := ledger{40, 40, 80, 40, 0, 1}
	if diff := cmp.Diff(want, w.ledger()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	again, err := w.manager.Submit(t.Context(), form)
	if err != nil || !again.Replayed {
		t.Fatalf("the same form again = %+v, %v", again.Replayed, err)
	}
	for i := range made.Runs {
		made.Runs[i].Replayed = true
	}
	if diff := cmp.Diff(made.Runs, again.Runs); diff != "" {
		t.Errorf("the same form again (-first +again):\n%s", diff)
	}
	for i, m := range made.Runs {
		if m.Source != ids[i] {
			t.Errorf("Run %d is of another source", i)
		}
	}
	if diff := cmp.Diff(want, w.ledger()); diff != "" {
		t.Errorf("the replay wrote (-want +got):\n%s", diff)
	}
	got := value[string](w, `SELECT string_agg(DISTINCT concat_ws(' ', n.step_up_proof_id = $1, e.payload ->> 'batch_id' = $2::text, e.payload ->> 'reason', a.detail ->> 'batch' = $2::text, a.words), ',')
		FROM runs n JOIN run_events e ON e.run_id = n.id AND e.sequence = 1 JOIN security_audit_events a ON a.id::text = e.payload ->> 'audit_event_id'
		WHERE n.trigger_type = 'run_manual_retry'`, form.Who.ProofID, form.BatchID)
	if got != "t t after the outage t after the outage" {
		t.Errorf("the new Runs say %q", got)
	}
}

// Every way in which one Run of the three can be refused. Nothing is written but its denied row, the proof is as it was,
// and the other two are made with it.
func TestBatchRefusesARun(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world, id uuid.UUID)
		want   Reason
	}{
		{"changed", func(w *world, id uuid.UUID) {
			w.change(`UPDATE runs SET version = version + 1 WHERE id = '` + id.String() + `'`)
		}, SourceChanged},
		{"other status", func(w *world, id uuid.UUID) {
			w.change(`UPDATE runs SET status = 'timed_out' WHERE id = '` + id.String() + `'`)
		}, SourceChanged},
		{"succeeded", func(w *world, id uuid.UUID) {
			w.change(`UPDATE runs SET status = 'succeeded', error_code = NULL WHERE id = '` + id.String() + `'`)
		}, SourceNotRetryable},
		{"running", func(w *world, id uuid.UUID) {
			w.change(`UPDATE runs SET status = 'running', finished_at_ms = NULL WHERE id = '` + id.String() + `'`)
		}, SourceNotTerminal},
		{"gone from the Project", func(w *world, id uuid.UUID) {
			w.change(`UPDATE runs SET project_id = 'other' WHERE id = '` + id.String() + `'`)
		}, NotFound},
		{"other plan", func(w *world, id uuid.UUID) {
			w.change(`UPDATE runs SET task_revision = 2, task_snapshot_ref = 'qltd:v1:2:d' WHERE id = '`+id.String()+`'`,
				`ALTER TABLE task_execution_revisions ALTER id DROP EXPRESSION`,
				`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_content_names_its_task`,
				`INSERT INTO task_execution_revisions (project_id, task_id, task_revision, task_content_digest, id, content, content_digest, created_at_ms)
					SELECT project_id, task_id, 2, 'd', 'qltd:v1:2:d', c, content_digest('qinglong.task-execution.v1', c), 1
					FROM (SELECT *, replace(content, 'yesterday', 'today') AS c FROM task_execution_revisions) x`)
		}, PlanChanged},
		{"retried by somebody else meanwhile", func(w *world, id uuid.UUID) {
			bob, session := w.signIn("bob", policy.Operator)
			source := w.source
			w.source = id
			if _, err := w.manager.Retry(w.t.Context(), w.form(w.proofOf(bob, session, "bob", policy.RetryRun, 0))); err != nil {
				w.t.Fatal(err)
			}
			w.source = source
		}, RetriedMeanwhile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.outage(3)
			form := w.frozen(policy.RetryRun, ids...)
			tt.change(w, ids[1])
			before := w.ledger()
			_, err := w.manager.Submit(t.Context(), form)
			if diff := cmp.Diff([]string{"1 " + string(tt.want)}, refusedOf(err, ids)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			before.Denied++
			if diff := cmp.Diff(before, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if got := value[string](w, `SELECT concat_ws(' ', reason, run_id = $1, mutation_id = $2, detail ->> 'batch' = $3::text) FROM security_audit_events WHERE outcome = 'denied'`,
				ids[1], mutationOf(form.BatchID, ids[1]), form.BatchID); got != string(tt.want)+" t t t" {
				t.Errorf("audited as %q", got)
			}
			form.Runs = slices.Delete(form.Runs, 1, 2)
			if made, err := w.manager.Submit(t.Context(), form); err != nil || len(made.Runs) != 2 {
				t.Errorf("the others = %d Runs, %v, want 2 under the same proof", len(made.Runs), err)
			}
		})
	}
}

// What refuses all of a batch, whatever Runs it has.
func TestBatchRefusesAll(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world, f *BatchForm)
		want   string
	}{
		{"no Run chosen", func(_ *world, f *BatchForm) { f.Runs = nil }, string(Invalid)},
		{"a Run that was not frozen", func(w *world, f *BatchForm) { f.Runs = append(f.Runs, Chosen{Run: w.failed()}) }, string(Invalid)},
		{"a Run that is none", func(_ *world, f *BatchForm) { f.Runs[0].Run = uuid.New() }, string(Invalid)},
		{"an invented batch", func(_ *world, f *BatchForm) { f.BatchID = uuid.New() }, string(NotFound)},
		{"somebody else's batch", func(w *world, f *BatchForm) {
			bob, session := w.signIn("bob", policy.Operator)
			f.BatchID = w.frozenBy(bob, session, "bob", policy.RetryRun, w.source).BatchID
		}, string(NotFound)},
		{"no proof", func(_ *world, f *BatchForm) { f.Who.ProofID = uuid.Nil }, string(StepUpRequired)},
		{"the proof of one Run of it", func(w *world, f *BatchForm) { f.Who = w.proof(policy.RetryRun, 0) }, string(AuthenticationChanged)},
		{"the proof of another batch of the same Runs", func(w *world, f *BatchForm) {
			f.Who = w.frozen(policy.RetryRun, f.Runs[0].Run, f.Runs[1].Run).Who
		}, string(AuthenticationChanged)},
		{"another browser", func(_ *world, f *BatchForm) { f.Who.CookieHash = make([]byte, 32) }, string(AuthenticationChanged)},
		{"expired", func(w *world, _ *BatchForm) {
			w.change(`UPDATE step_up_proofs SET created_at_ms = created_at_ms - 400000, auth_time_s = auth_time_s - 400, expires_at_ms = expires_at_ms - 400000`)
		}, string(StepUpRequired)},
		{"signed out", func(w *world, _ *BatchForm) {
			w.exec(`UPDATE console_sessions SET revoked_at_ms = created_at_ms, revoke_reason = 'signed_out'`)
		}, string(StepUpRequired)},
		{"role lost", func(w *world, _ *BatchForm) {
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, gen_random_uuid(), 'test', 1)`, w.user)
		}, string(AuthorizationChanged)},
		{"project archived", func(w *world, _ *BatchForm) { w.exec(`UPDATE projects SET status = 'archived'`) }, string(AuthorizationChanged)},
		{"task disabled", func(w *world, _ *BatchForm) {
			runtest.Publish(w.t, w.Database, strings.Replace(definitions, "name: Report", "name: Report\n        enabled: false", 1))
		}, "0 task_disabled,1 task_disabled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.outage(2)
			form := w.frozen(policy.RetryRun, ids...)
			tt.change(w, &form)
			before := w.ledger()
			_, err := w.manager.Submit(t.Context(), form)
			got := refusedOf(err, ids)
			if strings.Join(got, ",") != tt.want {
				t.Errorf("Submit = %v, want %s", got, tt.want)
			}
			before.Denied += len(got)
			if diff := cmp.Diff(before, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBatchIsSubmittedOnce(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(4)
	form := w.frozen(policy.RetryRun, ids...)
	all, rest := slices.Clone(form.Runs), form
	form.Runs, rest.Runs = all[:2], all[2:]
	if made, err := w.manager.Submit(t.Context(), form); err != nil || len(made.Runs) != 2 {
		t.Fatalf("a subset = %d Runs, %v", len(made.Runs), err)
	}
	after := w.ledger()
	expect := func(name string, f BatchForm, want string) {
		t.Helper()
		made, err := w.manager.Submit(t.Context(), f)
		if reasonOf(err) != want || err == nil && !made.Replayed {
			t.Errorf("%s = %v, replayed %v, want %s", name, err, made.Replayed, want)
		}
	}
	expect("the same subset", form, "made")
	expect("a second subset", rest, string(MutationConflict))
	rest.Runs = all
	expect("all", rest, string(MutationConflict))
	rest.Runs = all[:1]
	expect("less", rest, string(MutationConflict))
	b, err := w.manager.Frozen(t.Context(), form.Who, form.BatchID)
	if err != nil {
		t.Fatal(err)
	}
	rest.Runs, rest.Who = all[2:], w.prove(w.user, w.session, "alice", b)
	expect("a second subset under a second proof", rest, string(MutationConflict))
	if got := w.ledger(); got.Retries != after.Retries || got.Consumed != after.Consumed {
		t.Errorf("written %+v, want no more than %+v", got, after)
	}
	w.change(`UPDATE step_up_proofs SET created_at_ms = 1, auth_time_s = 1, expires_at_ms = 2, consumed_at_ms = CASE WHEN consumed_at_ms IS NOT NULL THEN 1 END`)
	expect("the same subset when the proof is long gone", form, "made")
}

// Whatever fails at the last Run takes all of them back, and the proof is as it was.
func TestBatchIsAllOrNothing(t *testing.T) {
	for name, trigger := range map[string]string{
		"the last Run":       `BEFORE INSERT ON runs FOR EACH ROW WHEN (NEW.retry_of_run_id = '%s')`,
		"the last audit row": `BEFORE INSERT ON security_audit_events FOR EACH ROW WHEN (NEW.outcome = 'allowed' AND NEW.run_id = '%s')`,
		"the batch's mark":   `BEFORE UPDATE ON run_batches FOR EACH ROW WHEN ('%s' <> '')`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.outage(3)
			form := w.frozen(policy.RetryRun, ids...)
			w.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '23514'; END $$`)
			w.exec(`CREATE TRIGGER injected ` + fmt.Sprintf(trigger, ids[2]) + ` EXECUTE FUNCTION public.refuse()`)
			if _, err := w.manager.Submit(t.Context(), form); !errors.Is(err, ErrUnavailable) {
				t.Errorf("Submit = %v, want ErrUnavailable", err)
			}
			if diff := cmp.Diff(ledger{}, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			w.exec(`DROP FUNCTION public.refuse CASCADE`)
			if _, err := w.manager.Submit(t.Context(), form); err != nil {
				t.Errorf("the same form without the fault = %v, want made", err)
			}
		})
	}
}

// A refusal that cannot be put on record for every Run is not given.
func TestBatchRefusalThatCannotBeAudited(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(2)
	form := w.frozen(policy.RetryRun, ids...)
	w.change(`UPDATE runs SET version = version + 1`)
	w.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '23514'; END $$`)
	w.exec(fmt.Sprintf(`CREATE TRIGGER injected BEFORE INSERT ON security_audit_events FOR EACH ROW WHEN (NEW.run_id = '%s') EXECUTE FUNCTION public.refuse()`, ids[1]))
	if _, err := w.manager.Submit(t.Context(), form); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Submit = %v, want ErrUnavailable", err)
	}
	if n := w.ledger().Denied; n != 0 {
		t.Errorf("%d denied rows, want all or none", n)
	}
}
