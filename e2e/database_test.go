package e2e

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
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

// durable is a server of its own that keeps what it has confirmed, as in production, with the console installed by its
// own commands. It returns the variables and a superuser's pool.
func durable(t testing.TB) (map[string]string, *pgxpool.Pool) {
	t.Helper()
	server := durableServer(t, nil)
	return install(t, server, "postgres"), superOf(t, server, "postgres")
}

// durableServer is a server that keeps what it has confirmed. What it logs goes to log, which may be nil.
func durableServer(t testing.TB, log io.Writer) *postgres.Server {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Config{Dir: filepath.Join(pgtest.DiskDir(t), "postgres"), Durable: true, Log: log, Bin: os.Getenv(pgtest.BinVariable)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return server
}

// install installs the console in a database of server by its own commands, and returns the variables.
func install(t testing.TB, server *postgres.Server, database string) map[string]string {
	t.Helper()
	vars := variablesOf(t, server, database)
	vars["CONSOLE_BOOTSTRAP_DATABASE_URL"] = server.URL(server.Superuser(), database)
	run(t, vars, "", "migrate", "bootstrap")
	run(t, vars, "", "migrate", "up")
	return vars
}

// variablesOf are the connections to a database of server.
func variablesOf(t testing.TB, server *postgres.Server, database string) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for role, name := range roleVariables {
		u, err := url.Parse(server.URL(role, database))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "a password of its own")
		vars[name] = u.String()
	}
	return vars
}

// superOf is a superuser's pool on a database of server.
func superOf(t testing.TB, server *postgres.Server, database string) *pgxpool.Pool {
	t.Helper()
	super, err := pgxpool.New(t.Context(), server.URL(server.Superuser(), database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(super.Close)
	return super
}
