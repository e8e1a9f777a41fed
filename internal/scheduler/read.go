package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/search"
)

// ErrNotFound reports that there is no such Schedule, or none the reader may see.
var ErrNotFound = errors.New("no such schedule")

// State is what a Schedule is doing, judged by the database clock.
type State string

// The states of a Schedule, the first that fits.
const (
	Paused   State = "paused"    // somebody holds its Trigger back
	Disabled State = "disabled"  // its Project, Task or Trigger is
	Blocked  State = "blocked"   // it cannot be decided
	Claimed  State = "claimed"   // a replica is deciding it
	Due      State = "due"       // waits to be claimed
	NeverRun State = "never_run" // waits for its first occurrence
	Waiting  State = "waiting"   // waits for its next occurrence
)

// States lists every State, what needs a look first.
func States() []State { return []State{Blocked, Due, Paused, Claimed, Waiting, NeverRun, Disabled} }

// nowSQL is the reading of the database clock with which a statement begins.
const nowSQL = "(SELECT ms FROM clock)"

// stateSQL is a Schedule's State; s is trigger_schedules.
const stateSQL = `CASE WHEN s.pause_id IS NOT NULL THEN 'paused' WHEN NOT s.enabled THEN 'disabled' WHEN s.blocked_reason IS NOT NULL THEN 'blocked'
    WHEN s.claim_expires_at_ms > ` + nowSQL + ` THEN 'claimed' WHEN coalesce(s.next_fire_at_ms, -1) <= ` + nowSQL + ` THEN 'due'
    WHEN s.last_scheduled_at_ms IS NULL THEN 'never_run' ELSE 'waiting' END`

// Summary is a Schedule as a list shows it. Times are UTC milliseconds of the database clock.
type Summary struct {
	ProjectID     string      `json:"projectId"`
	TriggerID     string      `json:"triggerId"`
	Revision      int64       `json:"triggerRevision"`
	State         State       `json:"state"`
	BlockedReason *string     `json:"blockedReason"`
	TaskID        string      `json:"taskId"`
	TaskRevision  int64       `json:"taskRevision"`
	NextMS        *int64      `json:"nextFireAtMs"`
	LastMS        *int64      `json:"lastScheduledAtMs"`
	ClaimOwner    *string     `json:"claimOwner"`
	ClaimExpires  *int64      `json:"claimExpiresAtMs"`
	LastRunID     *uuid.UUID  `json:"lastRunId"`
	LastRunStatus *run.Status `json:"lastRunStatus"`
	PauseID       *uuid.UUID  `json:"pauseId"` // with the three below: who holds it back now, since when, and why
	PausedBy      *string     `json:"pausedBy"`
	PausedMS      *int64      `json:"pausedAtMs"`
	PauseReason   *string     `json:"pauseReason"`
	Content       string      `json:"-"`
}

// Cursor is a position in the list of Schedules, ordered by their next occurrence; one without comes last.
type Cursor struct {
	NextMS    int64 // [noNext] when there is none
	ProjectID string
	TriggerID string
}

// noNext sorts a Schedule without a next occurrence after every other. It is a safe integer for any reader of JSON.
const noNext = 1<<53 - 1

// String spells c for a URL.
func (c Cursor) String() string { return fmt.Sprintf("%d_%s/%s", c.NextMS, c.ProjectID, c.TriggerID) }

// ParseCursor reads what [Cursor.String] spelled, and nothing else.
func ParseCursor(s string) (Cursor, error) {
	next, rest, _ := strings.Cut(s, "_")
	project, trigger, _ := strings.Cut(rest, "/")
	ms, err := strconv.ParseInt(next, 10, 64)
	c := Cursor{NextMS: ms, ProjectID: project, TriggerID: trigger}
	if err != nil || ms < -1 || ms > noNext || project == "" || trigger == "" || c.String() != s || len(s) > 200 {
		return Cursor{}, errors.New("not a place in a list of schedules")
	}
	return c, nil
}

const summaryColumns = `s.project_id, s.trigger_id, s.trigger_revision, s.state, s.blocked_reason, g.task_id, g.task_revision,
    s.next_fire_at_ms, s.last_scheduled_at_ms, s.claim_owner, s.claim_expires_at_ms, last.id, last.status,
    s.pause_id, coalesce(pauser.name, pauser.email, pauser.subject), pause.paused_at_ms, pause.reason, g.content`

// judged is every Schedule with its state; it needs clock.
const judged = `SELECT s.*, ` + stateSQL + ` AS state, CASE WHEN s.enabled THEN coalesce(s.next_fire_at_ms, -1) ELSE 9007199254740991 END AS sort
    FROM trigger_schedules s`

// alongside is what a summary says besides the Schedule itself.
const alongside = `LEFT JOIN LATERAL (SELECT r.id, r.status FROM runs r
    WHERE r.project_id = s.project_id AND r.trigger_id = s.trigger_id AND r.scheduled_for_ms = s.last_scheduled_at_ms
    ORDER BY r.created_at_ms DESC LIMIT 1) last ON true
LEFT JOIN trigger_pauses pause ON pause.id = s.pause_id LEFT JOIN users pauser ON pauser.id = pause.paused_by`

// Beside is what a list says of its Runs besides what they are, and of Triggers.
type Beside struct {
	Answers map[uuid.UUID]run.LaterRun // what stands for a Run now
	Paused  map[search.Trigger]bool    // Triggers that somebody holds back
}

// ReadBeside reads what stands for some Runs of the Projects now, and which of some Triggers somebody holds back, in one
// breath.
func ReadBeside(ctx context.Context, q pg.Querier, projects []string, runs []uuid.UUID, triggers []search.Trigger) (b Beside, err error) {
	defer pg.Wrap(&err, "scheduler.ReadBeside(%d runs, %d triggers)", len(runs), len(triggers))
	var batch pgx.Batch
	run.QueueAnswers(&batch, projects, runs, &b.Answers)
	queuePaused(&batch, triggers, &b.Paused)
	if batch.Len() > 0 {
		err = q.SendBatch(ctx, &batch).Close()
	}
	return b, err
}

func queuePaused(batch *pgx.Batch, triggers []search.Trigger, paused *map[search.Trigger]bool) {
	if len(triggers) == 0 {
		return
	}
	var projects, ids []string
	for _, t := range triggers {
		projects, ids = append(projects, t.ProjectID), append(ids, t.ID)
	}
	batch.Queue(`
		SELECT s.project_id, s.trigger_id FROM unnest($1::text[], $2::text[]) AS t(project, trigger)
		JOIN trigger_schedules s ON s.project_id = t.project AND s.trigger_id = t.trigger WHERE s.pause_id IS NOT NULL`, projects, ids).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[search.Trigger])
		*paused = map[search.Trigger]bool{}
		for _, t := range list {
			(*paused)[t] = true
		}
		return err
	})
}
