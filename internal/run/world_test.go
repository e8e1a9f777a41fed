package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

// world is one database with the definitions of [manifest].
type world struct {
	*pgtest.Database
	t       *testing.T
	super   *pgxpool.Pool
	runtime *pgxpool.Pool
	nowMS   int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	w := &world{Database: d, t: t, super: d.Super(t), runtime: d.Pool(t, migrations.RoleRuntime)}
	w.nowMS = runtest.Clock(t, w.super)
	return w
}

// admit admits a Run, queued ago before now.
func (w *world) admit(ago time.Duration) uuid.UUID {
	w.t.Helper()
	at := w.nowMS - ago.Milliseconds()
	return runtest.Admit(w.t, w.Database, "ops", "hourly", at, at)
}

// exec runs sql as superuser with triggers and foreign keys off, so that a test can make any state whatever.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if tag := pgtest.Force(w.t, w.super, sql, args...); tag.Update() && tag.RowsAffected() == 0 {
		w.t.Fatalf("%s: no row changed", sql)
	}
}

func value[T any](w *world, sql string, args ...any) T {
	w.t.Helper()
	return pgtest.Value[T](w.t, w.super, sql, args...)
}

// everything is the whole of a Run as text, to see whether anything of it changed.
func (w *world) everything(id uuid.UUID) string {
	w.t.Helper()
	return value[string](w, everythingSQL, id)
}

const everythingSQL = `SELECT jsonb_pretty(jsonb_build_array(to_jsonb(r),
	(SELECT jsonb_agg(to_jsonb(a) ORDER BY attempt) FROM run_attempts a WHERE run_id = r.id),
	(SELECT jsonb_agg(to_jsonb(e) ORDER BY sequence) FROM run_events e WHERE run_id = r.id))) FROM runs r WHERE id = $1`

// numbering says what is wrong with the numbers of the Events of a Run, or "".
const numberingSQL = `SELECT CASE WHEN array_agg(e.sequence ORDER BY e.sequence) IS DISTINCT FROM array(SELECT generate_series(1, max(r.event_sequence)))
	THEN format('Events %s, event_sequence %s', array_agg(e.sequence ORDER BY e.sequence), max(r.event_sequence)) ELSE '' END
	FROM runs r LEFT JOIN run_events e ON e.run_id = r.id WHERE r.id = $1`

func (w *world) dispatch() run.Work {
	w.t.Helper()
	work, err := run.Dispatch(w.t.Context(), w.runtime, "worker-1", time.Minute)
	if err != nil {
		w.t.Fatalf("Dispatch() = %v", err)
	}
	return work
}

// begin is a transaction that stays open until the test ends it, or ends.
func (w *world) begin(pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	w.t.Helper()
	tx, err := pool.BeginTx(w.t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// waiting blocks until n sessions wait for a lock.
func (w *world) waiting(n int) {
	w.t.Helper()
	pgtest.AwaitLocks(w.t, w.super, n)
}
