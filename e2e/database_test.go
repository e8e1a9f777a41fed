package e2e

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// roleVariables is which variable carries which role's connection.
var roleVariables = map[string]string{
	"ql3_runtime": "CONSOLE_RUNTIME_DATABASE_URL", "ql3_run_manager": "CONSOLE_RUN_MANAGER_DATABASE_URL",
	"ql3_authn": "CONSOLE_AUTHN_DATABASE_URL", "ql3_console": "CONSOLE_WEB_DATABASE_URL",
	"ql3_admin": "CONSOLE_ADMIN_DATABASE_URL", "ql3_migration": "CONSOLE_MIGRATION_DATABASE_URL",
}

// variables are the connections to db.
func variables(db *pgtest.Database) map[string]string {
	vars := map[string]string{}
	for role, name := range roleVariables {
		vars[name] = db.URL(role)
	}
	return vars
}

// one reads a single row into a struct by position, or a single value.
func one[T any](t testing.TB, pool *pgxpool.Pool, to pgx.RowToFunc[T], sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, to)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	return one(t, pool, pgx.RowTo[T], sql, args...)
}
