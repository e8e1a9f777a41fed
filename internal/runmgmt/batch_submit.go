package runmgmt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// BatchForm is the submitted form of a batch. What each Run was is frozen in rows; the form says which of them, and nothing else.
type BatchForm struct {
	Who     Who
	BatchID uuid.UUID
	Runs    []Chosen // all of the batch, or those that are left after a refusal
}

// Chosen is one Run of the form.
type Chosen struct {
	Run         uuid.UUID
	NewestRetry *uuid.UUID // the newest retry of it that the preview showed; nil if it showed none
}

// BatchMade is a batch that was submitted.
type BatchMade struct {
	BatchID  uuid.UUID
	Runs     []Made // in the order of the batch
	Replayed bool   // by the same form, before
}

// Submit does what the batch was frozen for to every Run that is chosen, or to none of them. A refusal of [RunsRefused]
// names each Run that was refused; the same proof is good for the others. The same form sent again is answered as before;
// another choice from a batch that was submitted is [MutationConflict].
func (m *Manager) Submit(ctx context.Context, form BatchForm) (BatchMade, error) {
	b, err := m.Frozen(ctx, form.Who, form.BatchID)
	if errors.Is(err, run.ErrNotFound) {
		err = refuse(NotFound, text.Of("There is no such batch of yours."))
	}
	x := mutation{who: form.Who, deed: deeds[b.Action], project: b.ProjectID, batch: form.BatchID, words: b.Words}
	t := x.target(item{mutation: form.BatchID})
	if err == nil {
		x.items, err = b.choose(form.Runs)
	}
	if err != nil {
		return BatchMade{}, m.refused(ctx, b.action(), t, err)
	}
	made := BatchMade{BatchID: b.ID}
	err = m.inOrder(ctx, b.ProjectID, func(ctx context.Context, tx pgx.Tx) (err error) {
		made.Runs, made.Replayed, err = x.commitBatch(ctx, tx)
		return err
	})
	if err != nil {
		return BatchMade{}, m.refused(ctx, b.Action, t, err)
	}
	m.Metrics.done.WithLabelValues(string(b.Action), result(made.Replayed)).Add(float64(len(made.Runs)))
	return made, nil
}

// choose returns the frozen items that the form names, in the batch's order.
func (b Batch) choose(runs []Chosen) (items []item, err error) {
	for _, c := range runs {
		if !slices.ContainsFunc(b.items, func(i item) bool { return i.run == c.Run }) {
			return nil, refuse(Invalid, text.Of("The form names the Run %s, which is not one of those that were frozen.", c.Run))
		}
	}
	for _, i := range b.items {
		at := slices.IndexFunc(runs, func(c Chosen) bool { return c.Run == i.run })
		if at >= 0 {
			i.newest = runs[at].NewestRetry
			items = append(items, i)
		}
	}
	if len(items) == 0 {
		return nil, refuse(Invalid, text.Of("No Run is selected."))
	}
	return items, nil
}

// commitBatch is the transaction of a batch, in the order of that of one Run: policy fence, replay, proof, Runs, quota;
// then everything is written and the batch is marked.
func (x mutation) commitBatch(ctx context.Context, tx pgx.Tx) (made []Made, replayed bool, err error) {
	f, err := takeFence(ctx, tx, x.project, x.who.user(), x.deed.action)
	if err != nil {
		return nil, false, err
	}
	b, err := readBatch(ctx, tx, batchSQL+" FOR UPDATE", x.batch)
	if err != nil {
		return nil, false, err
	}
	if b.SubmittedAtMS != nil {
		made, err := x.replay(ctx, tx, b)
		return made, true, err
	}
	proof, err := checkProof(ctx, tx, x.who, x.claim())
	if err != nil {
		return nil, false, err
	}
	made, err = x.carryOut(ctx, tx, grant{fence: f, proof: proof}, b.verified(), b.ID)
	if err != nil {
		return nil, false, err
	}
	tag, err := tx.Exec(ctx, `UPDATE run_batches SET submitted_at_ms = $2, proof_id = $3 WHERE id = $1 AND submitted_at_ms IS NULL`, b.ID, made[0].AtMS, proof.ID)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("the batch %s was not marked", b.ID)
	}
	return made, false, err
}

// replay answers with what the batch made before, if the same Runs are chosen now.
func (x mutation) replay(ctx context.Context, q pg.Querier, b Batch) (made []Made, err error) {
	for _, i := range b.items {
		was, err := x.deed.find(ctx, q, x, i)
		done := err == nil
		if err != nil && !errors.Is(err, run.ErrNotFound) {
			return nil, err
		}
		if chosen := slices.ContainsFunc(x.items, func(c item) bool { return c.run == i.run }); chosen != done {
			return nil, refuse(MutationConflict, text.Of("This batch was submitted before, with other Runs chosen from it; select the rest anew."))
		}
		if done {
			made = append(made, was)
		}
	}
	return made, nil
}
