// Package pgtest gives a test a real PostgreSQL: one private server per test process, and per call of [New] a fresh
// database cloned from a migrated template, with the same roles and privileges as in production.
//
// It never skips. A machine without PostgreSQL fails the test and says what to install. It is for tests alone.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

// BinVariable names the directory of the PostgreSQL server to test with; unset, the machine is searched.
const BinVariable = "CONSOLE_POSTGRES_BIN"

const (
	template = "ql3_template"
	password = "test-only-password"
)

// Main runs a package's tests and then stops the server they shared. Every package that calls [New] has
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	defer stopShared()
	return m.Run()
}

var (
	shared   = sync.OnceValues(startShared)
	stop     func()
	stopOnce sync.Mutex
	counter  atomic.Int64
)

func stopShared() {
	stopOnce.Lock()
	defer stopOnce.Unlock()
	if stop != nil {
		stop()
	}
}

func startShared() (*postgres.Server, error) {
	dir, remove, err := makeDir()
	if err != nil {
		return nil, err
	}
	server, err := StartIn(context.Background(), filepath.Join(dir, "postgres"))
	if err != nil {
		remove()
		return nil, err
	}
	stopOnce.Lock()
	stop = func() { server.Stop(); remove() }
	stopOnce.Unlock()
	return server, Migrate(context.Background(), server, template)
}

// StartIn starts a server of its own in dir, for a test that stops, kills or reconfigures it.
func StartIn(ctx context.Context, dir string) (*postgres.Server, error) {
	return postgres.Start(ctx, postgres.Config{Dir: dir, Bin: os.Getenv(BinVariable), Log: os.Stderr,
		Settings: map[string]string{"max_connections": "200", "log_min_messages": "panic", "max_prepared_transactions": "4",
			"max_wal_size": "256MB"}})
}

// Migrate makes database on server with every role, and applies every migration.
func Migrate(ctx context.Context, server *postgres.Server, database string) error {
	super, err := pgx.Connect(ctx, server.SuperuserURL())
	if err != nil {
		return err
	}
	defer super.Close(ctx)
	if _, err := super.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize()); err != nil {
		return err
	}
	if err := Bootstrap(ctx, server, database); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, roleURL(server, migrations.RoleMigration, database))
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := pg.OpenMigrations(pool, migrations.Files(), migrations.VersionTable)
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Up(ctx)
	return err
}

// Bootstrap makes the roles and the schema in database, and nothing else.
func Bootstrap(ctx context.Context, server *postgres.Server, database string) error {
	passwords := map[string]string{}
	for _, role := range migrations.Roles() {
		passwords[role] = password
	}
	sql, err := migrations.Bootstrap(passwords)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, server.URL(server.Superuser(), database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// A Database is one fresh, migrated database, dropped when its test ends.
type Database struct {
	Name   string
	server *postgres.Server
}

// New clones the template.
func New(t testing.TB) *Database {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	d := &Database{Name: fmt.Sprintf("test_%d", counter.Add(1)), server: server}
	d.admin(t, "CREATE DATABASE "+d.Name+" TEMPLATE "+template)
	t.Cleanup(func() { d.admin(t, "DROP DATABASE "+d.Name+" WITH (FORCE)") })
	return d
}

// On is a database that [Migrate] has made on a server of the test's own.
func On(server *postgres.Server, database string) *Database {
	return &Database{Name: database, server: server}
}

// admin runs sql outside the database.
func (d *Database) admin(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.server.SuperuserURL())
	if err != nil {
		t.Fatalf("connect as superuser: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// URL connects as role.
func (d *Database) URL(role string) string { return roleURL(d.server, role, d.Name) }

// SuperURL connects as superuser: for what no role of ours may do.
func (d *Database) SuperURL() string { return d.server.URL(d.server.Superuser(), d.Name) }

// Pool is a new pool of role, with the settings production gives the scheduler, closed when t ends.
func (d *Database) Pool(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	return openPool(t, pg.PoolConfig{URL: d.URL(role), App: t.Name(), Schema: migrations.Schema, MaxConns: 8,
		StatementTimeout: 20 * time.Second, Serializable: role != migrations.RoleConsole && role != migrations.RoleMigration})
}

// Super is a new superuser pool, closed when t ends.
func (d *Database) Super(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return openPool(t, pg.PoolConfig{URL: d.SuperURL(), App: t.Name(), Schema: migrations.Schema, MaxConns: 8, StatementTimeout: 20 * time.Second})
}

// Server is the server the database is on, shared by every test of the process.
func (d *Database) Server() *postgres.Server { return d.server }

func openPool(t testing.TB, c pg.PoolConfig) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(context.Background(), c)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// roleURL is server's URL with role's test password.
func roleURL(server *postgres.Server, role, database string) string {
	u, err := url.Parse(server.URL(role, database))
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(role, password)
	return u.String()
}
