package runmgmt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
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

// Made is the Run that a mutation made.
type Made struct {
	RunID     uuid.UUID
	AttemptID uuid.UUID
	AtMS      int64
	Replayed  bool // it was made before, by the same mutation
}

// Retry makes a new Run of the source, or says why not: a [*Refusal], [ErrUnavailable] or [ErrOutcomeUnknown].
func (m *Manager) Retry(ctx context.Context, r Retry) (Made, error) {
	if err := r.validate(); err != nil {
		return Made{}, m.refused(ctx, policy.RetryRun, r.target(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	made, err := m.retry(ctx, r)
	if err != nil {
		return Made{}, m.refused(ctx, policy.RetryRun, r.target(), err)
	}
	m.Metrics.done.WithLabelValues(string(policy.RetryRun), result(made.Replayed)).Inc()
	return made, nil
}

func result(replayed bool) string {
	if replayed {
		return "replayed"
	}
	return "new"
}

func (r Retry) validate() error {
	switch {
	case r.MutationID == uuid.Nil || r.RunID == uuid.Nil || r.ProjectID == "":
		return refuse(Invalid, "the form is incomplete; open the Run and begin again")
	}
	return checkWords(r.Words, "say why the Run is retried")
}

func (r Retry) target() target {
	return target{who: r.Who, project: r.ProjectID, run: r.RunID, mutation: r.MutationID, words: r.Words, version: r.SourceVersion}
}

// retry takes the locks that save conflicts and runs the one transaction under them.
func (m *Manager) retry(ctx context.Context, r Retry) (made Made, err error) {
	defer m.lockProject(r.ProjectID)()
	err = pg.WithAdvisoryLock(ctx, m.Pool, lockKey(r.ProjectID), lockPatience, func(b pg.Beginner) error {
		return pg.InTx(ctx, b, func(tx pgx.Tx) (err error) {
			made, err = r.commit(ctx, tx)
			return err
		})
	})
	return made, err
}

// lockKey is the advisory lock of a Project's mutations, in a space of its own.
func lockKey(project string) int64 {
	h := fnv.New64a()
	h.Write([]byte("ql3:run-management:" + project))
	return int64(h.Sum64())
}

// commit is the transaction, in its order.
func (r Retry) commit(ctx context.Context, tx pgx.Tx) (Made, error) {
	fence, err := takeFence(ctx, tx, r.ProjectID, r.Who.user(), policy.RetryRun)
	if err != nil {
		return Made{}, err
	}
	if made, err := r.replay(ctx, tx); !errors.Is(err, run.ErrNotFound) {
		return made, err
	}
	proof, err := checkProof(ctx, tx, r.Who, policy.RetryRun, r.ProjectID, r.RunID)
	if err != nil {
		return Made{}, err
	}
	if err := fence.checkBound(proof); err != nil {
		return Made{}, err
	}
	source, err := run.LockSource(ctx, tx, r.ProjectID, r.RunID)
	if errors.Is(err, run.ErrNotFound) {
		return Made{}, refuse(NotFound, "there is no such Run")
	}
	if err != nil {
		return Made{}, err
	}
	if err := r.check(proof, source); err != nil {
		return Made{}, err
	}
	if err := checkQuota(ctx, tx, r.ProjectID, r.Who.user(), source.NowMS); err != nil {
		return Made{}, err
	}
	return r.write(ctx, tx, fence, proof, source)
}

// replay answers with what the mutation made before, or with run.ErrNotFound.
func (r Retry) replay(ctx context.Context, tx pgx.Tx) (Made, error) {
	found, err := run.FindRetry(ctx, tx, r.ProjectID, r.MutationID)
	if err != nil {
		return Made{}, err
	}
	c := found.Created
	if c.UserID != r.Who.user() || c.RetryOf != r.RunID || c.SourceStatus != r.SourceStatus || c.SourceVersion != r.SourceVersion ||
		c.PlanDigest != r.PlanDigest || c.Reason != r.Words {
		refusal := refuse(MutationConflict, "this form was sent before with other content, and made a Run then")
		refusal.Retry = &found.RunID
		return Made{}, refusal
	}
	return Made{RunID: found.RunID, AttemptID: found.AttemptID, AtMS: found.AtMS, Replayed: true}, nil
}

// check compares the source with what the operator saw, and with what the proof was made for.
func (r Retry) check(proof policy.Proof, s run.Source) error {
	if refusal := retryable(s); refusal != nil {
		return refusal.with(s)
	}
	item := mustItem(proof, r.RunID)
	switch {
	case s.Status != r.SourceStatus || s.Version != r.SourceVersion || s.Version != item.Version:
		return refuse(SourceChanged, "the Run is %s (version %d) now; the preview showed %s (version %d)", s.Status, s.Version, r.SourceStatus, r.SourceVersion).with(s)
	case s.ExecutionDigest != r.PlanDigest || s.ExecutionDigest != item.Digest:
		return refuse(PlanChanged, "what would run is not what the preview showed").with(s)
	case !s.TaskEnabled:
		return refuse(TaskDisabled, "the Task has been disabled").with(s)
	case s.NewestRetry != nil && (r.NewestRetry == nil || *r.NewestRetry != *s.NewestRetry):
		refusal := refuse(RetriedMeanwhile, "another retry of this Run has appeared since the preview").with(s)
		refusal.Retry = s.NewestRetry
		return refusal
	}
	return nil
}

// retryable says why a Run cannot be retried whatever an operator saw, or nil.
func retryable(s run.Source) *Refusal {
	if refusal := retryableState(s.Status); refusal != nil {
		return refusal
	}
	switch {
	case s.ParentRunID != nil || s.ExecutionOwner != "runtime":
		return refuse(SourceNotRetryable, "the Run belongs to another, which decides about it")
	case s.Executor != "remote_worker":
		return refuse(SourceNotRetryable, "the newest Attempt was not a worker's")
	case s.ExecutionID == "" || s.ExecutionID != s.SnapshotRef:
		return refuse(SourceNotRetryable, "the execution revision it was pinned to is gone")
	case catalog.Verify(catalog.DomainExecution, s.ExecutionContent, s.ExecutionDigest) != nil:
		return refuse(SourceNotRetryable, "the execution revision it was pinned to does not match its digest")
	}
	return nil
}

func retryableState(s run.Status) *Refusal {
	switch {
	case s == run.Lost:
		return refuse(SourceNotRetryable, "the Run is lost: whether its command still runs is not known, so running it again could run it twice")
	case !s.Terminal():
		return refuse(SourceNotTerminal, "the Run is %s; only one that has ended can be retried", s)
	case s == run.Succeeded:
		return refuse(SourceNotRetryable, "the Run succeeded")
	}
	return nil
}

func (r *Refusal) with(s run.Source) *Refusal {
	r.Source = &s
	return r
}

// write consumes the proof and makes the Run, its Attempt, its Events and the allowed audit row.
func (r Retry) write(ctx context.Context, tx pgx.Tx, f fence, proof policy.Proof, s run.Source) (Made, error) {
	ok, err := policy.ConsumeProof(ctx, tx, proof.ID, r.MutationID)
	if err != nil {
		return Made{}, err
	}
	if !ok {
		return Made{}, proofRefusal(policy.ProofExpired)
	}
	auditID := run.NewID(s.NowMS)
	retry, err := run.InsertRetry(ctx, tx, run.RetryCreated{
		MutationID: r.MutationID, RetryOf: r.RunID, UserID: r.Who.user(), SourceStatus: s.Status, SourceVersion: s.Version, AuthenticationID: proof.ID,
		AuditEventID: auditID, ProjectVersion: f.projectVersion, BindingVersion: f.bindingVersion, Role: string(f.role),
		PlanDigest: s.ExecutionDigest, SourceDigest: sourceDigest(s), Reason: r.Words,
	}, r.Who.Actor.RequestID, s.NowMS)
	if err != nil {
		return Made{}, err
	}
	event := allowed(policy.RetryRun, r.target(), f, proof)
	event.ID = auditID
	event.Detail = map[string]any{"new_run_id": retry.RunID, "plan_digest": s.ExecutionDigest, "source_status": s.Status}
	if err := policy.WriteAudit(ctx, tx, event); err != nil {
		return Made{}, err
	}
	return Made{RunID: retry.RunID, AttemptID: retry.AttemptID, AtMS: retry.AtMS}, nil
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

// checkQuota refuses the retry that would be one too many in the window, and says when a place is free.
func checkQuota(ctx context.Context, q pg.Querier, project string, user uuid.UUID, nowMS int64) error {
	n, oldestMS, err := run.RetriesSince(ctx, q, project, user, nowMS-QuotaWindow.Milliseconds())
	if err != nil || n < Quota {
		return err
	}
	refusal := refuse(RateLimited, "you have made %d retries in this Project within a minute, as many as are allowed", n)
	refusal.RetryAfter = time.Duration(oldestMS+QuotaWindow.Milliseconds()-nowMS) * time.Millisecond
	return refusal
}
