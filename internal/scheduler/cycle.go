package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Cycle is one pass of one replica: claim, decide and commit, in batches, until nothing is due or the budget is used.
// Under a backlog two batches are worked on at a time, so that one goes on while the other waits for the disk. It reports
// how many claims it took. After ctx has ended, or something has failed, it takes no further claims; those in hand it
// finishes.
func (s *Scheduler) Cycle(ctx context.Context) (claims int, err error) {
	p := &pass{left: s.Settings.Budget, size: s.size}
	var lanes sync.WaitGroup
	second := sync.OnceFunc(func() { lanes.Go(func() { s.work(ctx, p, func() {}) }) })
	lanes.Go(func() { s.work(ctx, p, second) })
	lanes.Wait()
	s.size = p.size
	if p.over {
		s.size = firstBatch
	}
	return p.claims, p.err
}

// work takes batch after batch, and calls backlog when one was full.
func (s *Scheduler) work(ctx context.Context, p *pass, backlog func()) {
	for want := p.reserve(ctx); want > 0; want = p.reserve(ctx) {
		claims, err := s.claimBatch(ctx, want)
		full := p.claimed(want, len(claims), err)
		if full {
			backlog()
		}
		disturbed, err := s.commitBatch(ctx, s.decideBatch(ctx, claims))
		p.committed(full, disturbed, err)
	}
}

// A pass is what is common to the batches of one cycle.
type pass struct {
	mu     sync.Mutex
	left   int // of the budget
	size   int // of the next batch
	claims int
	over   bool // there was less to claim than was looked for
	err    error
}

// reserve is how many to claim next, 0 for none.
func (p *pass) reserve(ctx context.Context) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.err != nil || ctx.Err() != nil {
		return 0
	}
	want := min(p.size, p.left)
	p.left -= want
	return want
}

// claimed reports whether there may be more to claim, n of want having been.
func (p *pass) claimed(want, n int, err error) (full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims += n
	p.over = p.over || n < want
	p.err = errors.Join(p.err, err)
	return n == want
}

func (p *pass) committed(full, disturbed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = nextSize(p.size, full, disturbed)
	p.err = errors.Join(p.err, err)
}

// nextSize is how many Schedules to take at once after a batch: twice as many while there is a backlog, half as many if
// others were in the way of its transaction, and as few as at first when the backlog is over.
func nextSize(size int, full, disturbed bool) int {
	switch {
	case disturbed:
		return max(size/2, firstBatch)
	case full:
		return min(size*2, batchLimit)
	}
	return firstBatch
}

func (s *Scheduler) claimBatch(ctx context.Context, limit int) ([]Claim, error) {
	ctx, cancel := s.operation(ctx)
	defer cancel()
	claims, err := claim(ctx, s.Pool, s.Replica, s.Settings.Lease, limit)
	for _, c := range claims {
		s.Metrics.claimed(c)
		s.Hints.Changed()
	}
	return claims, err
}

// decideBatch keeps the claims that can be decided and blocks the others.
func (s *Scheduler) decideBatch(ctx context.Context, claims []Claim) []work {
	list := make([]work, 0, len(claims))
	for _, c := range claims {
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

// commitBatch commits what was decided, and reports whether others were in the way. Its error is why some of it could not
// be, which makes the cycle a failed one.
func (s *Scheduler) commitBatch(ctx context.Context, list []work) (disturbed bool, err error) {
	if len(list) == 0 {
		return false, nil
	}
	ctx, cancel := s.operation(ctx)
	defer cancel()
	results := commit(ctx, s.Pool, list)
	s.Hints.Changed()
	for i, r := range results {
		s.Metrics.settled(r)
		disturbed = disturbed || r.Disturbed
		if r.Outcome == Raced {
			c := list[i].claim
			s.Log.InfoContext(ctx, "claim raced", "project", c.ProjectID, "trigger", c.TriggerID, "part", r.Reason)
		}
	}
	return disturbed, s.recordFailed(ctx, list, results)
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
