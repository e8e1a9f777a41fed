package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// ErrNoWork reports that no Run waits to be dispatched.
var ErrNoWork = errors.New("no run waits to be dispatched")

// Lease is the right to execute one Attempt: whoever names its token may move the Attempt and its Run.
type Lease struct {
	RunID     uuid.UUID
	AttemptID uuid.UUID
	Token     uuid.UUID
	Worker    string
}

// Work is one Run handed to a worker, and the execution revision it is pinned to.
type Work struct {
	Lease
	ProjectID    string
	TaskID       string
	TaskRevision int64
	Attempt      int
}

// isNewest holds for a Run's newest Attempt (a).
const isNewest = `NOT EXISTS (SELECT FROM run_attempts later WHERE later.run_id = a.run_id AND later.attempt > a.attempt)`

// pristine is the shape of ordinary work: an admitted Run (r) and its newest Attempt (a) that nobody has touched. It
// reads no lease token, which pages may not see: a CHECK ties the token to its expiry.
const pristine = `r.status = 'queued' AND r.execution_owner = 'runtime' AND r.queued_at_ms IS NOT NULL
    AND num_nonnulls(r.cancel_requested_at_ms, r.started_at_ms, r.output_ref, r.error_code, r.error_summary) = 0
    AND a.status = 'claimed' AND a.executor_type = 'remote_worker' AND a.callback_sequence = 0
    AND num_nonnulls(a.worker_id, a.executor_handle, a.lease_expires_at_ms, a.deadline_at_ms, a.started_at_ms,
        a.finished_at_ms, a.exit_code, a.error_code, a.error_summary) = 0
    AND ` + isNewest

const dispatchSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms
), next AS MATERIALIZED (
    SELECT r.id AS run_id, a.id AS attempt_id, r.event_sequence + 1 AS sequence
    FROM runs r JOIN run_attempts a ON a.run_id = r.id
    WHERE ` + pristine + `
    ORDER BY r.priority DESC, r.queued_at_ms, r.id LIMIT 1
    FOR UPDATE OF r, a SKIP LOCKED
), attempt AS (
    UPDATE run_attempts a SET status = 'starting', worker_id = $1, lease_token = $2, lease_expires_at_ms = clock.ms + $3
    FROM next, clock WHERE a.id = next.attempt_id RETURNING a.attempt
), event AS (
    INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, created_at_ms)
    SELECT $4, run_id, sequence, 'run.dispatching', 'executor', $1, attempt_id, clock.ms FROM next, clock
)
UPDATE runs r SET status = 'dispatching', version = version + 1, event_sequence = next.sequence
FROM next, attempt WHERE r.id = next.run_id
RETURNING r.id, next.attempt_id, r.project_id, r.task_id, r.task_revision, attempt.attempt`

// Dispatch hands the longest waiting pristine Run to worker under a lease of d, or returns [ErrNoWork].
func Dispatch(ctx context.Context, q pg.Querier, worker string, d time.Duration) (_ Work, err error) {
	w := Work{Lease: Lease{Worker: worker, Token: uuid.New()}}
	row := q.QueryRow(ctx, dispatchSQL, worker, w.Token, d.Milliseconds(), NewID(time.Now().UnixMilli()))
	err = row.Scan(&w.RunID, &w.AttemptID, &w.ProjectID, &w.TaskID, &w.TaskRevision, &w.Attempt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Work{}, ErrNoWork
	}
	defer pg.Wrap(&err, "run.Dispatch(%s)", worker)
	return w, err
}

// Renew extends the lease to d from now. It reports whether somebody has asked to cancel the Run.
func Renew(ctx context.Context, q pg.Querier, l Lease, d time.Duration) (cancel bool, err error) {
	err = q.QueryRow(ctx, `
		UPDATE run_attempts a SET lease_expires_at_ms = `+pg.ClockMS+` + $3
		FROM runs r WHERE r.id = a.run_id AND a.id = $1 AND a.lease_token = $2 AND a.finished_at_ms IS NULL
		RETURNING r.cancel_requested_at_ms IS NOT NULL`, l.AttemptID, l.Token, d.Milliseconds()).Scan(&cancel)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, ErrLost
	}
	defer pg.Wrap(&err, "run.Renew(%s)", l.RunID)
	return cancel, err
}

// Outcome is how an Attempt, and with it its Run, ended.
type Outcome struct {
	Status   Status // Succeeded, Failed, Cancelled or TimedOut
	ExitCode *int
	Code     string // error_code; empty when it succeeded
	Summary  string // error_summary, at most 1,000 runes, already free of secrets
}

// Start records that the command runs and must have ended after timeout.
func Start(ctx context.Context, q pg.Querier, l Lease, timeout time.Duration) (err error) {
	defer pg.Wrap(&err, "run.Start(%s)", l.RunID)
	return l.move(ctx, q, Running, Outcome{}, timeout)
}

// Finish records how it ended and gives the lease back.
func Finish(ctx context.Context, q pg.Querier, l Lease, o Outcome) (err error) {
	defer pg.Wrap(&err, "run.Finish(%s, %s)", l.RunID, o.Status)
	if !o.Status.Terminal() {
		return fmt.Errorf("%q is no end of a Run", o.Status)
	}
	return l.move(ctx, q, o.Status, o, 0)
}

// moveSQL writes times by the database clock, but never one before what it follows: a clock that was set back must not
// keep an end from being recorded.
const moveSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms
), held AS MATERIALIZED (
    SELECT r.id AS run_id, a.id AS attempt_id, r.event_sequence + 1 AS sequence,
        greatest((SELECT ms FROM clock), r.queued_at_ms, r.started_at_ms, a.created_at_ms, a.started_at_ms) AS ms
    FROM run_attempts a JOIN runs r ON r.id = a.run_id
    WHERE a.id = $1 AND a.lease_token = $2 AND a.status = ANY($3) AND r.status = ANY($4)
    FOR UPDATE OF r, a
), attempt AS (
    UPDATE run_attempts a SET status = $5,
        started_at_ms = CASE WHEN $5 = 'running' THEN held.ms ELSE a.started_at_ms END,
        deadline_at_ms = CASE WHEN $5 = 'running' THEN held.ms + $6 ELSE a.deadline_at_ms END,
        finished_at_ms = CASE WHEN $5 <> 'running' THEN held.ms END,
        lease_token = CASE WHEN $5 = 'running' THEN a.lease_token END,
        lease_expires_at_ms = CASE WHEN $5 = 'running' THEN a.lease_expires_at_ms END,
        exit_code = $7, error_code = nullif($8, ''), error_summary = nullif($9, '')
    FROM held WHERE a.id = held.attempt_id
), event AS (
    INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, payload, created_at_ms)
    SELECT $10, run_id, sequence, 'run.' || $5, 'executor', $11, attempt_id,
        jsonb_strip_nulls(jsonb_build_object('exit_code', $7::int, 'error_code', nullif($8, ''))), held.ms FROM held
)
UPDATE runs r SET status = $5, version = version + 1, event_sequence = held.sequence,
    started_at_ms = CASE WHEN $5 = 'running' THEN held.ms ELSE r.started_at_ms END,
    finished_at_ms = CASE WHEN $5 <> 'running' THEN held.ms END,
    error_code = nullif($8, ''), error_summary = nullif($9, '')
FROM held WHERE r.id = held.run_id`

// move takes the Attempt and its Run, both under the lease, to one state: the same word names it in both.
func (l Lease) move(ctx context.Context, q pg.Querier, to Status, o Outcome, timeout time.Duration) error {
	tag, err := q.Exec(ctx, moveSQL, l.AttemptID, l.Token, sources(AttemptMoves, to), sources(RunMoves, to), string(to),
		timeout.Milliseconds(), o.ExitCode, o.Code, o.Summary, NewID(time.Now().UnixMilli()), l.Worker)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return ErrLost
	}
	return nil
}
