package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/qinglong/console/internal/pg"
)

// Claim is a lease on one Schedule and everything that was true when it was taken. The decision is made from it alone,
// and the commit compares it with what is true then.
type Claim struct {
	ProjectID      string
	ProjectVersion int64
	TriggerID      string

	tid          pgtype.TID // where the claimed row is; looked up by it, no index page is read
	Owner        string
	Token        uuid.UUID
	Version      int64
	ExpiresAtMS  int64
	AcquiredAtMS int64 // the database clock of the claim

	StateVersion    int64
	TriggerRevision int64
	TriggerContent  string
	TriggerDigest   string
	BaseAtMS        int64  // where the search starts while CursorMS is nil
	CursorMS        *int64 // the instant that is due; nil before the first
	CatchUp         bool   // it stands for all that a pause missed, and is admitted however late it is

	TaskID          string
	TaskRevision    int64
	TaskDigest      string
	TaskName        string
	ExecutionID     string
	ExecutionDigest string

	TakenFrom string // whose expired claim this one replaced, or ""
}

// claimSQL takes due Schedules under a lease of $2 ms for $1. Their number is part of the text, not a parameter: the
// planner must know that it is small. The joins stand inside the locking CTE so that a
// row that was waited for is checked against them again. The expression over next_fire_at_ms is the index's own.
const claimSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms
), due AS MATERIALIZED (
    SELECT s.project_id, s.trigger_id, s.claim_owner AS taken_from, s.claim_expires_at_ms AS lapsed_at_ms, s.next_fire_at_ms,
        p.version AS project_version, tr.content, tr.content_digest, tr.task_id, tr.task_revision, tr.task_content_digest,
        task.name AS task_name, e.id AS execution_id, e.content_digest AS execution_digest
    FROM trigger_schedules s
    JOIN triggers t ON t.project_id = s.project_id AND t.trigger_id = s.trigger_id AND t.current_revision = s.trigger_revision
    JOIN trigger_revisions tr ON tr.project_id = s.project_id AND tr.trigger_id = s.trigger_id AND tr.revision = s.trigger_revision
        AND tr.enabled AND tr.kind = 'qinglong/cron@v1'
    JOIN task_definition_revisions task ON task.project_id = tr.project_id AND task.task_id = tr.task_id AND task.revision = tr.task_revision
    JOIN task_execution_revisions e ON e.project_id = tr.project_id AND e.task_id = tr.task_id AND e.task_revision = tr.task_revision
    JOIN projects p ON p.id = s.project_id AND p.status = 'active'
    WHERE s.enabled AND coalesce(s.next_fire_at_ms, -1) <= (SELECT ms FROM clock)
        AND (s.claim_expires_at_ms IS NULL OR s.claim_expires_at_ms <= (SELECT ms FROM clock))
    ORDER BY coalesce(s.next_fire_at_ms, -1), s.project_id, s.trigger_id
    LIMIT %d FOR UPDATE OF s SKIP LOCKED
), claimed AS (
    UPDATE trigger_schedules s SET claim_owner = $1, claim_token = gen_random_uuid(), claim_version = s.claim_version + 1,
        claim_expires_at_ms = clock.ms + $2, state_version = s.state_version + 1, updated_at_ms = clock.ms
    FROM due, clock WHERE s.project_id = due.project_id AND s.trigger_id = due.trigger_id
    RETURNING s.ctid AS tid, s.claim_token, s.claim_version, s.claim_expires_at_ms, s.updated_at_ms, s.state_version,
        s.trigger_revision, s.base_at_ms, s.catch_up, s.blocked_reason, due.*
), takeovers AS (
    INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, claim_owner, claim_version, reason, created_at_ms)
    SELECT project_id, trigger_id, trigger_revision, 'taken_over', next_fire_at_ms, next_fire_at_ms, $1, claim_version,
        'the claim of ' || taken_from || ' expired ' || (updated_at_ms - lapsed_at_ms) || ' ms before', updated_at_ms
    FROM claimed WHERE taken_from IS NOT NULL AND blocked_reason IS NULL
)
SELECT project_id, project_version, trigger_id, tid, claim_token, claim_version, claim_expires_at_ms, updated_at_ms, state_version,
    trigger_revision, content, content_digest, base_at_ms, next_fire_at_ms, catch_up, task_id, task_revision, task_content_digest, task_name,
    execution_id, execution_digest, coalesce(taken_from, '')
FROM claimed ORDER BY coalesce(next_fire_at_ms, -1), project_id, trigger_id`

// claim leases up to limit due Schedules to owner, earliest first, and returns none when none is due.
func claim(ctx context.Context, q pg.Querier, owner string, lease time.Duration, limit int) (_ []Claim, err error) {
	defer pg.Wrap(&err, "claim(%d)", limit)
	rows, err := q.Query(ctx, fmt.Sprintf(claimSQL, limit), owner, lease.Milliseconds())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Claim, error) {
		c := Claim{Owner: owner}
		err := row.Scan(&c.ProjectID, &c.ProjectVersion, &c.TriggerID, &c.tid, &c.Token, &c.Version, &c.ExpiresAtMS, &c.AcquiredAtMS,
			&c.StateVersion, &c.TriggerRevision, &c.TriggerContent, &c.TriggerDigest, &c.BaseAtMS, &c.CursorMS, &c.CatchUp, &c.TaskID,
			&c.TaskRevision, &c.TaskDigest, &c.TaskName, &c.ExecutionID, &c.ExecutionDigest, &c.TakenFrom)
		return c, err
	})
}
