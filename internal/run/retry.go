package run

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// RetryKey is the idempotency key of the retry that mutation makes, unique within its Project.
func RetryKey(mutation uuid.UUID) string { return "ql3:run-manual-retry:v1:" + mutation.String() }

// Source is a Run as whoever wants to retry or stop it needs it, with the newest of its Attempts and its pinned plan.
type Source struct {
	ID                uuid.UUID
	ProjectID         string
	TaskID            string
	TaskRevision      int64
	SnapshotRef       string
	ParentRunID       *uuid.UUID
	TriggerType       string
	ExecutionOwner    string
	Status            Status
	Version           int64
	CreatedAtMS       int64
	FinishedAtMS      *int64
	CancelRequestedMS *int64
	Executor          string // of the newest Attempt; "" if there is none
	ExecutionID       string // "" if the execution revision is gone
	ExecutionContent  string
	ExecutionDigest   string
	TaskEnabled       bool // of the Task's current revision
	TaskHead          int64
	Retries           int
	NewestRetry       *uuid.UUID
	NowMS             int64 // the database clock of the reading
}

// sourceSQL reads a Source; a lock clause may follow.
const sourceSQL = `
SELECT r.id, r.project_id, r.task_id, r.task_revision, r.task_snapshot_ref, r.parent_run_id, r.trigger_type,
    r.execution_owner, r.status, r.version, r.created_at_ms, r.finished_at_ms, r.cancel_requested_at_ms,
    coalesce((SELECT a.executor_type FROM run_attempts a WHERE a.run_id = r.id ORDER BY a.attempt DESC LIMIT 1), ''),
    coalesce(e.id, ''), coalesce(e.content, ''), coalesce(e.content_digest, ''), coalesce(head.enabled, false), coalesce(head.revision, 0),
    (SELECT count(*) FROM runs c WHERE c.retry_of_run_id = r.id),
    (SELECT c.id FROM runs c WHERE c.retry_of_run_id = r.id ORDER BY c.created_at_ms DESC, c.id DESC LIMIT 1), ` + pg.ClockMS + `
FROM runs r
LEFT JOIN task_execution_revisions e ON e.project_id = r.project_id AND e.task_id = r.task_id AND e.task_revision = r.task_revision
LEFT JOIN task_definitions t ON t.project_id = r.project_id AND t.task_id = r.task_id
LEFT JOIN task_definition_revisions head ON head.project_id = t.project_id AND head.task_id = t.task_id AND head.revision = t.current_revision
WHERE r.project_id = $1 AND r.id = ANY($2) ORDER BY r.id`

// ReadSource reads the Run without a lock. A Run of another Project is [ErrNotFound], like a missing one.
func ReadSource(ctx context.Context, q pg.Querier, project string, id uuid.UUID) (_ Source, err error) {
	defer pg.Wrap(&err, "run.ReadSource(%s)", id)
	list, err := sourcesOf(ctx, q, sourceSQL, project, []uuid.UUID{id})
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Source{}, err
	}
	return list[id], nil
}

// ReadSources reads those of the Runs that the Project has, without a lock.
func ReadSources(ctx context.Context, q pg.Querier, project string, ids []uuid.UUID) (_ map[uuid.UUID]Source, err error) {
	defer pg.Wrap(&err, "run.ReadSources(%d)", len(ids))
	return sourcesOf(ctx, q, sourceSQL, project, ids)
}

// LockSources reads those of the Runs that the Project has and holds them until tx ends, locked in the order of their ids.
func LockSources(ctx context.Context, tx pgx.Tx, project string, ids []uuid.UUID) (_ map[uuid.UUID]Source, err error) {
	defer pg.Wrap(&err, "run.LockSources(%d)", len(ids))
	return sourcesOf(ctx, tx, sourceSQL+" FOR UPDATE OF r", project, ids)
}

func sourcesOf(ctx context.Context, q pg.Querier, sql, project string, ids []uuid.UUID) (map[uuid.UUID]Source, error) {
	rows, err := q.Query(ctx, sql, project, ids)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Source])
	byID := make(map[uuid.UUID]Source, len(list))
	for _, s := range list {
		byID[s.ID] = s
	}
	return byID, err
}

// RetryCreated is the payload of run.created of a retry, and the whole identity of the mutation that made it.
type RetryCreated struct {
	MutationID         uuid.UUID `json:"mutation_id"`
	RetryOf            uuid.UUID `json:"retry_of_run_id"`
	UserID             uuid.UUID `json:"user_id"`
	SourceStatus       Status    `json:"source_status"`
	SourceVersion      int64     `json:"source_version"`
	InheritRetryPolicy bool      `json:"inherit_retry_policy"` // always false
	AuthenticationID   uuid.UUID `json:"authentication_id"`    // the proof
	AuditEventID       uuid.UUID `json:"audit_event_id"`
	ProjectVersion     int64     `json:"project_version"`
	BindingVersion     int64     `json:"binding_version"`
	Role               string    `json:"role"`
	PlanDigest         string    `json:"plan_digest"` // of the execution revision
	SourceDigest       string    `json:"source_digest"`
	Reason             string    `json:"reason"`
	BatchID            uuid.UUID `json:"batch_id,omitzero"` // of one that was made with others
}

// Retry is one retry as it is in the ledger.
type Retry struct {
	RunID     uuid.UUID
	AttemptID uuid.UUID
	Created   RetryCreated
	AtMS      int64
}

// FindRetry returns the retry that mutation made, or [ErrNotFound]. Its identity comes from the immutable Event.
func FindRetry(ctx context.Context, q pg.Querier, project string, mutation uuid.UUID) (r Retry, err error) {
	defer pg.Wrap(&err, "run.FindRetry(%s)", mutation)
	err = q.QueryRow(ctx, `
		SELECT r.id, e.attempt_id, e.payload, e.created_at_ms FROM runs r JOIN run_events e ON e.run_id = r.id AND e.sequence = 1
		WHERE r.project_id = $1 AND r.idempotency_key = $2`, project, RetryKey(mutation)).Scan(&r.RunID, &r.AttemptID, &r.Created, &r.AtMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return Retry{}, ErrNotFound
	}
	return r, err
}

// insertRetrySQL copies from the source what a retry inherits, and nothing else: no trigger, no occurrence, no policy.
const insertRetrySQL = `
WITH made AS (
    INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin,
        triggered_by, request_id, step_up_proof_id, status, event_sequence, priority, idempotency_key, input_ref, created_at_ms, queued_at_ms)
    SELECT $1, s.project_id, s.task_id, s.task_revision, s.task_name, s.task_snapshot_ref, s.id, 'run_manual_retry', 'manual',
        $4, nullif($5, ''), $6, 'queued', 2, s.priority, $7, s.input_ref, $8, $8
    FROM runs s WHERE s.id = $9
    RETURNING id
), attempt AS (
    INSERT INTO run_attempts (id, run_id, attempt, status, executor_type, created_at_ms) SELECT $2, id, 1, 'claimed', 'remote_worker', $8 FROM made
)
INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, payload, created_at_ms)
SELECT e.id, made.id, e.sequence, e.type, 'user', $4, $2, e.payload, $8
FROM made, (VALUES ($3::uuid, 1, 'run.created', $10::jsonb), (gen_random_uuid(), 2, 'run.queued', '{}'::jsonb)) AS e(id, sequence, type, payload)`

// InsertRetry makes the new queued Run, its Attempt and its two Events at atMS, the database clock of the transaction.
// The source must be locked.
func InsertRetry(ctx context.Context, tx pgx.Tx, c RetryCreated, requestID string, atMS int64) (r Retry, err error) {
	defer pg.Wrap(&err, "run.InsertRetry(%s)", c.RetryOf)
	payload, err := json.Marshal(c)
	if err != nil {
		return Retry{}, err
	}
	r = Retry{RunID: NewID(atMS), AttemptID: NewID(atMS), Created: c, AtMS: atMS}
	tag, err := tx.Exec(ctx, insertRetrySQL, r.RunID, r.AttemptID, NewID(atMS), c.UserID.String(), requestID, c.AuthenticationID,
		RetryKey(c.MutationID), atMS, c.RetryOf, string(payload))
	if err == nil && tag.RowsAffected() != 2 {
		err = ErrLost
	}
	return r, err
}

// RetriesSince says when user made each manual retry in project since sinceMS, the oldest first. Read in a SERIALIZABLE
// transaction, it holds until that commits.
func RetriesSince(ctx context.Context, q pg.Querier, project string, user uuid.UUID, sinceMS int64) (_ []int64, err error) {
	defer pg.Wrap(&err, "run.RetriesSince(%s)", project)
	rows, err := q.Query(ctx, `
		SELECT created_at_ms FROM runs
		WHERE project_id = $1 AND triggered_by = $2 AND created_at_ms > $3 AND trigger_type = 'run_manual_retry' ORDER BY created_at_ms`,
		project, user.String(), sinceMS)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// RequestCancel records that a user wants the Run stopped. It never writes the status: whoever executes it does.
func RequestCancel(ctx context.Context, tx pgx.Tx, s Source, user uuid.UUID, payload any, atMS int64) (err error) {
	defer pg.Wrap(&err, "run.RequestCancel(%s)", s.ID)
	body, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		WITH asked AS (
			UPDATE runs SET cancel_requested_at_ms = $3, cancel_reason = 'user', version = version + 1, event_sequence = event_sequence + 1
			WHERE id = $1 AND version = $2 AND cancel_requested_at_ms IS NULL RETURNING id, event_sequence
		)
		INSERT INTO run_events (id, run_id, sequence, type, dedupe_key, actor_type, actor_id, payload, created_at_ms)
		SELECT $4, id, event_sequence, 'run.cancel_requested', 'cancel_requested', 'user', $5, $6::jsonb, $3 FROM asked`,
		s.ID, s.Version, atMS, NewID(atMS), user.String(), string(body))
	if err == nil && tag.RowsAffected() != 1 {
		err = ErrLost
	}
	return err
}
