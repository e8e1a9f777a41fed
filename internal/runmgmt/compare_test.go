package runmgmt

import (
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
)

// Each fact that a retry rests on is changed alone, of what the operator saw, of what was verified, and of what is there.
func TestRetryComparesEveryPart(t *testing.T) {
	const content = `{"command":["/bin/true"]}`
	digest := catalog.Digest(catalog.DomainExecution, content)
	other := uuid.New()
	tests := []struct {
		name   string
		change func(*item, *policy.Item, *run.Source)
		want   Reason
	}{
		{"nothing", func(*item, *policy.Item, *run.Source) {}, ""},
		{"the retry that was shown", func(i *item, _ *policy.Item, s *run.Source) { i.newest, s.NewestRetry = &other, &other }, ""},
		{"status", func(i *item, _ *policy.Item, _ *run.Source) { i.status = run.TimedOut }, SourceChanged},
		{"version seen", func(i *item, _ *policy.Item, _ *run.Source) { i.version++ }, SourceChanged},
		{"version verified", func(_ *item, v *policy.Item, _ *run.Source) { v.Version++ }, SourceChanged},
		{"plan seen", func(i *item, _ *policy.Item, _ *run.Source) { i.digest = "x" }, PlanChanged},
		{"plan verified", func(_ *item, v *policy.Item, _ *run.Source) { v.Digest = "x" }, PlanChanged},
		{"task", func(_ *item, _ *policy.Item, s *run.Source) { s.TaskEnabled = false }, TaskDisabled},
		{"a retry that was not shown", func(_ *item, _ *policy.Item, s *run.Source) { s.NewestRetry = &other }, RetriedMeanwhile},
		{"a child", func(_ *item, _ *policy.Item, s *run.Source) { s.ParentRunID = &other }, SourceNotRetryable},
		{"a workflow's", func(_ *item, _ *policy.Item, s *run.Source) { s.ExecutionOwner = "workflow" }, SourceNotRetryable},
		{"no worker's", func(_ *item, _ *policy.Item, s *run.Source) { s.Executor = "other" }, SourceNotRetryable},
		{"execution gone", func(_ *item, _ *policy.Item, s *run.Source) { s.ExecutionID, s.SnapshotRef = "", "" }, SourceNotRetryable},
		{"another execution", func(_ *item, _ *policy.Item, s *run.Source) { s.SnapshotRef = "other" }, SourceNotRetryable},
		{"content", func(_ *item, _ *policy.Item, s *run.Source) { s.ExecutionContent += " " }, SourceNotRetryable},
		{"lost", func(_ *item, _ *policy.Item, s *run.Source) { s.Status = run.Lost }, SourceNotRetryable},
		{"running", func(_ *item, _ *policy.Item, s *run.Source) { s.Status = run.Running }, SourceNotTerminal},
		{"succeeded", func(_ *item, _ *policy.Item, s *run.Source) { s.Status = run.Succeeded }, SourceNotRetryable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := item{status: run.Failed, version: 3, digest: digest}
			verified := policy.Item{Version: 3, Digest: digest}
			s := run.Source{Status: run.Failed, Version: 3, ExecutionOwner: "runtime", Executor: "remote_worker", ExecutionID: "e", SnapshotRef: "e",
				ExecutionContent: content, ExecutionDigest: digest, TaskEnabled: true}
			tt.change(&i, &verified, &s)
			var got Reason
			if r := neverRetried(s); r != nil {
				got = r.Reason
			} else if r := changedForRetry(i, verified, s); r != nil {
				got = r.Reason
			}
			if got != tt.want {
				t.Errorf("the retry is refused as %q, want %q", got, tt.want)
			}
		})
	}
}
