package scheduler

import (
	"context"
	"fmt"
)

// Cycle is one pass of one replica: claim, decide and commit, in batches, until nothing is due or the budget is used.
// It reports how many claims it took. After ctx has ended it takes no further claims; those in hand it finishes.
func (s *Scheduler) Cycle(ctx context.Context) (claims int, err error) {
	for claims < s.Settings.Budget && ctx.Err() == nil {
		want := min(batchLimit, s.Settings.Budget-claims)
		batch, err := s.claimBatch(ctx, want)
		if err != nil {
			return claims, err
		}
		claims += len(batch)
		if err := s.commitBatch(ctx, s.decideBatch(ctx, batch)); err != nil {
			return claims, err
		}
		if len(batch) < want {
			break
		}
	}
	return claims, nil
}

func (s *Scheduler) claimBatch(ctx context.Context, limit int) ([]Claim, error) {
	ctx, cancel := s.operation(ctx)
	defer cancel()
	batch, err := claim(ctx, s.Pool, s.Replica, s.Settings.Lease, limit)
	for _, c := range batch {
		s.Metrics.claimed(c)
		s.Hints.Changed()
	}
	return batch, err
}

// decideBatch keeps the claims that can be decided and blocks the others.
func (s *Scheduler) decideBatch(ctx context.Context, batch []Claim) []work {
	list := make([]work, 0, len(batch))
	for _, c := range batch {
		d, err := decide(c, s.Settings.Grace)
		if err != nil {
			s.block(ctx, c, err)
			continue
		}
		list = append(list, work{claim: c, decision: d})
	}
	return list
}

func (s *Scheduler) block(ctx context.Context, c Claim, reason error) {
	ctx, cancel := s.operation(ctx)
	defer cancel()
	s.Metrics.settled(Result{Outcome: Failed})
	s.Log.WarnContext(ctx, "schedule blocked", "project", c.ProjectID, "trigger", c.TriggerID, "reason", reason)
	if err := block(ctx, s.Pool, c, reason.Error()); err != nil {
		s.Log.ErrorContext(ctx, "blocked schedule not recorded", "project", c.ProjectID, "trigger", c.TriggerID, "err", err)
	}
	s.Hints.Changed()
}

// commitBatch commits what was decided. Its error is why some of it could not be, which makes the cycle a failed one.
func (s *Scheduler) commitBatch(ctx context.Context, list []work) error {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := s.operation(ctx)
	defer cancel()
	results := commit(ctx, s.Pool, list)
	s.Hints.Changed()
	for i, r := range results {
		s.Metrics.settled(r)
		if r.Outcome == Raced {
			c := list[i].claim
			s.Log.InfoContext(ctx, "claim raced", "project", c.ProjectID, "trigger", c.TriggerID, "part", r.Reason)
		}
	}
	return s.recordFailed(ctx, list, results)
}

// recordFailed leaves what failed in the account, if the database can be written to, and returns why it did, once for
// the whole batch. The claims are left to their leases.
func (s *Scheduler) recordFailed(ctx context.Context, list []work, results []Result) error {
	var events []event
	var cause error
	reason := "a decision was not committed; its claim is left to the lease"
	for i, r := range results {
		if r.Outcome == Failed {
			cause = r.Err
			cursor := list[i].claim.CursorMS
			events = append(events, event{claim: list[i].claim, kind: "failed", first: cursor, last: cursor, reason: &reason})
		}
	}
	if cause == nil {
		return nil
	}
	ctx, cancel := s.operation(ctx)
	defer cancel()
	if err := insertEvents(ctx, s.Pool, events); err != nil {
		s.Log.WarnContext(ctx, "failed decisions not recorded", "err", err)
	}
	return fmt.Errorf("%d decisions not committed: %w", len(events), cause)
}

// operation bounds one piece of database work, and lets it end after the process was asked to stop.
func (s *Scheduler) operation(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Settings.Deadline)
}
