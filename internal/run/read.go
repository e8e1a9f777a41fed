package run

import "github.com/google/uuid"

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

const summaryColumns = `r.id, r.project_id, r.task_id, r.task_revision, r.task_name, r.trigger_id, r.scheduled_for_ms, r.retry_of_run_id,
    r.status, r.error_code, r.error_summary, (SELECT a.exit_code FROM run_attempts a WHERE a.run_id = r.id ORDER BY a.attempt DESC LIMIT 1),
    r.created_at_ms, r.started_at_ms, r.finished_at_ms`
