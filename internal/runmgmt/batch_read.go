package runmgmt

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
)

// BatchView is a batch as everybody may see it who sees its Project: what was frozen, by whom and why, and how what was
// made of it stands. Times are UTC milliseconds of the database clock.
type BatchView struct {
	ID            uuid.UUID         `json:"id"`
	Action        policy.Permission `json:"action"`
	ProjectID     string            `json:"projectId"`
	UserID        uuid.UUID         `json:"userId"`
	By            string            `json:"by"`
	Words         string            `json:"reason"`
	CreatedAtMS   int64             `json:"createdAtMs"`
	SubmittedAtMS *int64            `json:"submittedAtMs"` // nil: nothing was done of it yet
	NowMS         int64             `json:"nowMs"`
	Members       []BatchMember     `json:"members"`
}

// BatchMember is one Run of a batch.
type BatchMember struct {
	RunID        uuid.UUID  `json:"runId"`
	TaskID       string     `json:"taskId"`
	TaskName     string     `json:"taskName"`
	FrozenStatus run.Status `json:"frozenStatus"` // when it was frozen
	Version      int64      `json:"frozenVersion"`
	MutationID   uuid.UUID  `json:"mutationId"`
	Outcome      *Outcome   `json:"outcome"` // nil: it was not chosen, or the batch was not submitted
}

// Outcome is the Run that a batch made, or asked to stop, as it is now.
type Outcome struct {
	RunID        uuid.UUID  `json:"runId"`
	Status       run.Status `json:"status"`
	ErrorCode    *string    `json:"errorCode"`
	ErrorSummary *string    `json:"errorSummary"`
	AtMS         int64      `json:"createdAtMs"`
	StartedAtMS  *int64     `json:"startedAtMs"`
	FinishedAtMS *int64     `json:"finishedAtMs"`
}

// Done are the members that something was made of.
func (b BatchView) Done() []BatchMember {
	return slices.DeleteFunc(slices.Clone(b.Members), func(m BatchMember) bool { return m.Outcome == nil })
}

// Progress counts what was made by how it stands now.
func (b BatchView) Progress() map[run.Status]int {
	counts := map[run.Status]int{}
	for _, m := range b.Done() {
		counts[m.Outcome.Status]++
	}
	return counts
}

// Remaining is how many of what was made have not ended yet.
func (b BatchView) Remaining() (n int) {
	for status, count := range b.Progress() {
		if !status.Terminal() {
			n += count
		}
	}
	return n
}

const membersSQL = `
SELECT i.run_id, s.task_id, s.task_name, i.run_status, i.run_version, i.mutation_id,
    made.id, made.status, made.error_code, made.error_summary, made.created_at_ms, made.started_at_ms, made.finished_at_ms
FROM run_batch_items i JOIN run_batches b ON b.id = i.batch_id JOIN runs s ON s.id = i.run_id
LEFT JOIN LATERAL (
    SELECT n.* FROM runs n WHERE b.action = 'run.retry' AND n.project_id = b.project_id AND n.idempotency_key = 'ql3:run-manual-retry:v1:' || i.mutation_id
    UNION ALL
    SELECT n.* FROM run_events e JOIN runs n ON n.id = e.run_id
    WHERE b.action = 'run.stop' AND e.type = 'run.cancel_requested' AND e.payload ->> 'mutation_id' = i.mutation_id::text) made ON true
WHERE i.batch_id = $1 ORDER BY i.position`

// ReadBatch returns a batch with its members for reader. One outside projects is [run.ErrNotFound], exactly like one that
// does not exist, and so is somebody else's until it is submitted.
func ReadBatch(ctx context.Context, q pg.Querier, projects []string, reader, id uuid.UUID) (b BatchView, err error) {
	defer pg.Wrap(&err, "runmgmt.ReadBatch(%s)", id)
	err = q.QueryRow(ctx, `
		SELECT b.id, b.action, b.project_id, b.user_id, coalesce(u.name, u.email, u.subject), b.words, b.created_at_ms, b.submitted_at_ms, `+pg.ClockMS+`
		FROM run_batches b JOIN users u ON u.id = b.user_id WHERE b.id = $1 AND b.project_id = ANY($2) AND (b.user_id = $3 OR b.submitted_at_ms IS NOT NULL)`, id, projects, reader).
		Scan(&b.ID, &b.Action, &b.ProjectID, &b.UserID, &b.By, &b.Words, &b.CreatedAtMS, &b.SubmittedAtMS, &b.NowMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return BatchView{}, run.ErrNotFound
	}
	if err != nil {
		return BatchView{}, err
	}
	rows, err := q.Query(ctx, membersSQL, id)
	if err != nil {
		return BatchView{}, err
	}
	b.Members, err = pgx.CollectRows(rows, scanMember)
	return b, err
}

func scanMember(row pgx.CollectableRow) (m BatchMember, err error) {
	var made *uuid.UUID
	var status *run.Status
	var at *int64
	var o Outcome
	err = row.Scan(&m.RunID, &m.TaskID, &m.TaskName, &m.FrozenStatus, &m.Version, &m.MutationID,
		&made, &status, &o.ErrorCode, &o.ErrorSummary, &at, &o.StartedAtMS, &o.FinishedAtMS)
	if err == nil && made != nil {
		o.RunID, o.Status, o.AtMS = *made, *status, *at
		m.Outcome = &o
	}
	return m, err
}
