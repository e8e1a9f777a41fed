package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// patience bounds every wait in these tests; what is waited for comes much sooner.
const patience = 30 * time.Second

// eventually waits until ok holds, looking every few milliseconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// variables are the CONSOLE_*_DATABASE_URL of every role, for a migrated database.
func variables(db *pgtest.Database) map[string]string {
	vars := map[string]string{superuserVariable.name: db.SuperURL()}
	for _, v := range roleVariables {
		vars[v.name] = db.URL(v.role)
	}
	return vars
}

// emptyDatabase makes a database without a schema beside db, and returns its variables.
func emptyDatabase(t *testing.T, db *pgtest.Database) map[string]string {
	t.Helper()
	name := db.Name + "_empty"
	super := db.Super(t)
	if _, err := super.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := super.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	vars := variables(db)
	for k, v := range vars {
		vars[k] = strings.Replace(v, "/"+db.Name, "/"+name, 1)
	}
	return vars
}

// serverVariables are variables for server's maintenance database, before any role is there.
func serverVariables(t *testing.T, server *postgres.Server) map[string]string {
	t.Helper()
	vars := map[string]string{superuserVariable.name: server.SuperuserURL()}
	for _, v := range roleVariables {
		u, err := url.Parse(server.URL(v.role, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(v.role, "a password of its own")
		vars[v.name] = u.String()
	}
	return vars
}

// yearly is a manifest of n Triggers that are not due for months.
func yearly(n int) string {
	var b strings.Builder
	b.WriteString("projects:\n  - id: ops\n    name: Operations\n    tasks:\n      - id: job\n        name: Job\n        command: [/bin/true]\n        triggers:\n")
	for i := range n {
		fmt.Fprintf(&b, "          - { id: trigger-%d, cron: \"0 0 1 1 *\", timezone: UTC, misfire: fire_once }\n", i)
	}
	return b.String()
}

// published is a database with n yearly Triggers.
func published(t *testing.T, n int) (*pgtest.Database, map[string]string) {
	t.Helper()
	db := pgtest.New(t)
	vars := variables(db)
	if got := consoleReading(t, yearly(n), vars, "apply", "-f", "-"); got.code != 0 {
		t.Fatalf("apply = %+v", got)
	}
	return db, vars
}

// makeDue makes every Schedule due since a second ago and wakes the replicas; it returns the instant.
func makeDue(t *testing.T, super *pgxpool.Pool) (dueMS int64) {
	t.Helper()
	err := super.QueryRow(t.Context(), `
		WITH due AS (UPDATE trigger_schedules SET next_fire_at_ms = floor(extract(epoch FROM now()))::bigint * 1000 - 1000 RETURNING next_fire_at_ms)
		SELECT max(next_fire_at_ms) FROM due, pg_notify('ql3_schedules', '')`).Scan(&dueMS)
	if err != nil {
		t.Fatal(err)
	}
	return dueMS
}

// holdRuns makes every insertion of a Run wait until release is called.
func holdRuns(t *testing.T, super *pgxpool.Pool) (release func()) {
	t.Helper()
	tx, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release = func() { tx.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(release)
	if _, err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE runs IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	return release
}

// initialised waits until every Schedule has a cursor and nobody holds a claim.
func initialised(t *testing.T, super *pgxpool.Pool) {
	t.Helper()
	eventually(t, "every Schedule has a cursor and no claim", func() bool {
		return pgtest.Value[bool](t, super, `SELECT bool_and(next_fire_at_ms IS NOT NULL AND claim_token IS NULL) FROM trigger_schedules`)
	})
}
