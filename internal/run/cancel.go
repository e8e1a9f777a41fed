package run

import (
	"context"

	"github.com/qinglong/console/internal/pg"
)

const cancelBatch = 50

// cancelQueuedSQL ends Runs that wait and that somebody has asked to stop: nobody has begun them, so nothing runs.
const cancelQueuedSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms
), waiting AS MATERIALIZED (
    SELECT r.id AS run_id, a.id AS attempt_id, r.event_sequence + 1 AS sequence, gen_random_uuid() AS event_id,
        greatest((SELECT ms FROM clock), r.queued_at_ms, a.created_at_ms) AS ms
    FROM runs r JOIN run_attempts a ON a.run_id = r.id
    WHERE r.status = 'queued' AND r.execution_owner = 'runtime' AND r.cancel_requested_at_ms IS NOT NULL
        AND a.status = 'claimed' AND a.worker_id IS NULL AND a.lease_expires_at_ms IS NULL
        AND ` + isNewest + `
    LIMIT $2 FOR UPDATE OF r, a SKIP LOCKED
), attempts AS (
    UPDATE run_attempts a SET status = 'cancelled', finished_at_ms = waiting.ms, error_code = 'cancelled' FROM waiting WHERE a.id = waiting.attempt_id
), events AS (
    INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, created_at_ms)
    SELECT event_id, run_id, sequence, 'run.cancelled', 'executor', $1, attempt_id, ms FROM waiting
)
UPDATE runs r SET status = 'cancelled', version = version + 1, event_sequence = waiting.sequence, finished_at_ms = waiting.ms, error_code = 'cancelled'
FROM waiting WHERE r.id = waiting.run_id`

// CancelQueued ends, as worker, Runs that were asked to stop before anybody began them, and returns how many.
func CancelQueued(ctx context.Context, q pg.Querier, worker string) (n int64, err error) {
	defer pg.Wrap(&err, "run.CancelQueued(%s)", worker)
	tag, err := q.Exec(ctx, cancelQueuedSQL, worker, cancelBatch)
	return tag.RowsAffected(), err
}
