package runmgmt

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// BatchPreview is what a batch would do, judged Run by Run by the same checks as its submission and writing nothing.
type BatchPreview struct {
	Batch  Batch
	Level  string // how strong the proof is
	LeftMS int64  // how long the proof is still good, by the database clock
	NowMS  int64
	Runs   []BatchRun // every Run of it, in order
	Quota  int        // retries left in this window; of a stop, as many as the batch has Runs
	Limit  *Refusal   // why there is no room for all that could be chosen now, and when there is; nil if there is room
}

// BatchRun is one Run of a batch.
type BatchRun struct {
	Source   run.Source
	Verdicts []Verdict            // every check, in order
	Later    *LaterRun            // the newest Run of its Task since; nil if there is none
	Note     catalog.RetryContent // of a retry
	Plan     Plan                 // of a retry that can be made
}

// Refusal is the first check that failed, or nil.
func (r BatchRun) Refusal() *Refusal {
	for _, v := range r.Verdicts {
		if v.Refusal != nil {
			return v.Refusal
		}
	}
	return nil
}

// Good are the Runs that a submission now would not refuse.
func (p BatchPreview) Good() (good []BatchRun) {
	for _, r := range p.Runs {
		if r.Refusal() == nil {
			good = append(good, r)
		}
	}
	return good
}

// Ready reports whether a submission of all of it now would pass every check.
func (p BatchPreview) Ready() bool { return len(p.Good()) == len(p.Runs) && p.Limit == nil }

// Unsafe are the Runs whose Task's author says that running it again is not safe.
func (p BatchPreview) Unsafe() []BatchRun {
	return slices.DeleteFunc(slices.Clone(p.Runs), func(r BatchRun) bool { return !r.Note.Unsafe() })
}

// Duplicates are the Runs that have others of the same Task in the batch, Task by Task: it would be executed as many times.
func (p BatchPreview) Duplicates() (groups [][]BatchRun) {
	index, first := map[string]int{}, map[string]BatchRun{}
	for _, r := range p.Runs {
		task := r.Source.TaskID
		at, grouped := index[task]
		other, seen := first[task]
		switch {
		case grouped:
			groups[at] = append(groups[at], r)
		case seen:
			index[task] = len(groups)
			groups = append(groups, []BatchRun{other, r})
		default:
			first[task] = r
		}
	}
	return groups
}

// PreviewBatch shows what the batch would do, to whoever holds a good proof for it. It writes nothing but the audit of its
// first showing. A proof that is not good is a [*Refusal], audited like every refusal.
func (m *Manager) PreviewBatch(ctx context.Context, who Who, id uuid.UUID) (BatchPreview, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var p BatchPreview
	var proof policy.Proof
	err := pg.ReadTx(ctx, m.Pool, func(tx pgx.Tx) (err error) {
		proof, err = p.read(ctx, tx, who, id)
		return err
	})
	t := target{who: who, project: p.Batch.ProjectID, mutation: id, batch: id, words: p.Batch.Words}
	if err == nil {
		e := allowed(p.Batch.Action, t, fence{}, proof)
		e.Action += "_preview"
		e.Detail["runs"], e.Detail["ready"] = len(p.Runs), p.Ready()
		err = m.auditFirst(ctx, proof.ID, e)
	}
	if err != nil {
		return BatchPreview{}, m.refused(ctx, p.Batch.action(), t, err)
	}
	return p, nil
}

func (p *BatchPreview) read(ctx context.Context, tx pgx.Tx, who Who, id uuid.UUID) (proof policy.Proof, err error) {
	p.Batch, err = readBatch(ctx, tx, batchSQL, id)
	if errors.Is(err, run.ErrNotFound) || err == nil && p.Batch.UserID != who.user() {
		return proof, refuse(NotFound, text.Of("There is no such batch of yours."))
	}
	if err != nil {
		return proof, err
	}
	if proof, err = checkProof(ctx, tx, who, who.claim(p.Batch.Action, p.Batch.ProjectID, id)); err != nil {
		return proof, err
	}
	p.Level, p.NowMS, p.LeftMS = proof.Assurance.Level, proof.NowMS, proof.ExpiresAtMS-proof.NowMS
	if err := p.readRuns(ctx, tx); err != nil {
		return proof, err
	}
	return proof, p.readQuota(ctx, tx, who.user())
}

func (p *BatchPreview) readRuns(ctx context.Context, tx pgx.Tx) error {
	x := mutation{items: p.Batch.items}
	sources, err := run.ReadSources(ctx, tx, p.Batch.ProjectID, x.runs())
	if err != nil {
		return err
	}
	notes, later := notesOf{}, latest{}
	for i, verified := range p.Batch.verified() {
		r := BatchRun{Source: sources[verified.Run]}
		if r.Later, err = later.after(ctx, tx, r.Source); err != nil {
			return err
		}
		if p.Batch.Action == policy.StopRun {
			r.Verdicts = stopVerdicts(p.Batch.items[i], verified, r.Source)
		} else if err := r.readRetry(ctx, tx, verified, notes); err != nil {
			return err
		}
		p.Runs = append(p.Runs, r)
	}
	return nil
}

func (r *BatchRun) readRetry(ctx context.Context, tx pgx.Tx, verified policy.Item, notes notesOf) (err error) {
	r.Verdicts = retryVerdicts(r.Source, verified)
	if r.Note, err = notes.read(ctx, tx, r.Source); err != nil || neverRetried(r.Source) != nil {
		return err
	}
	r.Plan, err = planOf(r.Source)
	return err
}

func stopVerdicts(i item, verified policy.Item, s run.Source) []Verdict {
	return []Verdict{
		{text.Of("The Run can be asked to stop."), neverStopped(s)},
		{text.Of("What runs is as it was when you verified."), changedForStop(i, verified, s)},
	}
}

func (p *BatchPreview) readQuota(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
	p.Quota = len(p.Runs)
	if !deeds[p.Batch.Action].quota {
		return nil
	}
	made, err := run.RetriesSince(ctx, tx, p.Batch.ProjectID, user, p.NowMS-QuotaWindow.Milliseconds())
	p.Quota = max(0, Quota-len(made))
	p.Limit = limited(made, p.NowMS, len(p.Good()))
	return err
}

// latest are the newest Runs of Tasks that were read already.
type latest map[string]run.Summary

// after is the newest Run of s's Task, if it came after s.
func (l latest) after(ctx context.Context, q pg.Querier, s run.Source) (*LaterRun, error) {
	newest, ok := l[s.TaskID]
	if !ok {
		page, err := run.List(ctx, q, run.Filter{Projects: []string{s.ProjectID}, TaskID: s.TaskID}, nil, 1)
		if err != nil {
			return nil, err
		}
		newest = page.Runs[0] // at least s
		l[s.TaskID] = newest
	}
	if newest.ID == s.ID {
		return nil, nil
	}
	return &LaterRun{ID: newest.ID, Status: newest.Status, RetryOf: newest.RetryOf, CreatedAtMS: newest.CreatedAtMS}, nil
}
