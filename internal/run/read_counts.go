package run

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// CountCap is where counting stops: a page says "10,000+" rather than read on.
const CountCap = 10_000

const hourMS = 3_600_000

// Hour is what happened to the Runs admitted in the hour before a moment. If there were more than [CountCap] of them it
// is of the newest, and the minutes before KnownFrom are not known.
type Hour struct {
	Admitted     int            `json:"admitted"`
	Capped       bool           `json:"capped"`    // there were more
	KnownFrom    int            `json:"knownFrom"` // the first minute of which all is known
	ByStatus     map[Status]int `json:"byStatus"`  // what they are now
	ByMinute     [60]int        `json:"byMinute"`  // Occurrences admitted, oldest minute first
	Minutes      [60]Minute     `json:"minutes"`
	MedianLateMS *int64         `json:"medianLateMs"` // lateness of the Occurrences among them; nil without one
	P99LateMS    *int64         `json:"p99LateMs"`
}

// Minute is what happened to the Runs admitted in one minute.
type Minute struct {
	ByStatus     map[Status]int `json:"byStatus,omitempty"`
	MedianLateMS *int64         `json:"medianLateMs"`
	P99LateMS    *int64         `json:"p99LateMs"`
}

// hourSQL has one row for each status of each minute, one without a status for the lateness of each minute, and one
// without a minute for all of it.
const hourSQL = `
WITH recent AS MATERIALIZED (
    SELECT c.status, c.created_at_ms - c.scheduled_for_ms AS late, least((c.created_at_ms - $2 - 1) / 60000, 59)::int AS minute
    FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT r.status, r.created_at_ms, r.scheduled_for_ms FROM runs r
        WHERE r.project_id = p.id AND r.created_at_ms > $2 AND r.created_at_ms <= $3
        ORDER BY r.created_at_ms DESC LIMIT $4) c
    ORDER BY c.created_at_ms DESC LIMIT $4
)
SELECT status, minute, count(*)::int, count(late)::int, NULL::bigint, NULL::bigint FROM recent GROUP BY status, minute
UNION ALL
SELECT '', coalesce(minute, -1), 0, 0, percentile_disc(0.5) WITHIN GROUP (ORDER BY late), percentile_disc(0.99) WITHIN GROUP (ORDER BY late)
FROM recent WHERE late IS NOT NULL GROUP BY GROUPING SETS ((minute), ())`

// LastHour counts the Runs of projects admitted in the hour that ends at endMS: at the database clock's reading, or at
// the end of its minute, so that the minutes are those of the clock.
func LastHour(ctx context.Context, q pg.Querier, projects []string, endMS int64) (_ Hour, err error) {
	defer pg.Wrap(&err, "run.LastHour(%d projects)", len(projects))
	h := Hour{ByStatus: map[Status]int{}}
	rows, err := q.Query(ctx, hourSQL, projects, endMS-hourMS, endMS, CountCap+1)
	if err != nil {
		return Hour{}, err
	}
	var status Status
	var minute, n, occurrences int
	var median, p99 *int64
	oldest := len(h.Minutes)
	_, err = pgx.ForEachRow(rows, []any{&status, &minute, &n, &occurrences, &median, &p99}, func() error {
		switch {
		case status != "":
			oldest = min(oldest, minute)
			h.add(status, minute, n, occurrences)
		case minute < 0:
			h.MedianLateMS, h.P99LateMS = median, p99
		default:
			h.Minutes[minute].MedianLateMS, h.Minutes[minute].P99LateMS = median, p99
		}
		return nil
	})
	if h.Capped = h.Admitted > CountCap; h.Capped {
		h.Admitted, h.KnownFrom = CountCap, oldest+1
	}
	return h, err
}

func (h *Hour) add(status Status, minute, n, occurrences int) {
	h.Admitted += n
	h.ByStatus[status] += n
	h.ByMinute[minute] += occurrences
	m := &h.Minutes[minute]
	if m.ByStatus == nil {
		m.ByStatus = map[Status]int{}
	}
	m.ByStatus[status] += n
}

// Failures are the statuses of a Run that has not done what it was for, and of whose stop nobody said so.
func Failures() []Status { return []Status{Failed, TimedOut, Lost} }
