package run

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// Occurrence is what makes a Run a cron Run.
type Occurrence struct {
	TriggerID       string
	TriggerRevision int64
	TriggerDigest   string
	ScheduledForMS  int64
}

// Key is the idempotency key of the Occurrence, unique within its Project.
func (o Occurrence) Key() string {
	return fmt.Sprintf("ql3:cron:v1:%s:%d:%d", o.TriggerID, o.TriggerRevision, o.ScheduledForMS)
}

// Admission is everything a new queued Run needs. AtMS is the database clock of its transaction.
type Admission struct {
	ProjectID       string
	TaskID          string
	TaskRevision    int64
	TaskName        string
	TaskSnapshotRef string // the execution revision's id
	Occurrence      Occurrence
	Actor           string // the replica that admits it
	AtMS            int64
	Created         any // payload of run.created; marshalled to a JSON object
}

// insertSQL writes Runs, Attempts and Events in one statement. A Run that is already there under its key is left as it
// is and brings no Attempt and no Event; the statement returns the keys it did insert.
const insertSQL = `
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[],
        $10::text[], $11::bigint[], $12::text[], $13::bigint[], $14::text[], $15::bigint[], $16::text[], $17::text[])
    AS n(id, attempt_id, created_event, queued_event, project_id, task_id, task_revision, task_name, task_snapshot_ref,
        trigger_id, trigger_revision, trigger_digest, scheduled_for_ms, key, at_ms, actor, payload)
), admitted AS (
    INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
        trigger_content_digest, scheduled_for_ms, trigger_type, execution_origin, status, event_sequence, idempotency_key,
        created_at_ms, queued_at_ms)
    SELECT id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
        trigger_digest, scheduled_for_ms, 'cron', 'scheduled', 'queued', 2, key, at_ms, at_ms FROM new
    ON CONFLICT (project_id, idempotency_key) DO NOTHING RETURNING id
), attempts AS (
    INSERT INTO run_attempts (id, run_id, attempt, status, executor_type, created_at_ms)
    SELECT attempt_id, id, 1, 'claimed', 'remote_worker', at_ms FROM new JOIN admitted USING (id)
), events AS (
    INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, payload, created_at_ms)
    SELECT created_event, id, 1, 'run.created', 'scheduler', actor, attempt_id, payload::jsonb, at_ms FROM new JOIN admitted USING (id)
    UNION ALL
    SELECT queued_event, id, 2, 'run.queued', 'scheduler', actor, attempt_id, '{}', at_ms FROM new JOIN admitted USING (id)
)
SELECT id FROM admitted`

// Admit inserts one queued Run with its claimed Attempt and its two Events for each Admission, in tx, and returns for
// each its id, or uuid.Nil where the Project already has a Run under that key: that is no error, and nothing of it is
// written.
func Admit(ctx context.Context, tx pgx.Tx, list []Admission) (_ []uuid.UUID, err error) {
	defer pg.Wrap(&err, "run.Admit(%d)", len(list))
	c, err := columnsOf(list)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, insertSQL, c.id, c.attempt, c.createdEvent, c.queuedEvent, c.project, c.task, c.taskRevision, c.taskName,
		c.snapshot, c.trigger, c.triggerRevision, c.triggerDigest, c.scheduledFor, c.key, c.at, c.actor, c.payload)
	if err != nil {
		return nil, err
	}
	inserted, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, err
	}
	return onlyInserted(c.id, inserted), nil
}

// columns is a list of Admissions by column, as unnest wants it.
type columns struct {
	id, attempt, createdEvent, queuedEvent                    []uuid.UUID
	project, task, taskName, snapshot, trigger, triggerDigest []string
	taskRevision, triggerRevision, scheduledFor, at           []int64
	key, actor, payload                                       []string
}

func columnsOf(list []Admission) (columns, error) {
	var c columns
	for _, a := range list {
		payload, err := json.Marshal(a.Created)
		if err != nil {
			return columns{}, err
		}
		c.id = append(c.id, NewID(a.AtMS))
		c.attempt = append(c.attempt, NewID(a.AtMS))
		c.createdEvent = append(c.createdEvent, NewID(a.AtMS))
		c.queuedEvent = append(c.queuedEvent, NewID(a.AtMS))
		c.project = append(c.project, a.ProjectID)
		c.task = append(c.task, a.TaskID)
		c.taskRevision = append(c.taskRevision, a.TaskRevision)
		c.taskName = append(c.taskName, a.TaskName)
		c.snapshot = append(c.snapshot, a.TaskSnapshotRef)
		c.trigger = append(c.trigger, a.Occurrence.TriggerID)
		c.triggerRevision = append(c.triggerRevision, a.Occurrence.TriggerRevision)
		c.triggerDigest = append(c.triggerDigest, a.Occurrence.TriggerDigest)
		c.scheduledFor = append(c.scheduledFor, a.Occurrence.ScheduledForMS)
		c.key = append(c.key, a.Occurrence.Key())
		c.at = append(c.at, a.AtMS)
		c.actor = append(c.actor, a.Actor)
		c.payload = append(c.payload, string(payload))
	}
	return c, nil
}

// onlyInserted blanks the ids that are not among inserted.
func onlyInserted(ids, inserted []uuid.UUID) []uuid.UUID {
	there := make(map[uuid.UUID]bool, len(inserted))
	for _, id := range inserted {
		there[id] = true
	}
	for i, id := range ids {
		if !there[id] {
			ids[i] = uuid.Nil
		}
	}
	return ids
}
