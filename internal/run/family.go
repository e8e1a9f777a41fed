package run

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// MaxFamily is how many Runs a family lists at most.
const MaxFamily = 200

// Member is one Run of a retry family.
type Member struct {
	ID          uuid.UUID  `json:"id"`
	RetryOf     *uuid.UUID `json:"retryOfRunId"`
	Depth       int        `json:"depth"` // 0 is the Run that everything is a retry of
	Status      Status     `json:"status"`
	ErrorCode   *string    `json:"errorCode"`
	TriggeredBy *string    `json:"triggeredBy"` // the user's id
	By          *string    `json:"by"`          // the user's name or subject
	Reason      *string    `json:"reason"`
	CreatedAtMS int64      `json:"createdAtMs"`
	FinishedMS  *int64     `json:"finishedAtMs"`

	// The Occurrence that the Run is of; a retry is of none.
	TriggerID      *string `json:"triggerId,omitempty"`
	ScheduledForMS *int64  `json:"scheduledForMs,omitempty"`
	Timezone       *string `json:"timezone,omitempty"` // the Trigger revision's
}

// Family returns the whole retry family of a Run, the root first and then by time, in one query: up to the root, and
// down from it. It is bounded by [MaxFamily] and by as many generations. A retry is always of its source's Project.
func Family(ctx context.Context, q pg.Querier, projects []string, id uuid.UUID) (_ []Member, err error) {
	defer pg.Wrap(&err, "run.Family(%s)", id)
	rows, err := q.Query(ctx, `
		WITH RECURSIVE up AS (
			SELECT id, retry_of_run_id, 0 AS n FROM runs WHERE id = $1 AND project_id = ANY($2)
			UNION ALL
			SELECT r.id, r.retry_of_run_id, up.n + 1 FROM up JOIN runs r ON r.id = up.retry_of_run_id WHERE up.n < $3
		), down AS (
			SELECT id, 0 AS depth FROM (SELECT id FROM up ORDER BY n DESC LIMIT 1) root
			UNION ALL
			SELECT r.id, down.depth + 1 FROM down JOIN runs r ON r.retry_of_run_id = down.id WHERE down.depth < $3
		)
		SELECT r.id, r.retry_of_run_id, down.depth, r.status, r.error_code, r.triggered_by, coalesce(u.name, u.email, u.subject),
			e.payload ->> 'reason', r.created_at_ms, r.finished_at_ms, r.trigger_id, r.scheduled_for_ms, g.content::jsonb ->> 'timezone'
		FROM down JOIN runs r ON r.id = down.id AND r.project_id = ANY($2)
		LEFT JOIN users u ON r.trigger_type = 'run_manual_retry' AND u.id::text = r.triggered_by
		LEFT JOIN run_events e ON r.trigger_type = 'run_manual_retry' AND e.run_id = r.id AND e.sequence = 1
		LEFT JOIN trigger_revisions g ON g.project_id = r.project_id AND g.trigger_id = r.trigger_id AND g.revision = r.trigger_revision
		ORDER BY down.depth, r.created_at_ms, r.id LIMIT $3`, id, projects, MaxFamily)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Member])
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	return list, err
}

// answeredSQL tells of a Run r whether a newer Run of its retry family stands for it. Nearly every Run is no retry, and is
// asked for no more than whether it has one.
var answeredSQL = fmt.Sprintf(`CASE WHEN r.retry_of_run_id IS NULL THEN EXISTS (SELECT FROM runs c WHERE c.retry_of_run_id = r.id) ELSE EXISTS (
    WITH RECURSIVE up AS (
        SELECT r.retry_of_run_id AS id, 0 AS n
        UNION ALL
        SELECT u.retry_of_run_id, up.n + 1 FROM up JOIN runs u ON u.id = up.id WHERE u.retry_of_run_id IS NOT NULL AND up.n < %[1]d
    ), down AS (
        (SELECT id, 0 AS n FROM up ORDER BY up.n DESC LIMIT 1)
        UNION ALL
        SELECT d.id, down.n + 1 FROM down JOIN runs d ON d.retry_of_run_id = down.id WHERE down.n < %[1]d
    )
    SELECT FROM down JOIN runs d ON d.id = down.id WHERE (d.created_at_ms, d.id) > (r.created_at_ms, r.id)) END`, MaxFamily)

// LaterRun is a newer Run of a retry family: which, and how it stands.
type LaterRun struct {
	ID     uuid.UUID `json:"id"`
	Status Status    `json:"status"`
}

var answersSQL = fmt.Sprintf(`
WITH RECURSIVE up AS (
    SELECT id AS of, id, retry_of_run_id, 0 AS n FROM runs WHERE id = ANY($1) AND project_id = ANY($2)
    UNION ALL
    SELECT up.of, u.id, u.retry_of_run_id, up.n + 1 FROM up JOIN runs u ON u.id = up.retry_of_run_id WHERE up.n < %[1]d
), down AS (
    (SELECT DISTINCT ON (of) of, id, 0 AS n FROM up ORDER BY of, up.n DESC)
    UNION ALL
    SELECT down.of, d.id, down.n + 1 FROM down JOIN runs d ON d.retry_of_run_id = down.id WHERE down.n < %[1]d
)
SELECT DISTINCT ON (down.of) down.of, d.id, d.status FROM down JOIN runs o ON o.id = down.of JOIN runs d ON d.id = down.id
WHERE (d.created_at_ms, d.id) > (o.created_at_ms, o.id) ORDER BY down.of, d.created_at_ms DESC, d.id DESC`, MaxFamily)

// Answers returns the newest Run of the retry family of each of the Runs, where that is not the Run itself: what stands for
// it now. That is a retry of it, or of another Run of its family. One that has none is its family's newest.
func Answers(ctx context.Context, q pg.Querier, projects []string, ids []uuid.UUID) (_ map[uuid.UUID]LaterRun, err error) {
	defer pg.Wrap(&err, "run.Answers(%d runs)", len(ids))
	if len(ids) == 0 {
		return map[uuid.UUID]LaterRun{}, nil
	}
	rows, err := q.Query(ctx, answersSQL, ids, projects)
	if err != nil {
		return nil, err
	}
	return scanAnswers(rows)
}

// QueueAnswers reads what [Answers] returns along with the rest of a batch, into answers when that is done.
func QueueAnswers(b *pgx.Batch, projects []string, ids []uuid.UUID, answers *map[uuid.UUID]LaterRun) {
	if len(ids) == 0 {
		return
	}
	b.Queue(answersSQL, ids, projects).Query(func(rows pgx.Rows) (err error) {
		defer pg.Wrap(&err, "run.QueueAnswers(%d runs)", len(ids))
		*answers, err = scanAnswers(rows)
		return err
	})
}

func scanAnswers(rows pgx.Rows) (map[uuid.UUID]LaterRun, error) {
	answers := map[uuid.UUID]LaterRun{}
	var of uuid.UUID
	var r LaterRun
	_, err := pgx.ForEachRow(rows, []any{&of, &r.ID, &r.Status}, func() error {
		answers[of] = r
		return nil
	})
	return answers, err
}
