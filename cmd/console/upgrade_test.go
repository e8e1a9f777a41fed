package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// atPrevious is a database whose newest migration is undone.
func atPrevious(t *testing.T) (map[string]string, *pgxpool.Pool) {
	t.Helper()
	db := pgtest.New(t)
	vars := variables(db)
	console(t, vars, "migrate", "down").said(t, "undone 000")
	return vars, db.Super(t)
}

// seen puts a replica there whose last tick is ago milliseconds old.
func seen(t *testing.T, super *pgxpool.Pool, ago int) {
	t.Helper()
	pgtest.Exec(t, super, `INSERT INTO replicas (id, version, started_at_ms, last_tick_at_ms, clock_skew_ms)
		SELECT E'old/1/\033a', 'v0', ms, ms, 0 FROM (SELECT `+pg.ClockMS+` - $1 AS ms) clock`, ago)
}

// ticks lets that replica tick until stop is called.
func ticks(t *testing.T, super *pgxpool.Pool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			super.Exec(ctx, `UPDATE replicas SET last_tick_at_ms = last_tick_at_ms + 1`)
		}
	}()
	return func() { cancel(); <-done }
}

// An upgrade that the replicas of before cannot follow is refused while one runs, and says which; it is theirs to stop,
// or the flag's.
func TestUpIsRefusedWhileItWouldStopAReplica(t *testing.T) {
	t.Parallel()
	vars, super := atPrevious(t)
	seen(t, super, 0)
	stop := ticks(t, super)
	got := console(t, vars, "migrate", "up")
	stop()
	if got.code != exitFailure || !strings.Contains(got.stderr, "replica old/1/\\x1ba (version v0, built for a schema before 9); stop it and try again") || !strings.Contains(got.stderr, "--withdraw-replicas") {
		t.Errorf("migrate up beside a replica = %+v, want code 1, the replica and what to do", got)
	}
	console(t, vars, "migrate", "status").said(t, "pending  000", fmt.Sprintf("schema %d takes consoles built for", migrations.Latest()-1), "replica old/1/\\x1ba (version v0, ")
	console(t, vars, "migrate", "up", "--withdraw-replicas").said(t, "replica old/1/\\x1ba (version v0, built for a schema before 9) stops admitting\n", "applied 000")
}

// A replica that was stopped counts as running for a while: it is waited for.
func TestUpWaitsForWhatHasStopped(t *testing.T) {
	t.Parallel()
	vars, super := atPrevious(t)
	seen(t, super, 14_000)
	console(t, vars, "migrate", "up").said(t, "looking whether it still runs: replica old/1/\\x1ba", "applied 000")
}

// After a failover to a slower clock a tick stands in the future, and nothing moves it: that is said, and not waited for.
func TestUpSaysThatATickIsOfTheFuture(t *testing.T) {
	t.Parallel()
	vars, super := atPrevious(t)
	seen(t, super, -3_600_000)
	got := console(t, vars, "migrate", "up")
	if got.code != exitFailure || !strings.Contains(got.stderr, "later than the database clock") || !strings.Contains(got.stderr, "--withdraw-replicas") {
		t.Errorf("migrate up = %+v, want code 1, why and what to do", got)
	}
}

// What was built for a schema does not work on the one before it.
func TestDownIsRefusedUnderAReplica(t *testing.T) {
	t.Parallel()
	db, vars := published(t, 1)
	super := db.Super(t)
	p := serve(t, vars)
	p.ready(t)
	eventually(t, "the replica is on record", func() bool { return pgtest.Value[int](t, super, "SELECT count(*) FROM replicas") == 1 })
	got := console(t, vars, "migrate", "down")
	want := fmt.Sprintf("(version %s, built for schema %d); stop it", version, migrations.Latest())
	if got.code != exitFailure || !strings.Contains(got.stderr, want) {
		t.Errorf("migrate down under a replica = %+v, want code 1 and %q", got, want)
	}
	console(t, vars, "migrate", "status").said(t, fmt.Sprintf("schema %d takes consoles built for %d or later; this one was built for %d\n",
		migrations.Latest(), migrations.Floor(), migrations.Latest()), "replica ", " was seen ")
	console(t, vars, "check").said(t, fmt.Sprintf("note  schema %d takes consoles built for", migrations.Latest()), "note  replica ")
	console(t, vars, "migrate", "down", "--withdraw-replicas").said(t, "stops admitting\n", "undone 000")
	eventually(t, "the replica says what to run", func() bool {
		return strings.Contains(get(t.Context(), p.machine+"/readyz", "").body, "run: console migrate up")
	})
	console(t, vars, "migrate", "up").said(t, "applied 000")
	p.ready(t)
}

// A migration of a newer console raises the floor under a replica that runs. It withdraws, says why, and comes back when
// the migration is undone.
func TestAReplicaBelowTheFloorWithdraws(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	p := serve(t, vars)
	p.ready(t)
	initialised(t, super)
	next := migrations.Latest() + 1
	pgtest.Exec(t, super, `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, next)
	pgtest.Exec(t, super, `INSERT INTO schema_floors VALUES ($1, $1)`, next)
	eventually(t, "the replica says that it is too old", func() bool {
		return strings.Contains(get(t.Context(), p.machine+"/readyz", "").body, fmt.Sprintf("built for version %d or later, this one was built for %d; run a newer console", next, next-1))
	})
	makeDue(t, super)
	pgtest.Exec(t, super, `DELETE FROM schema_floors WHERE version = $1`, next)
	p.ready(t)
	allOnce(t, super)
}

// A migration that waits for a table would hold up every replica behind it, so it gives up soon.
func TestAMigrationDoesNotWaitForALock(t *testing.T) {
	t.Parallel()
	vars, super := atPrevious(t)
	tx, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE goose_db_version IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	got := console(t, vars, "migrate", "up")
	if got.code != exitFailure || !strings.Contains(got.stderr, "lock timeout") || !strings.Contains(got.stderr, "was not applied, try again") {
		t.Errorf("migrate up behind a lock = %+v, want code 1 and what to do", got)
	}
	tx.Rollback(t.Context())
	console(t, vars, "migrate", "up").said(t, "applied 000")
}
