package runmgmt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

func TestFreezeRefuses(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(2)
	runtest.Admit(t, w.Database, "ops", "report", 1, runtest.Clock(t, w.super))
	running := runtest.Execute(t, w.Database, run.Outcome{})
	many := make([]uuid.UUID, MaxBatch+1)
	for i := range many {
		many[i] = uuid.New()
	}
	tests := []struct {
		name  string
		runs  []uuid.UUID
		words string
		want  []string
	}{
		{"none", nil, "why", []string{"invalid"}},
		{"too many", many, "why", []string{"invalid"}},
		{"no reason", ids, " ", []string{"invalid"}},
		{"one that is not there, one that runs", []uuid.UUID{ids[0], uuid.Nil, running}, "why", []string{"1 not_found", "2 source_not_terminal"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.manager.Freeze(t.Context(), Selection{Who: w.person(), Action: policy.RetryRun, ProjectID: "ops", Runs: tt.runs, Words: tt.words})
			if diff := cmp.Diff(tt.want, refusedOf(err, tt.runs)); diff != "" {
				t.Errorf("Freeze (-want +got):\n%s", diff)
			}
		})
	}
	if n := value[int](w, `SELECT count(*) FROM run_batches`); n != 0 {
		t.Errorf("%d batches were frozen, want none", n)
	}
	b, err := w.manager.Freeze(t.Context(), Selection{Who: w.person(), Action: policy.RetryRun, ProjectID: "ops", Runs: []uuid.UUID{ids[1], ids[0], ids[1]}, Words: "why"})
	if err != nil || b.Size() != 2 {
		t.Errorf("Freeze of one Run twice = %d Runs, %v, want it once", b.Size(), err)
	}
	for _, sql := range []string{`UPDATE run_batch_items SET run_version = 9`, `DELETE FROM run_batch_items`, `DELETE FROM run_batches`} {
		if _, err := w.super.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s changed what was frozen", sql)
		}
	}
	aimed, err := w.manager.AimBatch(t.Context(), policy.RetryRun, "ops", []uuid.UUID{running, uuid.New(), ids[0]})
	if err != nil || len(aimed) != 2 || aimed[0].Never == nil || aimed[1].Never != nil || aimed[1].Note.Note != "sends an e-mail" {
		t.Errorf("AimBatch = %+v, %v, want the running one refused and the failed one with its note", aimed, err)
	}
}

func TestBatchPreviewShowsEveryRun(t *testing.T) {
	w := newWorld(t)
	runtest.Publish(t, w.Database, strings.Replace(definitions, "safe: ask", `safe: "no"`, 1))
	ids := w.outage(3)
	form := w.frozen(policy.RetryRun, ids...)
	w.change(`UPDATE runs SET version = version + 1 WHERE id = '` + ids[1].String() + `'`)
	before := w.ledger()
	p, err := w.manager.PreviewBatch(t.Context(), form.Who, form.BatchID)
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Runs[1].Refusal(); r == nil || r.Reason != SourceChanged || len(p.Good()) != 2 || p.Ready() {
		t.Errorf("the changed Run has %v, %d are good, ready %v", r, len(p.Good()), p.Ready())
	}
	if len(p.Unsafe()) != 3 || len(p.Duplicates()) != 1 || len(p.Duplicates()[0]) != 3 || p.LeftMS <= 0 || p.Batch.Words != "after the outage" {
		t.Errorf("preview = %d unsafe, %v duplicates, %d ms left", len(p.Unsafe()), len(p.Duplicates()), p.LeftMS)
	}
	if p.Runs[0].Later == nil || p.Runs[0].Later.ID != ids[2] || p.Runs[2].Later != nil {
		t.Errorf("later of the first = %v, of the last %v", p.Runs[0].Later, p.Runs[2].Later)
	}
	if diff := cmp.Diff([]string{"/bin/report", "--day", "yesterday"}, p.Runs[0].Plan.Command); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if _, err := w.manager.PreviewBatch(t.Context(), form.Who, form.BatchID); err != nil {
		t.Fatal(err)
	}
	if n := value[int](w, `SELECT count(*) FROM security_audit_events WHERE action = 'run.retry_preview'`); n != 1 {
		t.Errorf("%d previews audited, want the first", n)
	}
	if diff := cmp.Diff(before, w.ledger()); diff != "" {
		t.Errorf("the preview wrote (-want +got):\n%s", diff)
	}
	form.Who.ProofID = uuid.Nil
	if _, err := w.manager.PreviewBatch(t.Context(), form.Who, form.BatchID); reasonOf(err) != string(StepUpRequired) {
		t.Errorf("PreviewBatch without a proof = %v, want step_up_required", err)
	}
}

func TestStopManyAtOnce(t *testing.T) {
	w := newWorld(t)
	var ids []uuid.UUID
	for range 10 {
		now := runtest.Clock(t, w.super)
		runtest.Admit(t, w.Database, "ops", "report", now+int64(len(ids)), now)
		ids = append(ids, runtest.Execute(t, w.Database, run.Outcome{}))
	}
	form := w.frozen(policy.StopRun, ids...)
	p, err := w.manager.PreviewBatch(t.Context(), form.Who, form.BatchID)
	if err != nil || !p.Ready() {
		t.Fatalf("PreviewBatch = ready %v, %v", p.Ready(), err)
	}
	w.change(`UPDATE runs SET status = 'failed', finished_at_ms = started_at_ms WHERE id = '` + ids[3].String() + `'`)
	if _, err := w.manager.Submit(t.Context(), form); !cmp.Equal(refusedOf(err, ids), []string{"3 not_stoppable"}) {
		t.Errorf("Submit = %v, want the ended Run refused", refusedOf(err, ids))
	}
	form.Runs = slices.Delete(form.Runs, 3, 4)
	made, err := w.manager.Submit(t.Context(), form)
	if err != nil || len(made.Runs) != 9 {
		t.Fatalf("Submit = %d Runs, %v", len(made.Runs), err)
	}
	again, err := w.manager.Submit(t.Context(), form)
	if err != nil || !again.Replayed || len(again.Runs) != 9 {
		t.Errorf("the same form again = %d Runs, replayed %v, %v", len(again.Runs), again.Replayed, err)
	}
	if diff := cmp.Diff(ledger{Allowed: 9, Denied: 1, Consumed: 1}, w.ledger()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if got := value[string](w, `SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE status = 'running')) FROM runs WHERE cancel_requested_at_ms IS NOT NULL`); got != "9 9" {
		t.Errorf("asked to stop and running: %s, want 9 9", got)
	}
	view := w.view(form.BatchID)
	if len(view.Done()) != 9 || view.Remaining() != 9 || view.Members[3].Outcome != nil {
		t.Errorf("the batch shows %d done and %d remaining", len(view.Done()), view.Remaining())
	}
}

func (w *world) view(id uuid.UUID) BatchView {
	w.t.Helper()
	b, err := ReadBatch(w.t.Context(), w.Pool(w.t, migrations.RoleConsole), []string{"ops"}, w.user, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// The page of a batch follows every new Run to its end.
func TestReadBatch(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(3)
	form := w.frozen(policy.RetryRun, ids...)
	if b := w.view(form.BatchID); b.SubmittedAtMS != nil || len(b.Done()) != 0 || len(b.Members) != 3 || b.By != "alice" || b.Words != "after the outage" {
		t.Errorf("before: %+v", b)
	}
	colleague := func() error {
		_, err := ReadBatch(t.Context(), w.Pool(t, migrations.RoleConsole), []string{"ops"}, uuid.New(), form.BatchID)
		return err
	}
	if err := colleague(); !errors.Is(err, run.ErrNotFound) {
		t.Errorf("ReadBatch of somebody else's that is not submitted = %v, want ErrNotFound", err)
	}
	form.Runs = form.Runs[:2]
	made, err := w.manager.Submit(t.Context(), form)
	if err != nil {
		t.Fatal(err)
	}
	runtest.Execute(t, w.Database, run.Outcome{Status: run.Succeeded})
	b := w.view(form.BatchID)
	if diff := cmp.Diff(map[run.Status]int{run.Succeeded: 1, run.Queued: 1}, b.Progress()); diff != "" || b.Remaining() != 1 || b.SubmittedAtMS == nil {
		t.Errorf("progress (-want +got):\n%s%d remaining", diff, b.Remaining())
	}
	for i, m := range made.Runs {
		if b.Members[i].RunID != ids[i] || b.Members[i].Outcome.RunID != m.RunID {
			t.Errorf("member %d = %+v, want %s of %s", i, b.Members[i], m.RunID, ids[i])
		}
	}
	if b.Members[2].Outcome != nil {
		t.Error("the Run that was not chosen has an outcome")
	}
	if err := colleague(); err != nil {
		t.Errorf("ReadBatch of somebody else's that was submitted = %v", err)
	}
	for _, projects := range [][]string{nil, {"other"}} {
		if _, err := ReadBatch(t.Context(), w.Pool(t, migrations.RoleConsole), projects, w.user, form.BatchID); !errors.Is(err, run.ErrNotFound) {
			t.Errorf("ReadBatch of %v = %v, want ErrNotFound", projects, err)
		}
	}
	if _, err := w.manager.Frozen(t.Context(), Who{Actor: policy.Actor{UserID: new(uuid.UUID)}}, form.BatchID); !errors.Is(err, run.ErrNotFound) {
		t.Errorf("Frozen of somebody else's = %v, want ErrNotFound", err)
	}
	s, err := FindSubmission(t.Context(), w.Pool(t, migrations.RoleConsole), []string{"ops"}, b.Members[0].MutationID)
	if err != nil || s.RunID != made.Runs[0].RunID {
		t.Errorf("FindSubmission of a member's mutation = %+v, %v", s, err)
	}
}
