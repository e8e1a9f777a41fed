package pg_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// Every error comes from where it would come from in production.
func TestUnavailable(t *testing.T) {
	d, pool := newLedger(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	connect := func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			conn.Close(ctx)
		}
		return err
	}
	query := func(ctx context.Context, sql string) error {
		_, err := pool.Exec(ctx, sql)
		return err
	}
	tests := []struct {
		name string
		err  func(t *testing.T) error
		want bool
	}{
		{"no error", func(*testing.T) error { return nil }, false},
		{"closed port", func(t *testing.T) error { return connect(t.Context(), closedPort(t)) }, true},
		{"terminated by an administrator, 57P01", func(t *testing.T) error {
			return query(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
		}, true},
		{"a connection that broke before", func(t *testing.T) error {
			return pg.TryTx(t.Context(), pool, func(tx pgx.Tx) error {
				tx.Conn().Close(t.Context())
				_, err := tx.Exec(t.Context(), `SELECT 1`)
				return err
			})
		}, true},
		{"read-only, 25006", func(t *testing.T) error {
			return pg.ReadTx(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `INSERT INTO ledger VALUES (1)`)
				return err
			})
		}, true},
		{"the server's deadline, 57014", func(t *testing.T) error {
			return pg.ReadTx(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 20; SELECT pg_sleep(60)`)
				return err
			})
		}, true},
		{"our own deadline", func(t *testing.T) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return query(ctx, `SELECT pg_sleep(60)`)
		}, true},
		{"our own deadline, before anything was sent", func(t *testing.T) error {
			ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
			defer cancel()
			return query(ctx, `SELECT 1`)
		}, true},
		{"our own deadline while connecting", func(t *testing.T) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return connect(ctx, mute(t, func() {}))
		}, true},
		{"no such database, 3D000", func(t *testing.T) error {
			return connect(t.Context(), d.Server().URL(d.Server().Superuser(), "nowhere"))
		}, true},
		{"the caller left before anything was sent", func(*testing.T) error { return query(cancelled, `SELECT 1`) }, false},
		{"the caller left between two statements", func(t *testing.T) error {
			return pg.TryTx(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(cancelled, `SELECT 1`)
				return err
			})
		}, false},
		{"the caller left during a statement", func(t *testing.T) error {
			ctx, cancel := context.WithCancel(t.Context())
			return pg.TryTx(ctx, pool, func(tx pgx.Tx) error {
				pid := pgtest.Value[int](t, tx, `SELECT pg_backend_pid()`)
				go cancelWhenAsleep(t, pool, pid, cancel)
				_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
				return err
			})
		}, false},
		{"the caller left while connecting", func(t *testing.T) error {
			ctx, cancel := context.WithCancel(t.Context())
			return connect(ctx, mute(t, cancel))
		}, false},
		{"unique violation, 23505", func(t *testing.T) error {
			return query(t.Context(), `INSERT INTO ledger VALUES (1), (1)`)
		}, false},
		{"no such table, 42P01", func(t *testing.T) error { return query(t.Context(), `SELECT FROM nowhere`) }, false},
		{"serialization failure", func(*testing.T) error { return &pgconn.PgError{Code: "40001"} }, false},
		{"not from the database", func(*testing.T) error { return errors.New("no") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.err(t); pg.Unavailable(err) != tt.want || (err == nil) != (tt.name == "no error") {
				t.Errorf("Unavailable(%T %v) = %t, want %t", err, err, !tt.want, tt.want)
			}
		})
	}
}

// closedPort is the URL of a port where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return "postgres://u:p@" + l.Addr().String() + "/d?sslmode=disable"
}

// mute is the URL of a server that takes a connection, calls accepted, and never says a word.
func mute(t *testing.T, accepted func()) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		accepted()
		conn.Read(make([]byte, 1<<10)) // until the client has said hello and, later, hangs up
		conn.Read(make([]byte, 1))
		conn.Close()
	}()
	return "postgres://u:p@" + l.Addr().String() + "/d?sslmode=disable"
}

// cancelWhenAsleep cancels once backend pid sleeps.
func cancelWhenAsleep(t *testing.T, q pg.Querier, pid int, cancel context.CancelFunc) {
	defer cancel()
	for t.Context().Err() == nil {
		var asleep bool
		err := q.QueryRow(t.Context(), `SELECT wait_event IS NOT DISTINCT FROM 'PgSleep' FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&asleep)
		if err != nil || asleep {
			return
		}
	}
}

func TestConstraintNamesWhatWasViolated(t *testing.T) {
	_, pool := newLedger(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO ledger VALUES (1), (1)`)
	pg.Wrap(&err, "ledger.Append(%d)", 1)
	if got := pg.Constraint(err); got != "ledger_pkey" {
		t.Errorf("Constraint(%v) = %q, want ledger_pkey", err, got)
	}
	if got := pg.Constraint(errors.New("no")); got != "" {
		t.Errorf("Constraint(not from the database) = %q, want none", got)
	}
}

// Only what the server says of the rows is a refusal of one of them.
func TestRefused(t *testing.T) {
	_, pool := newLedger(t)
	pgtest.Exec(t, pool, `INSERT INTO ledger VALUES (1)`)
	for sql, want := range map[string]bool{
		`INSERT INTO ledger VALUES (1)`:                        true,
		`INSERT INTO ledger VALUES (2, 99)`:                    true, // at COMMIT
		`INSERT INTO ledger VALUES (1 / (SELECT 0))`:           true,
		`DO $$ BEGIN RAISE EXCEPTION 'no'; END $$`:             true,
		`DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40001'; END $$`: false,
		`INSERT INTO nowhere VALUES (1)`:                       false,
		`SELECT pg_terminate_backend(pg_backend_pid())`:        false,
	} {
		err := pg.TryTx(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), sql)
			return err
		})
		if err == nil || pg.Refused(err) != want {
			t.Errorf("Refused(%s: %v) = %t, want %t", sql, err, !want, want)
		}
	}
	if pg.Refused(nil) || pg.Refused(context.Canceled) {
		t.Error("Refused of no error, or of none of the server's, is true")
	}
}
