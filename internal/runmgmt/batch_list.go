package runmgmt

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
)

// BatchFilter says which batches a list is of: those that were submitted, and those that their reader has not submitted yet.
// Nobody sees one outside the Projects that are named.
type BatchFilter struct {
	Projects []string
	Reader   uuid.UUID
	Mine     bool // the reader's own alone
}

// BatchSummary is one line of a list of batches.
type BatchSummary struct {
	ID            uuid.UUID         `json:"id"`
	Action        policy.Permission `json:"action"`
	ProjectID     string            `json:"projectId"`
	By            string            `json:"by"`
	Words         string            `json:"reason"`
	CreatedAtMS   int64             `json:"createdAtMs"`
	SubmittedAtMS *int64            `json:"submittedAtMs"` // nil: nothing was done of it yet
	Selected      int               `json:"selected"`      // Runs that it was frozen with
	Made          int               `json:"made"`          // those of them that something was made of
	Succeeded     int               `json:"succeeded"`     // of what was made
	Remaining     int               `json:"remaining"`     // of what was made, what has not ended
}

// Unsuccessful is how much of what was made has ended otherwise.
func (b BatchSummary) Unsuccessful() int { return b.Made - b.Succeeded - b.Remaining }

const batchListSQL = `
WITH page AS MATERIALIZED (
    SELECT b.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT * FROM run_batches b WHERE b.project_id = p.id AND (b.user_id = $2 OR b.submitted_at_ms IS NOT NULL AND NOT $3)
            AND ($4::bigint IS NULL OR (b.created_at_ms, b.id) < ($4, $5::uuid))
        ORDER BY b.created_at_ms DESC, b.id DESC LIMIT $6) b
    ORDER BY b.created_at_ms DESC, b.id DESC LIMIT $6
)
SELECT b.id, b.action, b.project_id, coalesce(u.name, u.email, u.subject), b.words, b.created_at_ms, b.submitted_at_ms, c.selected, c.made, c.succeeded, c.remaining
FROM page b JOIN users u ON u.id = b.user_id CROSS JOIN LATERAL (
    SELECT count(*) AS selected, count(made.status) AS made, count(*) FILTER (WHERE made.status = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE made.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')) AS remaining
    FROM run_batch_items i LEFT JOIN LATERAL (
        SELECT n.status FROM runs n WHERE b.action = 'run.retry' AND n.project_id = b.project_id AND n.idempotency_key = 'ql3:run-manual-retry:v1:' || i.mutation_id
        UNION ALL
        SELECT n.status FROM run_events e JOIN runs n ON n.id = e.run_id
        WHERE b.action = 'run.stop' AND e.run_id = i.run_id AND e.type = 'run.cancel_requested' AND e.payload ->> 'mutation_id' = i.mutation_id::text) made ON true
    WHERE i.batch_id = b.id) c
ORDER BY b.created_at_ms DESC, b.id DESC`

// ListBatches returns at most n batches that match f, newest first, from after on, and where the following part begins.
func ListBatches(ctx context.Context, q pg.Querier, f BatchFilter, after *pg.Cursor, n int) (_ []BatchSummary, next *pg.Cursor, err error) {
	defer pg.Wrap(&err, "runmgmt.ListBatches(%d projects)", len(f.Projects))
	var at *int64
	var id *uuid.UUID
	if after != nil {
		at, id = &after.CreatedAtMS, &after.ID
	}
	rows, err := q.Query(ctx, batchListSQL, f.Projects, f.Reader, f.Mine, at, id, n+1)
	if err != nil {
		return nil, nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[BatchSummary])
	list, next = pg.FirstPage(list, n, func(b BatchSummary) pg.Cursor { return pg.Cursor{CreatedAtMS: b.CreatedAtMS, ID: b.ID} })
	return list, next, err
}
