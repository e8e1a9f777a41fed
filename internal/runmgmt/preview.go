package runmgmt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// Preview is what a retry would be, judged by the same checks as the retry itself and writing nothing. It alone shows
// what a Task executes, and only with a proof.
type Preview struct {
	Source   run.Source
	Words    string // the reason given before the step-up
	Level    string // how strong the proof is
	LeftMS   int64  // how long the proof is still good, by the database clock
	NowMS    int64
	Verdicts []Verdict // every check, in order
	Since    Since
	Plan     Plan
	Changed  []catalog.Detail // of the Task since the pinned revision
	Quota    int              // retries left in this window
	Note     catalog.RetryContent
}

// Ready reports whether a submission now would pass every check.
func (p Preview) Ready() bool {
	return !slices.ContainsFunc(p.Verdicts, func(v Verdict) bool { return v.Refusal != nil })
}

// Verdict is one check and, if it failed, why.
type Verdict struct {
	Check   text.Text
	Refusal *Refusal
}

// Since is what has happened since the source was created.
type Since struct {
	Later     []LaterRun   // newer Runs of the Task, the newest first
	Family    []run.Member // every retry of the source, its own source included
	Verifying []string     // who else holds a proof for this Run right now
}

// LaterRun is a Run of the same Task, newer than the source.
type LaterRun struct {
	ID          uuid.UUID
	Status      run.Status
	RetryOf     *uuid.UUID
	CreatedAtMS int64
}

// Plan is what would run: the pinned execution, without the values of the environment.
type Plan struct {
	Command          []string
	EnvNames         []string // variables with a literal value
	Secrets          []Secret // variables with a reference
	WorkingDirectory string
	Timeout          time.Duration
	Requires         []string
	ExecutionID      string
	ExecutionDigest  string
}

// Secret is an environment variable whose value is a reference.
type Secret struct{ Name, Reference string }

const laterRuns = 5

// Preview shows what retrying the Run would do, to whoever holds a good proof for it. It writes nothing but the audit of
// its first showing. A proof that is not good is a [*Refusal], audited like every refusal.
func (m *Manager) Preview(ctx context.Context, who Who, project string, id uuid.UUID) (Preview, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	t := target{who: who, project: project, run: id}
	var p Preview
	var proof policy.Proof
	err := pg.ReadTx(ctx, m.Pool, func(tx pgx.Tx) (err error) {
		p, proof, err = preview(ctx, tx, who, project, id)
		return err
	})
	if err != nil {
		return Preview{}, m.refused(ctx, policy.RetryRun, t, err)
	}
	if err := m.auditPreview(ctx, t, proof, p); err != nil {
		return Preview{}, m.refused(ctx, policy.RetryRun, t, err)
	}
	return p, nil
}

func preview(ctx context.Context, tx pgx.Tx, who Who, project string, id uuid.UUID) (p Preview, proof policy.Proof, err error) {
	if proof, err = checkProof(ctx, tx, who, who.claim(policy.RetryRun, project, id)); err != nil {
		return p, proof, err
	}
	p.Source, err = run.ReadSource(ctx, tx, project, id)
	if errors.Is(err, run.ErrNotFound) {
		return p, proof, refuse(NotFound, text.Of("There is no such Run."))
	}
	if err != nil {
		return p, proof, err
	}
	p.Words, p.Level, p.NowMS, p.LeftMS = proof.Words, proof.Assurance.Level, proof.NowMS, proof.ExpiresAtMS-proof.NowMS
	for _, read := range []func(context.Context, pgx.Tx, Who, policy.Proof) error{p.readVerdicts, p.readSince, p.readPlan} {
		if err := read(ctx, tx, who, proof); err != nil {
			return p, proof, err
		}
	}
	return p, proof, nil
}

// readVerdicts runs the retry's own checks, each by itself, so that all that is wrong is seen at once.
func (p *Preview) readVerdicts(ctx context.Context, tx pgx.Tx, who Who, proof policy.Proof) error {
	s := p.Source
	made, err := run.RetriesSince(ctx, tx, s.ProjectID, who.user(), p.NowMS-QuotaWindow.Milliseconds())
	if err != nil {
		return err
	}
	p.Quota = max(0, Quota-len(made))
	p.Verdicts = append(retryVerdicts(s, proof.Purpose.Items[0]), Verdict{text.Of("There is room in the quota."), limited(made, p.NowMS, 1)})
	return nil
}

// retryVerdicts are the checks of one Run.
func retryVerdicts(s run.Source, verified policy.Item) []Verdict {
	return []Verdict{
		{text.Of("The Run can be retried."), neverRetried(s)},
		{text.Of("It is as it was when you verified."), unless(s.Version == verified.Version, refuse(SourceChanged, text.Of("The Run is %s (version %s) now; it had version %s when you verified.", s.Status.Word(), s.Version, verified.Version)))},
		{text.Of("What would run is as it was when you verified."), unless(s.ExecutionDigest == verified.Digest, refuse(PlanChanged, text.Of("The execution revision is another one now.")))},
		{text.Of("The Task is enabled."), unless(s.TaskEnabled, refuse(TaskDisabled, text.Of("The Task has been disabled.")))},
	}
}

func unless(ok bool, r *Refusal) *Refusal {
	if ok {
		return nil
	}
	return r
}

func (p *Preview) readSince(ctx context.Context, tx pgx.Tx, who Who, _ policy.Proof) (err error) {
	s := p.Source
	later, err := run.List(ctx, tx, run.Filter{Projects: []string{s.ProjectID}, TaskID: s.TaskID, SinceMS: s.CreatedAtMS}, nil, laterRuns)
	if err != nil {
		return err
	}
	for _, r := range later.Runs {
		if r.CreatedAtMS > s.CreatedAtMS || r.ID.String() > s.ID.String() { // later within the same millisecond
			p.Since.Later = append(p.Since.Later, LaterRun{ID: r.ID, Status: r.Status, RetryOf: r.RetryOf, CreatedAtMS: r.CreatedAtMS})
		}
	}
	if p.Since.Family, err = run.Family(ctx, tx, []string{s.ProjectID}, s.ID); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT coalesce(u.name, u.email, u.subject) FROM step_up_proofs p JOIN users u ON u.id = p.user_id
		WHERE p.consumed_at_ms IS NULL AND p.revoked_at_ms IS NULL AND p.expires_at_ms > `+pg.ClockMS+` AND p.project_id = $1
			AND p.user_id <> $2 AND p.created_at_ms > `+pg.ClockMS+` - $4 AND (p.purpose @> jsonb_build_array(jsonb_build_object('run', $3::text)) OR p.batch_id IN (SELECT batch_id FROM run_batch_items WHERE run_id = $3::uuid))`,
		s.ProjectID, who.user(), s.ID.String(), policy.ProofLifetimeMS)
	if err != nil {
		return err
	}
	p.Since.Verifying, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}

func (p *Preview) readPlan(ctx context.Context, tx pgx.Tx, _ Who, _ policy.Proof) (err error) {
	if neverRetried(p.Source) != nil {
		return nil // its verdict says why; there is no plan to show
	}
	if p.Plan, err = planOf(p.Source); err != nil {
		return err
	}
	return p.readTask(ctx, tx)
}

// planOf is what would run, of a source whose execution was verified.
func planOf(s run.Source) (Plan, error) {
	e, err := catalog.ParseExecution(s.ExecutionContent)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Command: e.Command, WorkingDirectory: e.WorkingDirectory, Timeout: e.Timeout(), ExecutionID: s.ExecutionID, ExecutionDigest: s.ExecutionDigest}
	if e.Placement != nil {
		p.Requires = e.Placement.Requires
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		if value := e.Env[name]; catalog.IsReference(value) {
			p.Secrets = append(p.Secrets, Secret{Name: name, Reference: value})
			continue
		}
		p.EnvNames = append(p.EnvNames, name)
	}
	return p, nil
}

// readTask reads the current note, and what has changed in the Task since the pinned revision.
func (p *Preview) readTask(ctx context.Context, tx pgx.Tx) error {
	s := p.Source
	head, err := catalog.ReadTask(ctx, tx, s.ProjectID, s.TaskID, s.TaskHead)
	if err != nil {
		return err
	}
	p.Note = head.Retry
	if s.TaskHead == s.TaskRevision {
		return nil
	}
	pinned, err := catalog.ReadTask(ctx, tx, s.ProjectID, s.TaskID, s.TaskRevision)
	if err != nil {
		return err
	}
	p.Changed, err = catalog.Compare(pinned, head)
	return err
}

// auditPreview records the first showing of a proof.
func (m *Manager) auditPreview(ctx context.Context, t target, proof policy.Proof, p Preview) error {
	e := allowed(policy.RetryRun, t, fence{}, proof)
	e.Action, e.RunVersion, e.Words = "run.retry_preview", p.Source.Version, proof.Words
	e.Detail = map[string]any{"plan_digest": p.Source.ExecutionDigest, "ready": p.Ready()}
	return m.auditFirst(ctx, proof.ID, e)
}

// auditFirst writes e if the proof has not been previewed before.
func (m *Manager) auditFirst(ctx context.Context, proof uuid.UUID, e policy.AuditEvent) error {
	return pg.InTx(ctx, m.Pool, func(tx pgx.Tx) error {
		first, err := policy.FirstPreview(ctx, tx, proof)
		if err != nil || !first {
			return err
		}
		return policy.WriteAudit(ctx, tx, e)
	})
}
