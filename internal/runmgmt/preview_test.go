package runmgmt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
)

func TestPreviewShowsWhatWouldHappen(t *testing.T) {
	w := newWorld(t)
	later := w.failed()
	who := w.proof(policy.RetryRun, 10)
	bob, session := w.signIn("bob", policy.Operator)
	w.proofOf(bob, session, "bob", policy.RetryRun, 5)
	runtest.Publish(t, w.Database, strings.Replace(definitions, "yesterday", "today", 1))
	before := w.ledger()
	p, err := w.manager.Preview(t.Context(), who, "ops", w.source)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Ready() || p.Words != "because" || p.Level != "multi_factor" || p.LeftMS <= 0 || p.LeftMS > 291_000 || p.Quota != Quota {
		t.Errorf("preview = ready %v, words %q, level %q, %d ms left, quota %d", p.Ready(), p.Words, p.Level, p.LeftMS, p.Quota)
	}
	want := Plan{Command: []string{"/bin/report", "--day", "yesterday"}, EnvNames: []string{"REGION"}, Secrets: []Secret{{"TOKEN", "qlsecret:v1:report-token"}},
		WorkingDirectory: "/srv", Timeout: p.Plan.Timeout, ExecutionID: p.Plan.ExecutionID, ExecutionDigest: p.Source.ExecutionDigest}
	if diff := cmp.Diff(want, p.Plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if len(p.Since.Later) != 1 || p.Since.Later[0].ID != later || len(p.Since.Family) != 1 {
		t.Errorf("since = %+v, want the one later Run and a family of one", p.Since)
	}
	if diff := cmp.Diff([]string{"bob"}, p.Since.Verifying); diff != "" {
		t.Errorf("verifying (-want +got):\n%s", diff)
	}
	if len(p.Changed) != 1 || p.Note.Note != "sends an e-mail" {
		t.Errorf("changed = %+v, note %+v, want the command and the note", p.Changed, p.Note)
	}
	if _, err := w.manager.Preview(t.Context(), who, "ops", w.source); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.ledger()); diff != "" {
		t.Errorf("previews wrote (-want +got):\n%s", diff)
	}
	if n := value[int](w, `SELECT count(*) FROM security_audit_events WHERE action = 'run.retry_preview'`); n != 1 {
		t.Errorf("%d audit rows for two showings, want 1", n)
	}
}

// The preview judges as the retry would, and shows everything that is wrong at once.
func TestPreviewVerdicts(t *testing.T) {
	w := newWorld(t)
	who := w.proof(policy.RetryRun, 0)
	runtest.Publish(t, w.Database, strings.Replace(definitions, "name: Report", "name: Report\n        enabled: false", 1))
	w.change(`UPDATE runs SET version = version + 1`)
	p, err := w.manager.Preview(t.Context(), who, "ops", w.source)
	if err != nil {
		t.Fatal(err)
	}
	var got []Reason
	for _, v := range p.Verdicts {
		if v.Refusal != nil {
			got = append(got, v.Refusal.Reason)
		}
	}
	if diff := cmp.Diff([]Reason{SourceChanged, TaskDisabled}, got); diff != "" || p.Ready() {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

func TestPreviewNeedsTheProof(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world, who *Who)
		want   Reason
	}{
		{"none", func(_ *world, who *Who) { who.ProofID = uuid.Nil }, StepUpRequired},
		{"another browser", func(_ *world, who *Who) { who.CookieHash = nil }, AuthenticationChanged},
		{"spent", func(w *world, _ *Who) {
			w.exec(`UPDATE step_up_proofs SET consumed_at_ms = created_at_ms, consumed_mutation_id = gen_random_uuid()`)
		}, StepUpRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			who := w.proof(policy.RetryRun, 0)
			tt.change(w, &who)
			if _, err := w.manager.Preview(t.Context(), who, "ops", w.source); reasonOf(err) != string(tt.want) {
				t.Errorf("Preview = %v, want %s", err, tt.want)
			}
			if n := w.ledger().Denied; n != 1 {
				t.Errorf("%d denied rows, want 1", n)
			}
		})
	}
}
