package scheduler

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

const (
	hourMS       = 3_600_000
	backlogMarks = 60
)

// Backlog is how many Occurrences were due and not yet admitted at the end of each minute of the last hour, the oldest
// first; the last is now. What was skipped instead is not among them.
type Backlog struct {
	ByMinute  [backlogMarks]int `json:"byMinute"`
	KnownFrom int               `json:"knownFrom"` // before it more Runs were admitted than are looked at
	Capped    bool              `json:"capped"`    // more are due now than are counted
}

// backlogSQL counts by the first mark at which they were due and the first at which they no longer waited: mark i is
// $2 + (i + 1) minutes. What is due now still waits.
const backlogSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms), recent AS MATERIALIZED (
    SELECT c.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT r.created_at_ms, r.scheduled_for_ms FROM runs r
        WHERE r.project_id = p.id AND r.created_at_ms > $2 AND r.created_at_ms <= $3
        ORDER BY r.created_at_ms DESC LIMIT $4) c
    ORDER BY c.created_at_ms DESC LIMIT $4
), due AS MATERIALIZED (
    SELECT s.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT coalesce(s.next_fire_at_ms, $3) AS scheduled_for_ms FROM trigger_schedules s
        WHERE s.project_id = p.id AND s.enabled AND coalesce(s.next_fire_at_ms, -1) <= least($3, (SELECT ms FROM clock)) AND s.blocked_reason IS NULL
        ORDER BY coalesce(s.next_fire_at_ms, -1) LIMIT $4) s LIMIT $4
), marks AS (
    SELECT greatest((scheduled_for_ms - $2 - 1) / 60000, 0) AS first, (created_at_ms - $2 - 1) / 60000 AS until FROM recent WHERE scheduled_for_ms IS NOT NULL
    UNION ALL
    SELECT greatest((scheduled_for_ms - $2 - 1) / 60000, 0), 60 FROM due
)
SELECT first::int, until::int, count(*)::int FROM marks WHERE first < until GROUP BY first, until
UNION ALL
SELECT -1, CASE WHEN (SELECT count(*) FROM recent) < $4 THEN 0 ELSE (SELECT (min(created_at_ms) - $2 - 1) / 60000 + 1 FROM recent) END::int,
    (SELECT count(*) FROM due)::int`

// ReadBacklog computes it from durable facts: when Runs were due and admitted, and what is due at endMS, where the hour
// ends. If that is to come, at the end of a minute say, what is due is what is due now.
func ReadBacklog(ctx context.Context, q pg.Querier, projects []string, endMS int64) (b Backlog, err error) {
	defer pg.Wrap(&err, "scheduler.ReadBacklog(%d projects)", len(projects))
	rows, err := q.Query(ctx, backlogSQL, projects, endMS-hourMS, endMS, backlogSeen+1)
	if err != nil {
		return b, err
	}
	var first, until, n int
	_, err = pgx.ForEachRow(rows, []any{&first, &until, &n}, func() error {
		if first < 0 {
			b.KnownFrom, b.Capped = until, n > backlogSeen
			return nil
		}
		for i := first; i < until; i++ {
			b.ByMinute[i] += n
		}
		return nil
	})
	return b, err
}
