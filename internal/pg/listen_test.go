package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// next waits for a value, for as long as a loaded machine may need.
func next[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("no %s", what)
	}
	return v
}

// ear is a Listen in the background.
type ear struct {
	woken  chan struct{}
	failed chan error
	ended  chan struct{}
	stop   context.CancelFunc
}

func listen(t *testing.T, url, channel string) ear {
	ctx, stop := context.WithCancel(context.Background())
	e := ear{make(chan struct{}, 100), make(chan error, 100), make(chan struct{}), stop}
	go func() {
		defer close(e.ended)
		pg.Listen(ctx, url, channel, func() { e.woken <- struct{}{} }, func(err error) { e.failed <- err })
	}()
	t.Cleanup(func() { stop(); <-e.ended })
	return e
}

func TestListen(t *testing.T) {
	const channel = `it's a "channel"`
	d := pgtest.New(t)
	super := d.Super(t)
	e := listen(t, d.URL(migrations.RoleRuntime), channel)
	notify := func() { pgtest.Exec(t, super, `SELECT pg_notify($1, '')`, channel) }

	next(t, e.woken, "wake-up when listening has begun")
	notify()
	next(t, e.woken, "wake-up for a notification")
	if n := pgtest.Value[int](t, super, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND usename = 'ql3_runtime'`); n != 1 {
		t.Fatalf("%d sessions listen, want 1", n)
	}
	if err := next(t, e.failed, "report of the lost connection"); !pg.Unavailable(err) {
		t.Errorf("report(%v), want an unavailable database", err)
	}
	next(t, e.woken, "wake-up when listening has begun again")
	notify()
	next(t, e.woken, "wake-up for a notification after that")
	e.stop()
	next(t, e.ended, "end with its context")
	if len(e.woken) != 0 || len(e.failed) != 0 {
		t.Errorf("%d more wake-ups and %d more reports, want none", len(e.woken), len(e.failed))
	}
}

func TestListenIgnoresWhatNobodySaid(t *testing.T) {
	d := pgtest.New(t)
	super := d.Super(t)
	e := listen(t, d.URL(migrations.RoleRuntime), "ours")
	next(t, e.woken, "wake-up when listening has begun")
	pgtest.Exec(t, super, `NOTIFY theirs`)
	pgtest.Exec(t, super, `NOTIFY ours`)
	next(t, e.woken, "wake-up")
	e.stop()
	next(t, e.ended, "end")
	if len(e.woken) != 0 {
		t.Errorf("another channel's notification woke, want one wake-up")
	}
}

// A server that takes no writes is a standby, where nobody can listen.
func TestListenWantsThePrimary(t *testing.T) {
	d := pgtest.New(t)
	pgtest.Exec(t, d.Super(t), `ALTER ROLE ql3_runtime IN DATABASE `+d.Name+` SET default_transaction_read_only = on`)
	e := listen(t, d.URL(migrations.RoleRuntime), "ours")
	if err := next(t, e.failed, "report"); !pg.Unavailable(err) || !isReadOnly(err) {
		t.Errorf("report(%v), want %v", err, pgconn.ErrReadOnlyConnection)
	}
}
