package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// newLedger is a database with a table of numbers, whose reference to one another is checked at COMMIT.
func newLedger(t *testing.T) (*pgtest.Database, *pgxpool.Pool) {
	t.Helper()
	d := pgtest.New(t)
	pool := d.Super(t)
	pgtest.Exec(t, pool, `CREATE TABLE ledger (id integer PRIMARY KEY, follows integer CONSTRAINT ledger_follows REFERENCES ledger DEFERRABLE INITIALLY DEFERRED)`)
	return d, pool
}

func entries(t *testing.T, q pg.Querier) int {
	return pgtest.Value[int](t, q, `SELECT count(*) FROM ledger`)
}

// raise makes the server report state for the transaction.
func raise(ctx context.Context, tx pgx.Tx, state string) error {
	_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '`+state+`'; END $$`)
	return err
}

func TestInTxRepeatsOnlyWhatTheServerRolledBackForOthers(t *testing.T) {
	tests := []struct {
		name, state string
		tries       int
	}{
		{"serialization failure", "40001", 2},
		{"deadlock", "40P01", 2},
		{"completion unknown", "40003", 1},
		{"integrity within a rollback", "40002", 1},
		{"unique violation", "23505", 1},
		{"lock not available", "55P03", 1},
		{"statement timeout", "57014", 1},
		{"server stops", "57P01", 1},
		{"internal error", "XX000", 1},
	}
	_, pool := newLedger(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tries := 0
			err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				if tries++; tries == 1 {
					return raise(t.Context(), tx, tt.state)
				}
				_, err := tx.Exec(t.Context(), `INSERT INTO ledger VALUES ($1)`, i)
				return err
			})
			if tries != tt.tries || (err == nil) != (tt.tries == 2) || (err != nil && !pg.HasCode(err, tt.state)) {
				t.Errorf("InTx(%s once) = %v after %d tries, want %d", tt.state, err, tries, tt.tries)
			}
		})
	}
	if got := entries(t, pool); got != 2 {
		t.Errorf("%d entries, want the 2 of the transactions that were repeated", got)
	}
}

// Another transaction reads what this one writes and writes what it has read, and is first.
func TestInTxRepeatsARealConflict(t *testing.T) {
	_, pool := newLedger(t)
	appendOne := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO ledger SELECT count(*) FROM ledger`)
		return err
	}
	tries := 0
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if tries++; tries == 1 {
			pgtest.Value[int](t, tx, `SELECT count(*) FROM ledger`) // takes the snapshot
			if err := pg.InTx(t.Context(), pool, appendOne); err != nil {
				return err
			}
		}
		return appendOne(tx)
	})
	if err != nil || tries != 2 || entries(t, pool) != 2 {
		t.Errorf("InTx(overtaken once) = %v after %d tries with %d entries, want 2 and 2", err, tries, entries(t, pool))
	}
}

func TestInTxGivesUpAtTheDeadlineAndSaysWhatTookTheTime(t *testing.T) {
	_, pool := newLedger(t)
	conflict := func(ctx context.Context, tx pgx.Tx, _ int) error { return raise(ctx, tx, "40001") }
	tests := []struct {
		name string
		fn   func(ctx context.Context, tx pgx.Tx, try int) error
	}{
		{"between two tries", conflict},
		{"in the second try", func(ctx context.Context, tx pgx.Tx, try int) error {
			if try == 1 {
				return conflict(ctx, tx, try)
			}
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			tries := 0
			err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
				tries++
				return tt.fn(ctx, tx, tries)
			})
			if !errors.Is(err, context.DeadlineExceeded) || !pg.RolledBack(err) || tries < 2 {
				t.Errorf("InTx(conflict for ever) = %v after %d tries, want the deadline and 40001 after several", err, tries)
			}
		})
	}
}

func TestTryTxLeavesAConflictToItsCaller(t *testing.T) {
	_, pool := newLedger(t)
	tries := 0
	err := pg.TryTx(t.Context(), pool, func(tx pgx.Tx) error {
		tries++
		if level := pgtest.Value[string](t, tx, "SHOW transaction_isolation"); level != "serializable" {
			t.Errorf("the transaction is %s, want serializable", level)
		}
		return raise(t.Context(), tx, "40001")
	})
	if !pg.RolledBack(err) || tries != 1 {
		t.Errorf("TryTx(conflict) = %v after %d tries, want 40001 after 1", err, tries)
	}
}

func TestReadTxSeesOneInstantAndWritesNothing(t *testing.T) {
	_, pool := newLedger(t)
	err := pg.ReadTx(t.Context(), pool, func(tx pgx.Tx) error {
		before := entries(t, tx)
		pgtest.Exec(t, pool, `INSERT INTO ledger VALUES (1)`)
		if after := entries(t, tx); after != before {
			t.Errorf("ReadTx sees %d entries and then %d, want one snapshot", before, after)
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO ledger VALUES (2)`)
		return err
	})
	if !pg.HasCode(err, "25006") {
		t.Errorf("ReadTx(INSERT) = %v, want 25006", err)
	}
}

// Neither side can tell the two cases apart by the error: both are unknown, and neither is repeated.
func TestCommitWithoutAnswerIsUnknown(t *testing.T) {
	tests := []struct {
		name    string
		loss    pgtest.Loss
		entries int
	}{
		{"the server never saw it", pgtest.LoseRequest, 0},
		{"the server has committed", pgtest.LoseAnswer, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, direct := newLedger(t)
			pool, proxy := pgtest.LoseCommits(t, d.SuperURL(), tt.loss, 100)
			tries := 0
			err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				tries++
				_, err := tx.Exec(t.Context(), `INSERT INTO ledger VALUES (1)`)
				return err
			})
			if !errors.Is(err, pg.ErrOutcomeUnknown) || tries != 1 || proxy.Broken() != 1 {
				t.Errorf("InTx = %v after %d tries and %d COMMITs, want ErrOutcomeUnknown after 1", err, tries, proxy.Broken())
			}
			if got := entries(t, direct); got != tt.entries {
				t.Errorf("%d entries, want %d", got, tt.entries)
			}
		})
	}
}

func TestCommitThatCertainlyFailedIsNotUnknown(t *testing.T) {
	tests := []struct {
		name string
		fn   func(ctx context.Context, tx pgx.Tx)
		want func(error) bool
	}{
		{"refused by a deferred constraint", func(ctx context.Context, tx pgx.Tx) {
			tx.Exec(ctx, `INSERT INTO ledger VALUES (1, 99)`)
		}, func(err error) bool { return pg.Constraint(err) == "ledger_follows" }},
		{"the transaction had failed before", func(ctx context.Context, tx pgx.Tx) {
			tx.Exec(ctx, `SELECT 1/0`)
		}, func(err error) bool { return errors.Is(err, pgx.ErrTxCommitRollback) }},
		{"never sent", func(ctx context.Context, tx pgx.Tx) {
			tx.Exec(ctx, `INSERT INTO ledger VALUES (1)`)
			tx.Conn().Close(ctx)
		}, func(err error) bool { return err != nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, pool := newLedger(t)
			tries := 0
			err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				tries++
				tt.fn(t.Context(), tx)
				return nil
			})
			if !tt.want(err) || errors.Is(err, pg.ErrOutcomeUnknown) || tries != 1 {
				t.Errorf("InTx = %v after %d tries, want a certain failure after 1", err, tries)
			}
			if got := entries(t, pool); got != 0 {
				t.Errorf("%d entries, want 0", got)
			}
		})
	}
}

// A FATAL answer says that the session is over, not what became of its COMMIT.
func TestCommitOfATerminatedSessionIsUnknown(t *testing.T) {
	_, pool := newLedger(t)
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		pid := pgtest.Value[int](t, tx, `SELECT pg_backend_pid()`)
		pgtest.Exec(t, pool, `SELECT pg_terminate_backend($1, 5000)`, pid)
		return nil
	})
	if !errors.Is(err, pg.ErrOutcomeUnknown) {
		t.Errorf("InTx(terminated before COMMIT) = %v, want ErrOutcomeUnknown", err)
	}
}

func TestCommitOutlivesItsCaller(t *testing.T) {
	_, pool := newLedger(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		defer cancel()
		_, err := tx.Exec(ctx, `INSERT INTO ledger VALUES (1)`)
		return err
	})
	if err != nil || entries(t, pool) != 1 {
		t.Errorf("InTx(cancelled before COMMIT) = %v with %d entries, want 1", err, entries(t, pool))
	}
}
