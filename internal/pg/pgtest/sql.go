package pgtest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// A T is a test: testing's, or one of rapid's. What follows ends it when the database refuses.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Exec runs one statement.
func Exec(t T, q pg.Querier, sql string, args ...any) {
	t.Helper()
	if _, err := q.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value reads a single value: exactly one row of one column.
func Value[V any](t T, q pg.Querier, sql string, args ...any) V {
	t.Helper()
	list := Column[V](t, q, sql, args...)
	if len(list) != 1 {
		t.Fatalf("%s: %d rows, want 1", sql, len(list))
	}
	return list[0]
}

// Column reads the rows of one column.
func Column[V any](t T, q pg.Querier, sql string, args ...any) []V {
	t.Helper()
	rows, err := q.Query(context.Background(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[V])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

// Texts reads whole rows as PostgreSQL spells them, such as `(1,two)`.
func Texts(t T, q pg.Querier, sql string, args ...any) []string {
	t.Helper()
	return Column[string](t, q, "SELECT r::text FROM ("+sql+") AS r", args...)
}

// Force runs one statement with triggers and foreign keys off, so that a test can make any state whatever. It needs a
// superuser's pool.
func Force(t T, super *pgxpool.Pool, sql string, args ...any) (tag pgconn.CommandTag) {
	t.Helper()
	err := pgx.BeginFunc(context.Background(), super, func(tx pgx.Tx) error {
		if _, err := tx.Exec(context.Background(), "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		var err error
		tag, err = tx.Exec(context.Background(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag
}

// AwaitLock returns when some session of q's database waits for a lock.
func AwaitLock(t T, q pg.Querier) {
	t.Helper()
	awaitLocks(t, q, func(n int) bool { return n > 0 })
}

// AwaitLocks returns when exactly n sessions of q's database wait for a lock.
func AwaitLocks(t T, q pg.Querier, n int) {
	t.Helper()
	awaitLocks(t, q, func(waiting int) bool { return waiting == n })
}

func awaitLocks(t T, q pg.Querier, enough func(waiting int) bool) {
	t.Helper()
	const sql = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	waiting := 0
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if waiting = Value[int](t, q, sql); enough(waiting) {
			return
		}
	}
	t.Fatalf("after 30 s %d sessions wait for a lock", waiting)
}
