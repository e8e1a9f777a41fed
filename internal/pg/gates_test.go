package pg_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func isReadOnly(err error) bool { return errors.Is(err, pgconn.ErrReadOnlyConnection) }

// says fails t unless err contains every one of words.
func says(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s = %v, want it to say %q", what, err, w)
		}
	}
}

func TestCheckServer(t *testing.T) {
	d := pgtest.New(t)
	if err := pg.CheckServer(t.Context(), d.Pool(t, migrations.RoleRuntime)); err != nil {
		t.Errorf("CheckServer(primary) = %v", err)
	}
	pgtest.Exec(t, d.Super(t), `ALTER DATABASE `+d.Name+` SET default_transaction_read_only = on`)
	says(t, "CheckServer(read-only, by a pool)", pg.CheckServer(t.Context(), d.Pool(t, migrations.RoleRuntime)),
		"takes no writes", "connect to the primary", "default_transaction_read_only")
	one, err := pgx.Connect(t.Context(), d.URL(migrations.RoleRuntime))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close(t.Context())
	says(t, "CheckServer(read-only, by one connection)", pg.CheckServer(t.Context(), one), "reset default_transaction_read_only")
	one.Close(t.Context())
	says(t, "CheckServer(closed)", pg.CheckServer(t.Context(), one), "does not answer")
}

func TestCheckSchema(t *testing.T) {
	d := pgtest.New(t)
	pool, latest := d.Pool(t, migrations.RoleConsole), migrations.Latest()
	check := func(version int64) error {
		s := built()
		s.Version = version
		return s.Check(t.Context(), pool)
	}
	if err := check(latest); err != nil {
		t.Errorf("Check on its own schema = %v", err)
	}
	says(t, "Check on an older schema", check(latest+1), "console migrate up")
	pgtest.Exec(t, d.Super(t), `INSERT INTO ql3.schema_floors VALUES ($1 + 1, $1)`, latest)
	pgtest.Exec(t, d.Super(t), `INSERT INTO ql3.goose_db_version (version_id, is_applied) VALUES ($1, true)`, latest+1)
	if err := check(latest); err != nil {
		t.Errorf("Check on a newer schema that takes it = %v", err)
	}
	says(t, "Check on a newer schema that does not", check(latest-1), fmt.Sprintf("built for version %d or later", latest), "run a newer console")
	nowhere := built()
	nowhere.VersionTable = "ql3.nowhere"
	says(t, "Check without a table", nowhere.Check(t.Context(), pool), "ql3.nowhere", "42P01")
	nowhere = built()
	nowhere.FloorTable = "ql3.nowhere"
	says(t, "Check without floors", nowhere.Check(t.Context(), pool), "ql3.nowhere", "42P01")
}

// built is the schema that the tests were built for.
func built() pg.Schema {
	return pg.Schema{Name: migrations.Schema, Version: migrations.Latest(), VersionTable: migrations.VersionTable,
		FloorTable: migrations.FloorTable, Objects: migrations.Objects()}
}

func TestOpenKeepsABadURLToItself(t *testing.T) {
	for _, url := range []string{
		"postgres://ql3_runtime:hunter2@host:notaport/db",
		"postgres://ql3_runtime:hunter2@host/db?sslmode=perhaps",
		"postgres://ql3_runtime:hun%ter2@host/db",
		"hunter2",
	} {
		_, openErr := pg.Open(t.Context(), pg.PoolConfig{URL: url})
		_, _, userErr := pg.User(url)
		for _, err := range []error{openErr, userErr} {
			says(t, "Open or User", err, "not a PostgreSQL connection URL")
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), url)) {
				t.Errorf("Open or User = %v, which repeats the URL", err)
			}
		}
	}
	user, password, err := pg.User("postgres://ql3_runtime:hunter%402@host/db")
	if user != "ql3_runtime" || password != "hunter@2" || err != nil {
		t.Errorf("User() = %q, %q, %v, want both, unescaped", user, password, err)
	}
}

// One server of its own stops, and comes back as a standby.
func TestStoppedServerAndStandby(t *testing.T) {
	dir := filepath.Join(pgtest.Dir(t), "postgres")
	start := func() *postgres.Server {
		s, err := pgtest.StartIn(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	server := start()
	pool := openPool(t, server)
	pgtest.Exec(t, pool, `SELECT 1`)
	server.Stop()
	for range 2 { // over a connection that has died, then without one
		if _, err := pool.Exec(t.Context(), `SELECT 1`); !pg.Unavailable(err) {
			t.Errorf("Unavailable(%v) = false after the server has stopped", err)
		}
	}
	says(t, "CheckServer(stopped)", pg.CheckServer(t.Context(), pool), "does not answer")

	if err := os.WriteFile(filepath.Join(dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server = start()
	defer server.Stop()
	err := pg.CheckServer(t.Context(), openPool(t, server))
	says(t, "CheckServer(standby, by a pool)", err, "connect to the primary")
	if !pg.Unavailable(err) {
		t.Errorf("Unavailable(%v) = false on a standby", err)
	}
	one, err := pgx.Connect(t.Context(), server.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close(t.Context())
	says(t, "CheckServer(standby, by one connection)", pg.CheckServer(t.Context(), one), "is a standby")
	if _, err := one.Exec(t.Context(), `CREATE TABLE t ()`); !pg.Unavailable(err) {
		t.Errorf("Unavailable(%v) = false for a write on a standby", err)
	}
}

func openPool(t *testing.T, s *postgres.Server) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.PoolConfig{URL: s.SuperuserURL(), App: t.Name(), Schema: "public", MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
