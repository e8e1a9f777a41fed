package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// settleTimeout bounds the questions after a COMMIT without an answer. It begins anew: the old deadline may be spent.
const settleTimeout = 10 * time.Second

// errStillHeld reports that the claim is as it was: the transaction whose answer was lost did not commit, and no longer can.
var errStillHeld = errors.New("the claim is still held")

// settle finds out what a transaction did whose COMMIT got no answer, claim by claim. A claim that is still held is
// committed again through the fence, once; whatever cannot be settled is left to its lease and its idempotency key.
func settle(ctx context.Context, pool *pgxpool.Pool, list []work, cause error) []Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	results := make([]Result, len(list))
	for i, w := range list {
		results[i] = settleOne(ctx, pool, w, cause)
	}
	return results
}

func settleOne(ctx context.Context, pool *pgxpool.Pool, w work, cause error) Result {
	r, err := reread(ctx, pool, w)
	if errors.Is(err, errStillHeld) {
		again, err := commitOnce(ctx, pool, []work{w})
		if err == nil {
			return again[0]
		}
		return Result{Outcome: Failed, Err: err}
	}
	if err != nil {
		return Result{Outcome: Failed, Err: fmt.Errorf("%w; not settled: %w", cause, err)}
	}
	return r
}

// reread takes the row lock that the lost transaction held, which waits for it to end, and only then reads what is
// there. A plain read could come before a COMMIT that is still on its way.
func reread(ctx context.Context, pool *pgxpool.Pool, w work) (r Result, err error) {
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		var held bool
		err := tx.QueryRow(ctx, `
			SELECT claim_token IS NOT DISTINCT FROM $3 AND claim_version = $4 FROM trigger_schedules
			WHERE project_id = $1 AND trigger_id = $2 FOR UPDATE`,
			w.claim.ProjectID, w.claim.TriggerID, w.claim.Token, w.claim.Version).Scan(&held)
		if err != nil {
			return err
		}
		if held {
			return errStillHeld
		}
		r, err = outcomeOnRecord(ctx, tx, w)
		return err
	})
	return r, err
}

// outcomeOnRecord reads the outcome of w from the Run and from the account.
func outcomeOnRecord(ctx context.Context, q pg.Querier, w work) (Result, error) {
	if w.decision.Kind != Admit {
		return cursorOnRecord(ctx, q, w)
	}
	var id uuid.UUID
	var createdMS int64
	err := q.QueryRow(ctx, `SELECT id, created_at_ms FROM runs WHERE project_id = $1 AND idempotency_key = $2`,
		w.claim.ProjectID, occurrence(w).Key()).Scan(&id, &createdMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return Result{Outcome: Raced, Reason: "settled: the claim is gone and there is no run"}, nil
	}
	return Result{Outcome: Admitted, RunID: id, LatenessMS: createdMS - w.decision.DueMS}, err
}

// cursorOnRecord tells whether w, which admits nothing, is what moved the cursor.
func cursorOnRecord(ctx context.Context, q pg.Querier, w work) (Result, error) {
	var moved bool
	err := q.QueryRow(ctx, `SELECT next_fire_at_ms IS NOT DISTINCT FROM $3 AND state_version = $4 FROM trigger_schedules
		WHERE project_id = $1 AND trigger_id = $2`, w.claim.ProjectID, w.claim.TriggerID, w.decision.NextMS, w.claim.StateVersion+1).Scan(&moved)
	switch {
	case err != nil || !moved:
		return Result{Outcome: Raced, Reason: "settled: the claim is gone"}, err
	case w.decision.Kind == Skip:
		return Result{Outcome: Skipped, Passed: w.decision.Passed.Count}, nil
	}
	return Result{Outcome: Initialized}, nil
}
