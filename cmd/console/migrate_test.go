package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// said checks that a command succeeded and printed want, in this order.
func (r result) said(t *testing.T, want ...string) {
	t.Helper()
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d and standard error %q, want 0 and none", r.code, r.stderr)
	}
	rest := r.stdout
	for _, text := range want {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("output is\n%s\nwant it to contain, in this order, %q", r.stdout, want)
		}
		rest = after
	}
}

func TestMigrate(t *testing.T) {
	vars := emptyDatabase(t, pgtest.New(t))
	for _, command := range []string{"up", "down", "status"} {
		console(t, vars, "migrate", command).refused(t, exitFailure, "the database is not prepared: it has no ql3.goose_db_version; run: console migrate bootstrap")
	}
	console(t, vars, "migrate", "bootstrap").said(t, "next: console migrate up")
	console(t, vars, "migrate", "bootstrap").said(t, "next: console migrate up") // again, as when a password changes
	console(t, vars, "migrate", "status").said(t, "pending  00001_definitions.sql", "pending")
	console(t, vars, "migrate", "up").said(t, "applied 00001_definitions.sql", "applied 00002_runs.sql")
	console(t, vars, "migrate", "up").said(t, "nothing to apply")
	console(t, vars, "migrate", "down").said(t, "undone 000")
	console(t, vars, "migrate", "status").said(t, "applied  00001_definitions.sql", "pending")
	for console(t, vars, "migrate", "status").stdout != allPending(t, vars) {
		console(t, vars, "migrate", "down").said(t, "undone 000")
	}
	console(t, vars, "migrate", "down").said(t, "nothing to undo")
	console(t, vars, "migrate", "up").said(t, "applied 00001_definitions.sql")
}

// allPending is what status prints when nothing is applied.
func allPending(t *testing.T, vars map[string]string) string {
	t.Helper()
	return strings.ReplaceAll(console(t, vars, "migrate", "status").stdout, "applied ", "pending ")
}

func TestBootstrapPrintsWhatItWouldRun(t *testing.T) {
	vars := emptyDatabase(t, pgtest.New(t))
	super := vars[superuserVariable.name]
	delete(vars, superuserVariable.name)
	console(t, vars, "migrate", "bootstrap").refused(t, exitUsage, "use --print")

	printed := console(t, vars, "migrate", "bootstrap", "--print")
	printed.said(t, "BEGIN;", "CREATE ROLE ql3_migration", "SCRAM-SHA-256$", "CREATE SCHEMA", "COMMIT;")
	if strings.Contains(printed.stdout, "test-only-password") {
		t.Error("the SQL holds a password, want only its verifier")
	}
	conn, err := pgx.Connect(t.Context(), super)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), printed.stdout); err != nil {
		t.Fatalf("run what was printed: %v", err)
	}
	console(t, vars, "migrate", "up").said(t, "applied") // with the password whose verifier was printed
}

func TestBootstrapNeedsASuperuser(t *testing.T) {
	vars := emptyDatabase(t, pgtest.New(t))
	vars[superuserVariable.name] = vars["CONSOLE_ADMIN_DATABASE_URL"]
	console(t, vars, "migrate", "bootstrap").refused(t, exitFailure, "permission denied")
	vars[superuserVariable.name] = "hunter2:/hunter2"
	got := console(t, vars, "migrate", "bootstrap")
	got.refused(t, exitUsage, superuserVariable.name+": not a PostgreSQL connection URL")
	if strings.Contains(got.stderr, "hunter2") {
		t.Errorf("standard error repeats the URL: %q", got.stderr)
	}
}
