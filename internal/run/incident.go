package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// Troubles are the states that an incident is made of, and Retriable those of them that a retry can answer: whether a lost
// Run still runs is not known.
func Troubles() []Status  { return []Status{Failed, TimedOut, Lost} }
func Retriable() []Status { return []Status{Failed, TimedOut} }

const (
	// IncidentCap is how many Runs an incident looks at: the newest.
	IncidentCap   = 2000
	incidentTasks = 100
)

// Incident is what went wrong with the Runs of a filter, Task by Task, the one with the most failures first.
type Incident struct {
	Tasks []Trouble `json:"tasks"`
	More  bool      `json:"more"` // there are older failures than were looked at, or more Tasks than are listed
	// Partial tells that the filter's text names more than is looked for: failures that fit are missing.
	Partial bool `json:"partial,omitempty"`
}

// Trouble is what went wrong with one Task.
type Trouble struct {
	ProjectID string  `json:"projectId"`
	TaskID    string  `json:"taskId"`
	Failed    int     `json:"failed"`
	TimedOut  int     `json:"timedOut"`
	Lost      int     `json:"lost"`
	Retried   int     `json:"retried"` // those of them for which a newer Run of their retry family stands
	First     Failure `json:"first"`   // the oldest that was looked at
	Newest    Failure `json:"newest"`
}

// Failures is how many there are of every kind.
func (t Trouble) Failures() int { return t.Failed + t.TimedOut + t.Lost }

// Failure is one Run that went wrong.
type Failure struct {
	RunID        uuid.UUID `json:"runId"`
	TaskName     string    `json:"taskName"`
	Status       Status    `json:"status"`
	ErrorCode    *string   `json:"errorCode"`
	ErrorSummary *string   `json:"errorSummary"`
	CreatedAtMS  int64     `json:"createdAtMs"`
}

func (f *Failure) fields() []any {
	return []any{&f.RunID, &f.TaskName, &f.Status, &f.ErrorCode, &f.ErrorSummary, &f.CreatedAtMS}
}

// incidentSQL groups what is seen; it is put around the statement of a list.
const incidentSQL = `
WITH seen AS MATERIALIZED (SELECT id, project_id, task_id, retry_of_run_id, status, created_at_ms, fits, cut FROM (%s) list
), tasks AS (
    SELECT project_id, task_id, count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status = 'timed_out') AS timed_out,
        count(*) FILTER (WHERE status = 'lost') AS lost, count(*) FILTER (WHERE %s) AS retried,
        (array_agg(id ORDER BY created_at_ms, id))[1] AS first, (array_agg(id ORDER BY created_at_ms DESC, id DESC))[1] AS newest
    FROM (SELECT * FROM seen WHERE fits ORDER BY created_at_ms DESC, id DESC LIMIT %d) r GROUP BY project_id, task_id
)
SELECT t.project_id, t.task_id, t.failed, t.timed_out, t.lost, t.retried,
    f.id, f.task_name, f.status, f.error_code, f.error_summary, f.created_at_ms, n.id, n.task_name, n.status, n.error_code, n.error_summary, n.created_at_ms,
    (SELECT count(*) > %d OR bool_or(cut) FROM seen)
FROM tasks t JOIN runs f ON f.id = t.first JOIN runs n ON n.id = t.newest
ORDER BY %s LIMIT %d`

const (
	mostFirst   = "t.failed + t.timed_out + t.lost DESC, n.created_at_ms DESC, t.project_id, t.task_id"
	newestFirst = "n.created_at_ms DESC, n.id DESC"
)

// ReadIncident groups the newest failures that match f, whose Statuses are [Troubles] unless it names some, by Task. It
// looks at no more than [IncidentCap] of them.
func ReadIncident(ctx context.Context, q pg.Querier, f Filter) (i Incident, err error) {
	defer pg.Wrap(&err, "run.ReadIncident(%d projects)", len(f.Projects))
	return readIncident(ctx, q, f, IncidentCap, mostFirst, incidentTasks)
}

// LatestTroubles groups the newest most failures of projects by Task, the Task of the newest failure first, and returns n
// Tasks at most.
func LatestTroubles(ctx context.Context, q pg.Querier, projects []string, most, n int) (_ Incident, err error) {
	defer pg.Wrap(&err, "run.LatestTroubles(%d projects)", len(projects))
	return readIncident(ctx, q, Filter{Projects: projects}, most, newestFirst, n)
}

func readIncident(ctx context.Context, q pg.Querier, f Filter, most int, order string, tasks int) (i Incident, err error) {
	i.Tasks = []Trouble{}
	if len(f.Statuses) == 0 {
		f.Statuses = Troubles()
	}
	s, err := newStatement(ctx, q, f)
	if err != nil {
		return i, err
	}
	i.Partial = s.partial()
	walks := s.walks(false)
	if len(walks) == 0 {
		return i, nil
	}
	sql := fmt.Sprintf(incidentSQL, s.listSQL(walks, nil, false, most+1), answeredSQL, most, most, order, tasks+1)
	rows, err := q.Query(ctx, sql, s.args...)
	if err != nil {
		return i, err
	}
	i.Tasks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Trouble, err error) {
		fields := append([]any{&t.ProjectID, &t.TaskID, &t.Failed, &t.TimedOut, &t.Lost, &t.Retried}, t.First.fields()...)
		return t, row.Scan(append(append(fields, t.Newest.fields()...), &i.More)...)
	})
	if len(i.Tasks) > tasks {
		i.Tasks, i.More = i.Tasks[:tasks], true
	}
	return i, err
}

// Unanswered returns the newest n Runs that match f, failed or timed out, for which no newer Run of their retry family stands,
// the oldest of them first: what a selection of all failures freezes, of each family one at most. more tells that there are,
// or may be, others. It looks at no more than [IncidentCap] Runs.
func Unanswered(ctx context.Context, q pg.Querier, f Filter, n int) (ids []uuid.UUID, more bool, err error) {
	defer pg.Wrap(&err, "run.Unanswered(%d projects)", len(f.Projects))
	if f.Unanswered = true; len(f.Statuses) == 0 {
		f.Statuses = Retriable()
	}
	var after *pg.Cursor
	for range IncidentCap / MaxPage {
		page, err := List(ctx, q, f, after, MaxPage)
		if err != nil {
			return nil, false, err
		}
		for _, r := range page.Runs {
			ids = append(ids, r.ID)
		}
		if after = page.Next; after == nil || len(ids) > n {
			break
		}
	}
	more = after != nil || len(ids) > n
	ids = ids[:min(len(ids), n)]
	slices.Reverse(ids)
	return ids, more, nil
}
