package scheduler

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// Running is a replica that ticked within the last 15 seconds, as whoever changes the schema must know it.
type Running struct {
	ID         string
	Version    string
	Schema     *int64 // that it was built for; nil for one from before version 9
	LastTickMS int64
	AgoMS      int64 // since its last tick
}

// Below reports whether a schema with that floor does not take the replica.
func (r Running) Below(floor int64) bool { return r.Schema == nil || *r.Schema < floor }

// ListRunning returns the replicas that run, by id. It is asked before a migration, so it reads every version of the
// schema: one without replicas, and one whose replicas do not say what they were built for.
func ListRunning(ctx context.Context, q pg.Querier) (_ []Running, err error) {
	defer pg.Wrap(&err, "scheduler.ListRunning()")
	var there bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('replicas') IS NOT NULL`).Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := q.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		SELECT r.id, r.version, (to_jsonb(r) ->> 'schema_version')::bigint, r.last_tick_at_ms, clock.ms - r.last_tick_at_ms
		FROM replicas r CROSS JOIN clock WHERE r.last_tick_at_ms > clock.ms - $1 ORDER BY r.id`, unattendedAfter.Milliseconds())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Running])
}
