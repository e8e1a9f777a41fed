package run

import (
	"context"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// MaxPage is the largest number of Runs that one [List] returns.
const MaxPage = 200

// Summary is a Run as a list shows it. Times are UTC milliseconds of the database clock; nil is not yet.
type Summary struct {
	ID             uuid.UUID  `json:"id"`
	ProjectID      string     `json:"projectId"`
	TaskID         string     `json:"taskId"`
	TaskRevision   int64      `json:"taskRevision"`
	TaskName       string     `json:"taskName"`
	TriggerID      *string    `json:"triggerId"`
	ScheduledForMS *int64     `json:"scheduledForMs"`
	RetryOf        *uuid.UUID `json:"retryOfRunId"`
	Status         Status     `json:"status"`
	ErrorCode      *string    `json:"errorCode"`
	ErrorSummary   *string    `json:"errorSummary"`
	ExitCode       *int       `json:"exitCode"` // of the newest Attempt
	CreatedAtMS    int64      `json:"createdAtMs"`
	StartedAtMS    *int64     `json:"startedAtMs"`
	FinishedAtMS   *int64     `json:"finishedAtMs"`
}

// Late returns how many milliseconds after its instant an Occurrence was admitted, and false for another kind of Run.
func (s Summary) Late() (int64, bool) {
	if s.ScheduledForMS == nil {
		return 0, false
	}
	return s.CreatedAtMS - *s.ScheduledForMS, true
}

// Filter says which Runs a list is of. An empty field does not restrict, except Projects: nobody sees a Run outside
// the Projects that are named.
type Filter struct {
	Projects  []string
	Statuses  []Status
	TaskID    string
	TriggerID string
	SinceMS   int64 // created at or after
	UntilMS   int64 // created before
}

// Page is a part of a list. Next is where the following part begins, or nil at the end.
type Page struct {
	Runs []Summary
	Next *pg.Cursor
}

const summaryColumns = `r.id, r.project_id, r.task_id, r.task_revision, r.task_name, r.trigger_id, r.scheduled_for_ms, r.retry_of_run_id,
    r.status, r.error_code, r.error_summary, (SELECT a.exit_code FROM run_attempts a WHERE a.run_id = r.id ORDER BY a.attempt DESC LIMIT 1),
    r.created_at_ms, r.started_at_ms, r.finished_at_ms`

// List returns at most n Runs (1 to [MaxPage]) that match f, newest first, from after on; a nil after is the newest.
//
// Each Project, and each status, is walked by its own index and gives up to n+1 rows: with = ANY the planner reads
// millions of rows to sort them.
func List(ctx context.Context, q pg.Querier, f Filter, after *pg.Cursor, n int) (_ Page, err error) {
	defer pg.Wrap(&err, "run.List(%d projects)", len(f.Projects))
	n = min(max(n, 1), MaxPage)
	sql, args := f.query(after, n+1)
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Page{}, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Summary])
	if err != nil {
		return Page{}, err
	}
	var page Page
	page.Runs, page.Next = pg.FirstPage(list, n, func(r Summary) pg.Cursor { return pg.Cursor{CreatedAtMS: r.CreatedAtMS, ID: r.ID} })
	return page, nil
}

// query spells only the conditions that restrict, so that the planner sees which index serves them.
func (f Filter) query(after *pg.Cursor, limit int) (string, []any) {
	args := []any{f.Projects, limit}
	from, where := "unnest($1::text[]) AS p(id)", "candidate.project_id = p.id"
	arg := func(v any) string { args = append(args, v); return "$" + strconv.Itoa(len(args)) }
	if len(f.Statuses) > 0 {
		from += " CROSS JOIN unnest(" + arg(f.Statuses) + "::text[]) AS s(status)"
		where += " AND candidate.status = s.status"
	}
	if f.TaskID != "" {
		where += " AND candidate.task_id = " + arg(f.TaskID)
	}
	if f.TriggerID != "" {
		where += " AND candidate.trigger_id = " + arg(f.TriggerID)
	}
	if f.SinceMS > 0 {
		where += " AND candidate.created_at_ms >= " + arg(f.SinceMS)
	}
	if f.UntilMS > 0 {
		where += " AND candidate.created_at_ms < " + arg(f.UntilMS)
	}
	if after != nil {
		where += " AND (candidate.created_at_ms, candidate.id) < (" + arg(after.CreatedAtMS) + ", " + arg(after.ID) + ")"
	}
	return `WITH page AS MATERIALIZED (
    SELECT c.* FROM ` + from + ` CROSS JOIN LATERAL (
        SELECT * FROM runs candidate WHERE ` + where + `
        ORDER BY candidate.created_at_ms DESC, candidate.id DESC LIMIT $2) c
    ORDER BY c.created_at_ms DESC, c.id DESC LIMIT $2
)
SELECT ` + summaryColumns + ` FROM page r ORDER BY r.created_at_ms DESC, r.id DESC`, args
}
