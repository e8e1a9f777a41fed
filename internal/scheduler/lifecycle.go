package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"

	"github.com/qinglong/console/internal/pg"
)

// Run works until ctx ends, then finishes the cycle in flight, for which it waits at most the drain timeout. Cycles
// never overlap; an error goes to the log and the metrics and never ends the loop.
func (s *Scheduler) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.loop(ctx)
	}()
	<-ctx.Done()
	select {
	case <-done:
		return nil
	case <-time.After(s.Settings.Drain):
		return fmt.Errorf("the scheduler's cycle did not end within %v; its claims are left to their leases", s.Settings.Drain)
	}
}

func (s *Scheduler) loop(ctx context.Context) {
	var missed int // cycles in a row that claimed nothing although something was due
	var beaten time.Time
	for ctx.Err() == nil {
		claims, err := s.Cycle(ctx)
		s.ended(ctx, err)
		full := err == nil && claims >= s.Settings.Budget
		if full && time.Since(beaten) < s.Settings.Cadence {
			continue // a backlog: look again at once
		}
		p, err := s.rest(ctx)
		beaten = time.Now()
		if err != nil {
			s.sleep(ctx, s.Settings.Cadence)
			continue
		}
		if full {
			continue
		}
		missed++
		if claims > 0 || !p.due() {
			missed = 0
		}
		s.sleep(ctx, pauseUntil(p, s.Settings.Cadence, missed))
	}
}

func (s *Scheduler) ended(ctx context.Context, err error) {
	s.Metrics.cycle(err)
	if err == nil {
		s.lastCycle.Store(time.Now())
		return
	}
	s.Log.ErrorContext(ctx, "cycle failed", "err", err)
	s.suspect(err)
}

// rest records that this replica is alive and reads what there is to wait for.
func (s *Scheduler) rest(ctx context.Context) (pulse, error) {
	ctx, cancel := s.operation(ctx)
	defer cancel()
	p, err := beat(ctx, s.Pool, s.Replica, s.Version, s.Schema.Version)
	if err != nil {
		s.Log.ErrorContext(ctx, "heartbeat failed", "err", err)
		s.suspect(err)
		return p, err
	}
	if err := s.Schema.Takes(p.Floor); err != nil {
		s.lost(err)
		return p, err
	}
	s.Metrics.observe(p)
	s.prune(ctx)
	return p, nil
}

// prune deletes, once in a while and a bounded number at a time, what the account keeps no longer.
func (s *Scheduler) prune(ctx context.Context) {
	if time.Since(s.pruned) < pruneEvery {
		return
	}
	s.pruned = time.Now()
	if _, err := s.Pool.Exec(ctx, `SELECT prune($1)`, pruneMost); err != nil {
		s.Log.WarnContext(ctx, "account not pruned", "err", err)
	}
}

// pauseUntil is the earlier of the cadence and the next cursor. A cursor that is due already became so after the
// cycle, or belongs to a row that another replica is just claiming: look again soon, but less and less soon.
func pauseUntil(p pulse, cadence time.Duration, missed int) time.Duration {
	switch {
	case p.NextMS == nil:
		return cadence
	case p.due():
		return min(cadence, time.Millisecond<<min(missed, 10))
	}
	return min(cadence, time.Duration(*p.NextMS-p.NowMS)*time.Millisecond)
}

// suspect tells the owner of the process that the database may be lost, or that a privilege is, or a part of the schema:
// the gates say which.
func (s *Scheduler) suspect(err error) {
	if pg.Unavailable(err) || pg.HasCode(err, pgerrcode.InsufficientPrivilege, pgerrcode.UndefinedTable, pgerrcode.UndefinedColumn, pgerrcode.UndefinedFunction) {
		s.lost(err)
	}
}

func (s *Scheduler) lost(err error) {
	if s.Lost != nil {
		s.Lost(err)
	}
}

func (s *Scheduler) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wake:
	case <-ctx.Done():
	}
}

// pulse is what a replica sees of the whole when it has nothing to do.
type pulse struct {
	NowMS       int64  // the database clock
	SkewMS      int64  // this replica's clock minus the database's, halfway through the question
	NextMS      *int64 // the earliest cursor that nobody holds a claim on, nil if none; before 0 if it is not set yet
	Backlog     int64  // Schedules due now and not blocked, up to backlogSeen
	OldestDueMS *int64 // the earliest cursor among them
	Blocked     int64  // Schedules that cannot be decided; they are due for ever and would hide everything else
	Floor       int64  // the oldest schema whose console still works; it rises under a replica that runs
}

// due reports whether a Schedule that nobody holds is due.
func (p pulse) due() bool { return p.NextMS != nil && *p.NextMS <= p.NowMS }

// beatSQL also notices that nobody was there before: if the newest tick of all replicas is old, the time since is
// recorded as a spell without any, once, however many wake together.
const beatSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms
), seen AS (SELECT max(last_tick_at_ms) AS ms FROM replicas
), spell AS (
    INSERT INTO schedule_events (type, first_at_ms, last_at_ms, reason, created_at_ms)
    SELECT 'unattended', seen.ms, clock.ms, 'no replica was running', clock.ms FROM seen, clock WHERE seen.ms < clock.ms - $5
    ON CONFLICT DO NOTHING
), alive AS (
    INSERT INTO replicas AS r (id, version, started_at_ms, last_tick_at_ms, clock_skew_ms, schema_version) SELECT $1, $2, ms, ms, $3 - ms, $6 FROM clock
    ON CONFLICT (id) DO UPDATE SET last_tick_at_ms = greatest(r.last_tick_at_ms, excluded.last_tick_at_ms), clock_skew_ms = excluded.clock_skew_ms
)
SELECT clock.ms,
    (SELECT coalesce(s.next_fire_at_ms, -1) FROM trigger_schedules s
     WHERE s.enabled AND (s.claim_expires_at_ms IS NULL OR s.claim_expires_at_ms <= clock.ms)
     ORDER BY coalesce(s.next_fire_at_ms, -1), s.project_id, s.trigger_id LIMIT 1),
    (SELECT count(*) FROM (SELECT FROM trigger_schedules s WHERE s.enabled AND s.blocked_reason IS NULL AND coalesce(s.next_fire_at_ms, -1) <= clock.ms
     ORDER BY coalesce(s.next_fire_at_ms, -1) LIMIT $4) due),
    (SELECT s.next_fire_at_ms FROM trigger_schedules s WHERE s.enabled AND s.blocked_reason IS NULL AND coalesce(s.next_fire_at_ms, -1) BETWEEN 0 AND clock.ms
     ORDER BY coalesce(s.next_fire_at_ms, -1) LIMIT 1),
    (SELECT count(*) FROM (SELECT FROM trigger_schedules s WHERE s.blocked_reason IS NOT NULL LIMIT $4) blocked),
    coalesce((SELECT max(floor) FROM schema_floors), 0)
FROM clock`

// beat writes the replica's row and reads the pulse, in one statement.
func beat(ctx context.Context, q pg.Querier, replica, version string, schema int64) (p pulse, err error) {
	defer pg.Wrap(&err, "beat(%s)", replica)
	asked := time.Now()
	err = q.QueryRow(ctx, beatSQL, replica, version, asked.UnixMilli(), backlogSeen, unattendedAfter.Milliseconds(), schema).
		Scan(&p.NowMS, &p.NextMS, &p.Backlog, &p.OldestDueMS, &p.Blocked, &p.Floor)
	p.SkewMS = asked.Add(time.Since(asked)/2).UnixMilli() - p.NowMS
	return p, err
}
