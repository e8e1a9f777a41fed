package run

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// recoverBatch bounds one statement of Recover, recoverMost one call of it.
const (
	recoverBatch = 200
	recoverMost  = 20_000
)

// newest is the newest Attempt (a) of a Run (r).
const newest = `JOIN LATERAL (
    SELECT a.id, a.run_id, a.attempt, a.status, a.executor_type, a.worker_id, a.executor_handle, a.lease_expires_at_ms, a.deadline_at_ms,
        a.callback_sequence, a.started_at_ms, a.finished_at_ms, a.exit_code, a.error_code, a.error_summary
    FROM run_attempts a WHERE a.run_id = r.id ORDER BY a.attempt DESC LIMIT 1) a ON true`

// recoverSQL makes Runs lost that were handed to a worker whose lease has lapsed, or that has none: nobody living may
// move them any further. A row that somebody else has locked is somebody's work in hand.
const recoverSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms
), orphan AS MATERIALIZED (
    SELECT r.id AS run_id, a.id AS attempt_id, r.event_sequence + 1 AS sequence, gen_random_uuid() AS event_id,
        CASE WHEN a.lease_token IS NULL THEN 'lease_absent' ELSE 'lease_lapsed' END AS code
    FROM runs r JOIN run_attempts a ON a.run_id = r.id
    WHERE r.status IN ('dispatching', 'running') AND r.execution_owner = 'runtime' AND a.status IN ('starting', 'running')
        AND (a.lease_expires_at_ms IS NULL OR a.lease_expires_at_ms <= (SELECT ms FROM clock))
        AND ` + isNewest + `
    LIMIT $2 FOR UPDATE OF r, a SKIP LOCKED
), attempts AS (
    UPDATE run_attempts a SET status = 'lost', finished_at_ms = clock.ms, lease_token = NULL, lease_expires_at_ms = NULL, error_code = orphan.code
    FROM orphan, clock WHERE a.id = orphan.attempt_id
), events AS (
    INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, payload, created_at_ms)
    SELECT event_id, run_id, sequence, 'run.lost', 'recovery', $1, attempt_id, jsonb_build_object('error_code', code), clock.ms FROM orphan, clock
)
UPDATE runs r SET status = 'lost', version = version + 1, event_sequence = orphan.sequence, error_code = orphan.code
FROM orphan WHERE r.id = orphan.run_id`

// Recover settles what a start finds: a dispatching or running Run without a living lease becomes lost, with its
// Attempt and an Event, and whatever else is out of shape is left alone and shown by [NeedAttention]. It is bounded;
// actor names the replica. It returns how many Runs became lost.
func Recover(ctx context.Context, q pg.Querier, actor string) (lost int64, err error) {
	defer pg.Wrap(&err, "run.Recover(%s)", actor)
	for lost < recoverMost {
		tag, err := q.Exec(ctx, recoverSQL, actor, recoverBatch)
		if err != nil {
			return lost, err
		}
		lost += tag.RowsAffected()
		if tag.RowsAffected() < recoverBatch {
			break
		}
	}
	return lost, nil
}

// Attention is a Run that nobody will move by itself, and why.
type Attention struct {
	Summary
	Reason string `json:"needsAttention"`
}

// unsettled is a Run (r) that is not over.
const unsettled = `r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')`

// attentionSQL names the shapes of an unsettled Run that no component of this version takes further. A pristine Run is
// ordinary work, and a Run under a living lease is in good hands; both have no reason.
const attentionSQL = `CASE
    WHEN a.id IS NULL THEN 'it has no Attempt'
    WHEN r.status = 'lost' THEN 'lost: whether its command still runs, or ended and how, is not known; look at the worker'
    WHEN r.status = 'queued' AND NOT (` + pristine + `) THEN
        CASE WHEN r.cancel_requested_at_ms IS NOT NULL THEN 'queued with a request to cancel that nobody has taken up'
        ELSE 'queued, but its newest Attempt is not as admission leaves it' END
    WHEN r.status IN ('dispatching', 'running') AND a.status NOT IN ('starting', 'running') THEN 'its newest Attempt has ended and it has not'
    WHEN r.status IN ('dispatching', 'running') AND coalesce(a.lease_expires_at_ms, 0) <= clock.ms THEN 'the lease of its worker has lapsed; the next start of a replica makes it lost'
    WHEN r.status IN ('created', 'retry_wait') THEN 'no component of this version takes it further'
    END`

// examined bounds the Runs that [NeedAttention] looks at: under a backlog of a hundred thousand queued ones the overview
// must still answer. A queued Run further back is looked at when its turn has come nearer.
const examined = 2000

// NeedAttention lists up to n Runs of the Projects that need a person, the longest waiting first.
func NeedAttention(ctx context.Context, q pg.Querier, projects []string, n int) (_ []Attention, err error) {
	defer pg.Wrap(&err, "run.NeedAttention(%d)", n)
	rows, err := q.Query(ctx, fmt.Sprintf(`
		WITH clock AS MATERIALIZED (SELECT %s AS ms), unsettled AS MATERIALIZED (
			(SELECT * FROM runs r WHERE %s AND r.status <> 'queued' AND r.project_id = ANY($1) ORDER BY r.created_at_ms, r.id LIMIT $3)
			UNION ALL
			(SELECT * FROM runs r WHERE r.status = 'queued' AND r.project_id = ANY($1) ORDER BY r.priority DESC, r.queued_at_ms, r.id LIMIT $3))
		SELECT %s, reason FROM clock, unsettled r LEFT %s, LATERAL (SELECT %s AS reason) why
		WHERE reason IS NOT NULL ORDER BY r.created_at_ms, r.id LIMIT $2`,
		pg.ClockMS, unsettled, summaryColumns, newest, attentionSQL), projects, n, examined)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Attention])
}
