package run

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// CountCap is where counting stops: a page says "10,000+" rather than read on.
const CountCap = 10_000

const hourMS = 3_600_000

// Hour is what happened to the Runs admitted in the hour before a moment.
type Hour struct {
	Admitted     int            `json:"admitted"`     // all of them, at most [CountCap]: the newest
	Capped       bool           `json:"capped"`       // there were more
	ByStatus     map[Status]int `json:"byStatus"`     // what they are now
	ByMinute     [60]int        `json:"byMinute"`     // Occurrences admitted, oldest minute first
	MedianLateMS *int64         `json:"medianLateMs"` // lateness of the Occurrences among them; nil without one
	P99LateMS    *int64         `json:"p99LateMs"`
}

const hourSQL = `
WITH recent AS MATERIALIZED (
    SELECT c.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT r.status, r.created_at_ms, r.scheduled_for_ms FROM runs r
        WHERE r.project_id = p.id AND r.created_at_ms > $2 AND r.created_at_ms <= $3
        ORDER BY r.created_at_ms DESC LIMIT $4) c
    ORDER BY c.created_at_ms DESC LIMIT $4
), late AS (
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY created_at_ms - scheduled_for_ms) AS median,
        percentile_disc(0.99) WITHIN GROUP (ORDER BY created_at_ms - scheduled_for_ms) AS p99
    FROM recent WHERE scheduled_for_ms IS NOT NULL
)
SELECT status, least((created_at_ms - $2 - 1) / 60000, 59)::int AS minute, count(*)::int, count(scheduled_for_ms)::int,
    late.median, late.p99
FROM recent CROSS JOIN late GROUP BY status, minute, late.median, late.p99`

// LastHour counts the Runs of projects admitted in the hour that ends at nowMS, a reading of the database clock.
func LastHour(ctx context.Context, q pg.Querier, projects []string, nowMS int64) (_ Hour, err error) {
	defer pg.Wrap(&err, "run.LastHour(%d projects)", len(projects))
	h := Hour{ByStatus: map[Status]int{}}
	rows, err := q.Query(ctx, hourSQL, projects, nowMS-hourMS, nowMS, CountCap+1)
	if err != nil {
		return Hour{}, err
	}
	var status Status
	var minute, n, occurrences int
	_, err = pgx.ForEachRow(rows, []any{&status, &minute, &n, &occurrences, &h.MedianLateMS, &h.P99LateMS}, func() error {
		h.Admitted += n
		h.ByStatus[status] += n
		h.ByMinute[minute] += occurrences
		return nil
	})
	if h.Capped = h.Admitted > CountCap; h.Capped {
		h.Admitted = CountCap
	}
	return h, err
}

// LatestFailures returns the n newest Runs of projects that failed, timed out or were lost.
func LatestFailures(ctx context.Context, q pg.Querier, projects []string, n int) ([]Summary, error) {
	page, err := List(ctx, q, Filter{Projects: projects, Statuses: []Status{Failed, TimedOut, Lost}}, nil, n)
	return page.Runs, err
}
