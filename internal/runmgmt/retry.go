package runmgmt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// Retry is the submitted form: what the operator saw in the preview, and said yes to.
type Retry struct {
	Who           Who
	MutationID    uuid.UUID // issued by the console with the form
	ProjectID     string
	RunID         uuid.UUID
	SourceStatus  run.Status
	SourceVersion int64
	PlanDigest    string     // of the previewed plan
	NewestRetry   *uuid.UUID // the newest retry of this Run that the preview showed; nil if it showed none
	Words         string     // the reason
}

// Retry makes a new Run of the source, or says why not: a [*Refusal], [ErrUnavailable] or [ErrOutcomeUnknown].
func (m *Manager) Retry(ctx context.Context, r Retry) (Made, error) {
	return m.single(ctx, mutation{who: r.Who, deed: retrying, project: r.ProjectID, words: r.Words, items: []item{{mutation: r.MutationID, run: r.RunID,
		status: r.SourceStatus, version: r.SourceVersion, digest: r.PlanDigest, newest: r.NewestRetry}}})
}

var retrying = deed{action: policy.RetryRun, ask: text.Of("A reason is missing: say why the Run is retried."), quota: true,
	never: neverRetried, changed: changedForRetry, find: findRetry, write: writeRetry}

// findRetry answers with what the mutation made before, or with run.ErrNotFound.
func findRetry(ctx context.Context, q pg.Querier, x mutation, i item) (Made, error) {
	found, err := run.FindRetry(ctx, q, x.project, i.mutation)
	if err != nil {
		return Made{}, err
	}
	c := found.Created
	if c.UserID != x.who.user() || c.RetryOf != i.run || c.SourceStatus != i.status || c.SourceVersion != i.version ||
		c.PlanDigest != i.digest || c.Reason != x.words {
		refusal := refuse(MutationConflict, text.Of("This form was sent before with other content, and made a Run then."))
		refusal.Retry = &found.RunID
		return Made{}, refusal
	}
	return Made{Source: i.run, RunID: found.RunID, AttemptID: found.AttemptID, AtMS: found.AtMS, Replayed: true}, nil
}

// changedForRetry compares the source with what the operator saw, and with what the proof was made for.
func changedForRetry(i item, verified policy.Item, s run.Source) *Refusal {
	switch {
	case s.Status != i.status || s.Version != i.version || s.Version != verified.Version:
		return refuse(SourceChanged, text.Of("The Run is %s (version %s) now; the preview showed %s (version %s).", s.Status.Word(), s.Version, i.status.Word(), i.version))
	case s.ExecutionDigest != i.digest || s.ExecutionDigest != verified.Digest:
		return refuse(PlanChanged, text.Of("What would run is not what the preview showed."))
	case !s.TaskEnabled:
		return refuse(TaskDisabled, text.Of("The Task has been disabled."))
	case s.NewestRetry != nil && (i.newest == nil || *i.newest != *s.NewestRetry):
		refusal := refuse(RetriedMeanwhile, text.Of("Another retry of this Run has appeared since the preview."))
		refusal.Retry = s.NewestRetry
		return refusal
	}
	return nil
}

// neverRetried says why a Run cannot be retried whatever an operator saw, or nil.
func neverRetried(s run.Source) *Refusal {
	if refusal := retryableState(s.Status); refusal != nil {
		return refusal
	}
	switch {
	case s.ParentRunID != nil || s.ExecutionOwner != "runtime":
		return refuse(SourceNotRetryable, text.Of("The Run belongs to another, which decides about it."))
	case s.Executor != "remote_worker":
		return refuse(SourceNotRetryable, text.Of("The newest Attempt was not a worker's."))
	case s.ExecutionID == "" || s.ExecutionID != s.SnapshotRef:
		return refuse(SourceNotRetryable, text.Of("The execution revision it was pinned to is gone."))
	case catalog.Verify(catalog.DomainExecution, s.ExecutionContent, s.ExecutionDigest) != nil:
		return refuse(SourceNotRetryable, text.Of("The execution revision it was pinned to does not match its digest."))
	}
	return nil
}

func retryableState(s run.Status) *Refusal {
	switch {
	case s == run.Lost:
		return refuse(SourceNotRetryable, text.Of("The Run is lost: whether its command still runs is not known, so running it again could run it twice."))
	case !s.Terminal():
		return refuse(SourceNotTerminal, text.Of("The Run is %s; only one that has ended can be retried.", s.Word()))
	case s == run.Succeeded:
		return refuse(SourceNotRetryable, text.Of("The Run succeeded."))
	}
	return nil
}

func (r *Refusal) with(s run.Source) *Refusal {
	r.Source = &s
	return r
}

// writeRetry makes the Run, its Attempt, its Events and the allowed audit row.
func writeRetry(ctx context.Context, tx pgx.Tx, x mutation, i item, g grant, s run.Source) (Made, error) {
	auditID := run.NewID(g.atMS)
	retry, err := run.InsertRetry(ctx, tx, run.RetryCreated{
		MutationID: i.mutation, RetryOf: i.run, UserID: x.who.user(), SourceStatus: s.Status, SourceVersion: s.Version, AuthenticationID: g.proof.ID,
		AuditEventID: auditID, ProjectVersion: g.fence.projectVersion, BindingVersion: g.fence.bindingVersion, Role: string(g.fence.role),
		PlanDigest: s.ExecutionDigest, SourceDigest: sourceDigest(s), Reason: x.words, BatchID: x.batch,
	}, x.who.Actor.RequestID, g.atMS)
	if err != nil {
		return Made{}, err
	}
	event := allowed(policy.RetryRun, x.target(i), g.fence, g.proof)
	event.ID = auditID
	event.Detail["new_run_id"], event.Detail["plan_digest"], event.Detail["source_status"] = retry.RunID, s.ExecutionDigest, s.Status
	if err := policy.WriteAudit(ctx, tx, event); err != nil {
		return Made{}, err
	}
	return Made{Source: i.run, RunID: retry.RunID, AttemptID: retry.AttemptID, AtMS: retry.AtMS}, nil
}

// sourceDigest is over the facts of the source that its retry rests on.
func sourceDigest(s run.Source) string {
	var finished int64
	if s.FinishedAtMS != nil {
		finished = *s.FinishedAtMS
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "qinglong.retry-source.v1\x00%s\x00%s\x00%d\x00%s\x00%d", s.ID, s.Status, s.Version, s.SnapshotRef, finished))
	return hex.EncodeToString(sum[:])
}
