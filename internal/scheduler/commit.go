package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
)

// work is one claim and what was decided of it.
type work struct {
	claim    Claim
	decision Decision
}

// Result is what became of one claim.
type Result struct {
	Outcome    Outcome
	RunID      uuid.UUID // set if this commit admitted a Run
	LatenessMS int64     // of the admitted Run: created_at_ms − scheduled_for_ms
	Reason     string    // of Raced: the part of the fence that was broken
	Err        error     // of Failed
	Passed     int
	Disturbed  bool // its transaction was rolled back because of others, and then repeated
}

// Outcome names what became of a claim.
type Outcome string

// The outcomes. Already is an occurrence that had its Run before: the cursor advances and nothing else is written.
const (
	Admitted    Outcome = "admitted"
	Already     Outcome = "already_admitted"
	Skipped     Outcome = "skipped"
	Initialized Outcome = "initialized"
	Raced       Outcome = "raced"
	Failed      Outcome = "failed"
)

// commit carries out the decisions in as few transactions as the server allows: one for all, and if that one is
// rolled back because of others, or one of them is refused, one for each half. A single claim is repeated until ctx's
// deadline.
func commit(ctx context.Context, pool *pgxpool.Pool, list []work) []Result {
	disturbed := false
	results, err := commitOnce(ctx, pool, list)
	for try := 0; pg.RolledBack(err) && len(list) == 1; try++ {
		disturbed = true
		if waitErr := pg.Pause(ctx, try); waitErr != nil {
			break
		}
		results, err = commitOnce(ctx, pool, list)
	}
	switch {
	case errors.Is(err, pg.ErrOutcomeUnknown):
		results = settle(ctx, pool, list, err)
	case (pg.RolledBack(err) || pg.Refused(err)) && len(list) > 1:
		disturbed = pg.RolledBack(err)
		half := len(list) / 2
		results = append(commit(ctx, pool, list[:half]), commit(ctx, pool, list[half:])...)
	case err != nil:
		results = failed(list, err)
	}
	for i := range results {
		results[i].Disturbed = results[i].Disturbed || disturbed
	}
	return results
}

func failed(list []work, err error) []Result {
	results := make([]Result, len(list))
	for i := range list {
		results[i] = Result{Outcome: Failed, Err: err}
	}
	return results
}

// commitOnce is one SERIALIZABLE transaction over list: lock, compare, write. A claim whose fence is broken drops out.
func commitOnce(ctx context.Context, pool *pgxpool.Pool, list []work) (results []Result, err error) {
	err = pg.TryTx(ctx, pool, func(tx pgx.Tx) error {
		now, err := lock(ctx, tx, list)
		if err != nil {
			return err
		}
		results = make([]Result, len(list))
		for i, w := range list {
			results[i] = outcome(w, now[i])
		}
		return write(ctx, tx, list, now, results)
	})
	return results, err
}

// outcome is what will have become of w if the transaction commits; the ids of Runs come later.
func outcome(w work, now *fence) Result {
	if reason := broken(w, now); reason != "" {
		return Result{Outcome: Raced, Reason: reason}
	}
	switch w.decision.Kind {
	case Admit:
		return Result{Outcome: Admitted, LatenessMS: now.nowMS - w.decision.DueMS, Passed: w.decision.Passed.Count}
	case Skip:
		return Result{Outcome: Skipped, Passed: w.decision.Passed.Count}
	default:
		return Result{Outcome: Initialized}
	}
}

// write admits last: the checks that an Attempt and an Event have their Run read the index page to which every other
// admission adds, and the less comes after, the fewer others add to it before the COMMIT.
func write(ctx context.Context, tx pgx.Tx, list []work, now []*fence, results []Result) error {
	if err := advance(ctx, tx, list, now, results); err != nil {
		return err
	}
	if err := record(ctx, tx, list, now, results); err != nil {
		return err
	}
	return admit(ctx, tx, list, now, results)
}

// admit inserts the Runs of the admitted and fills in their ids.
func admit(ctx context.Context, tx pgx.Tx, list []work, now []*fence, results []Result) error {
	var admissions []run.Admission
	var index []int
	for i, w := range list {
		if results[i].Outcome == Admitted {
			admissions = append(admissions, admission(w, now[i].nowMS))
			index = append(index, i)
		}
	}
	if len(admissions) == 0 {
		return nil
	}
	ids, err := run.Admit(ctx, tx, admissions)
	if err != nil {
		return err
	}
	for k, id := range ids {
		results[index[k]].RunID = id
		if id == uuid.Nil {
			results[index[k]].Outcome = Already
		}
	}
	return nil
}

// created is the payload of run.created: what the admission was decided from.
type created struct {
	TriggerID       string `json:"trigger_id"`
	TriggerRevision int64  `json:"trigger_revision"`
	ScheduledForMS  int64  `json:"scheduled_for_ms"`
	ObservedMS      int64  `json:"observed_at_ms"`
	ClaimVersion    int64  `json:"claim_version"`
	ExecutionDigest string `json:"execution_digest"`
	CatchUp         bool   `json:"catch_up,omitempty"` // it stands for what a pause missed
}

func admission(w work, nowMS int64) run.Admission {
	c := w.claim
	return run.Admission{
		ProjectID: c.ProjectID, TaskID: c.TaskID, TaskRevision: c.TaskRevision, TaskName: c.TaskName, TaskSnapshotRef: c.ExecutionID,
		Occurrence: occurrence(w), Actor: c.Owner, AtMS: nowMS,
		Created: created{TriggerID: c.TriggerID, TriggerRevision: c.TriggerRevision, ScheduledForMS: w.decision.DueMS,
			ObservedMS: w.decision.ObservedMS, ClaimVersion: c.Version, ExecutionDigest: c.ExecutionDigest, CatchUp: c.CatchUp},
	}
}

func occurrence(w work) run.Occurrence {
	return run.Occurrence{TriggerID: w.claim.TriggerID, TriggerRevision: w.claim.TriggerRevision,
		TriggerDigest: w.claim.TriggerDigest, ScheduledForMS: w.decision.DueMS}
}

// advanceSQL moves the cursors and gives the claims back. The rows are where lock has written them.
const advanceSQL = `
UPDATE trigger_schedules s SET next_fire_at_ms = n.next, last_scheduled_at_ms = coalesce(n.scheduled, s.last_scheduled_at_ms),
    state_version = s.state_version + 1, claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL,
    catch_up = false, blocked_reason = NULL, updated_at_ms = n.at
FROM unnest($1::tid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[]) AS n(tid, token, next, scheduled, at)
WHERE s.ctid = n.tid AND s.claim_token = n.token`

func advance(ctx context.Context, tx pgx.Tx, list []work, now []*fence, results []Result) error {
	var tids []pgtype.TID
	var tokens []uuid.UUID
	var next, at []int64
	var scheduled []*int64
	for i, w := range list {
		if results[i].Outcome == Raced {
			continue
		}
		tids, tokens = append(tids, now[i].tid), append(tokens, w.claim.Token)
		next, at = append(next, w.decision.NextMS), append(at, now[i].nowMS)
		scheduled = append(scheduled, scheduledFor(w, results[i]))
	}
	if len(tids) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, advanceSQL, tids, tokens, next, scheduled, at)
	if err != nil {
		return fmt.Errorf("advance: %w", err)
	}
	if tag.RowsAffected() != int64(len(tids)) {
		return fmt.Errorf("advance: %d of %d locked rows changed", tag.RowsAffected(), len(tids))
	}
	return nil
}

// scheduledFor is the occurrence that will have a Run, nil if none will.
func scheduledFor(w work, r Result) *int64 {
	if r.Outcome == Admitted {
		return &w.decision.DueMS
	}
	return nil
}
