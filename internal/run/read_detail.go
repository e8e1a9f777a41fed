package run

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// maxEvents bounds how many Events a page reads: a Run has few, but nothing bounds them.
const maxEvents = 500

// Detail is one Run with everything a page says about it.
type Detail struct {
	Summary
	TriggerRevision      *int64          `json:"triggerRevision"`
	TriggerDigest        *string         `json:"triggerContentDigest"`
	TaskDigest           string          `json:"taskContentDigest"`
	SnapshotRef          string          `json:"taskSnapshotRef"`
	TriggerType          string          `json:"triggerType"`
	ExecutionOrigin      string          `json:"executionOrigin"`
	ExecutionOwner       string          `json:"executionOwner"`
	TriggeredBy          *string         `json:"triggeredBy"`
	Version              int64           `json:"version"`
	QueuedAtMS           *int64          `json:"queuedAtMs"`
	CancelRequestedAtMS  *int64          `json:"cancelRequestedAtMs"`
	CancelReason         *string         `json:"cancelReason"`
	Timezone             *string         `json:"timezone"`       // the Trigger revision's
	Attention            *string         `json:"needsAttention"` // why nobody moves it by itself; nil if somebody does, or it is over
	RunbookURL           string          `json:"runbookUrl,omitempty"`
	LogsURL              string          `json:"logsUrl,omitempty"`
	RetrySafe            *string         `json:"retrySafe"` // whether running it again is, as the Task's author says now: yes, no or ask
	RetryNote            *string         `json:"retryNote"` // and what else they say of it
	Attempts             []AttemptDetail `json:"attempts"`
	Events               []Event         `json:"events"`
	EventsAreAll         bool            `json:"eventsAreAll"`
	runbookTmpl, logTmpl *string
}

// AttemptDetail is one Attempt. The console's role cannot read its lease token or executor handle.
type AttemptDetail struct {
	ID             uuid.UUID `json:"id"`
	Attempt        int       `json:"attempt"`
	Status         Status    `json:"status"`
	Worker         *string   `json:"workerId"`
	LeaseExpiresMS *int64    `json:"leaseExpiresAtMs"`
	DeadlineMS     *int64    `json:"deadlineAtMs"`
	CreatedAtMS    int64     `json:"createdAtMs"`
	StartedAtMS    *int64    `json:"startedAtMs"`
	FinishedAtMS   *int64    `json:"finishedAtMs"`
	ExitCode       *int      `json:"exitCode"`
	ErrorCode      *string   `json:"errorCode"`
	ErrorSummary   *string   `json:"errorSummary"`
}

// Event is one fact about a Run.
type Event struct {
	Sequence    int64           `json:"sequence"`
	Type        string          `json:"type"`
	ActorType   string          `json:"actorType"`
	ActorID     string          `json:"actorId"`
	Payload     json.RawMessage `json:"payload"`
	CreatedAtMS int64           `json:"createdAtMs"`
	By          *string         `json:"by"` // the name or subject of the user that it is by
}

// Stop returns by whom and why the Run was asked to stop, and false if no user did.
func (d Detail) Stop() (by, reason string, ok bool) {
	for _, e := range d.Events {
		if e.Type == "run.cancel_requested" && e.ActorType == "user" {
			var asked struct {
				Reason string `json:"reason"`
			}
			_ = json.Unmarshal(e.Payload, &asked) // one without a reason has none
			return e.Name(), asked.Reason, true
		}
	}
	return "", "", false
}

// Name is who the Event is by: the user's name, where it is known.
func (e Event) Name() string {
	if e.By != nil {
		return *e.By
	}
	return e.ActorID
}

// Batch returns the batch in which the Run was made together with others, and false if it was not.
func (d Detail) Batch() (id uuid.UUID, ok bool) {
	for _, e := range d.Events {
		var c RetryCreated
		if e.Type == "run.created" && json.Unmarshal(e.Payload, &c) == nil && c.BatchID != uuid.Nil {
			return c.BatchID, true
		}
	}
	return uuid.Nil, false
}

const detailSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms)
SELECT ` + summaryColumns + `, r.trigger_revision, r.trigger_content_digest, t.content_digest, r.task_snapshot_ref, r.trigger_type,
    r.execution_origin, r.execution_owner, r.triggered_by, r.version, r.queued_at_ms, r.cancel_requested_at_ms, r.cancel_reason,
    g.content::jsonb ->> 'timezone', CASE WHEN ` + unsettled + ` THEN ` + attentionSQL + ` END, t.runbook, t.logs,
    head.retry_safe, head.retry_note
FROM clock CROSS JOIN runs r LEFT ` + newest + `
JOIN task_definition_revisions t ON t.project_id = r.project_id AND t.task_id = r.task_id AND t.revision = r.task_revision
JOIN task_definitions d ON d.project_id = r.project_id AND d.task_id = r.task_id
JOIN task_definition_revisions head ON head.project_id = d.project_id AND head.task_id = d.task_id AND head.revision = d.current_revision
LEFT JOIN trigger_revisions g ON g.project_id = r.project_id AND g.trigger_id = r.trigger_id AND g.revision = r.trigger_revision
WHERE r.id = $1 AND r.project_id = ANY($2)`

// Get returns the Run with that id. One outside projects is [ErrNotFound], exactly like one that does not exist.
func Get(ctx context.Context, q pg.Querier, projects []string, id uuid.UUID) (_ Detail, err error) {
	defer pg.Wrap(&err, "run.Get(%s)", id)
	var d Detail
	row := q.QueryRow(ctx, detailSQL, id, projects)
	if err := row.Scan(d.columns()...); errors.Is(err, pgx.ErrNoRows) {
		return Detail{}, ErrNotFound
	} else if err != nil {
		return Detail{}, err
	}
	if d.Attempts, err = attemptsOf(ctx, q, id); err != nil {
		return Detail{}, err
	}
	if d.Events, err = eventsOf(ctx, q, id); err != nil {
		return Detail{}, err
	}
	d.EventsAreAll = len(d.Events) <= maxEvents
	d.Events = d.Events[:min(len(d.Events), maxEvents)]
	d.RunbookURL, d.LogsURL = d.link(d.runbookTmpl), d.link(d.logTmpl)
	return d, nil
}

// columns are where detailSQL's columns go, in its order.
func (d *Detail) columns() []any {
	s := &d.Summary
	return []any{&s.ID, &s.ProjectID, &s.TaskID, &s.TaskRevision, &s.TaskName, &s.TriggerID, &s.ScheduledForMS, &s.RetryOf,
		&s.Status, &s.ErrorCode, &s.ErrorSummary, &s.ExitCode, &s.CreatedAtMS, &s.StartedAtMS, &s.FinishedAtMS,
		&d.TriggerRevision, &d.TriggerDigest, &d.TaskDigest, &d.SnapshotRef, &d.TriggerType, &d.ExecutionOrigin,
		&d.ExecutionOwner, &d.TriggeredBy, &d.Version, &d.QueuedAtMS, &d.CancelRequestedAtMS, &d.CancelReason,
		&d.Timezone, &d.Attention, &d.runbookTmpl, &d.logTmpl, &d.RetrySafe, &d.RetryNote}
}

func attemptsOf(ctx context.Context, q pg.Querier, id uuid.UUID) ([]AttemptDetail, error) {
	rows, err := q.Query(ctx, `
		SELECT id, attempt, status, worker_id, lease_expires_at_ms, deadline_at_ms, created_at_ms, started_at_ms,
			finished_at_ms, exit_code, error_code, error_summary
		FROM run_attempts WHERE run_id = $1 ORDER BY attempt`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[AttemptDetail])
}

func eventsOf(ctx context.Context, q pg.Querier, id uuid.UUID) ([]Event, error) {
	rows, err := q.Query(ctx, `
		SELECT e.sequence, e.type, e.actor_type, e.actor_id, e.payload, e.created_at_ms,
			CASE WHEN e.actor_type = 'user' THEN (SELECT coalesce(u.name, u.email, u.subject) FROM users u WHERE u.id::text = e.actor_id) END
		FROM run_events e WHERE e.run_id = $1 ORDER BY e.sequence LIMIT $2`, id, maxEvents+1)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
}

// link fills the placeholders of a Task's URL template. It returns "" for anything that is not an https URL then,
// whatever publishing let through: the page makes a link of it.
func (d *Detail) link(template *string) string {
	if template == nil {
		return ""
	}
	attempt := ""
	if n := len(d.Attempts); n > 0 {
		attempt = d.Attempts[n-1].ID.String()
	}
	filled := strings.NewReplacer("{run}", d.ID.String(), "{attempt}", attempt, "{task}", url.PathEscape(d.TaskID),
		"{project}", url.PathEscape(d.ProjectID)).Replace(*template)
	u, err := url.Parse(filled)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	return u.String()
}
