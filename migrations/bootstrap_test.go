package migrations_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// newEmpty is a database with nothing in it, of a name of its own, on the shared server.
func newEmpty(t *testing.T) (*postgres.Server, string, *pgxpool.Pool) {
	t.Helper()
	d := pgtest.New(t)
	name := d.Name + "_empty"
	pgtest.Exec(t, d.Super(t), `CREATE DATABASE `+name)
	t.Cleanup(func() {
		if _, err := d.Super(t).Exec(context.Background(), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	pool, err := pgxpool.New(t.Context(), d.Server().URL(d.Server().Superuser(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return d.Server(), name, pool
}

// runBootstrap runs the SQL that Bootstrap returns, as it would be by hand: one text.
func runBootstrap(t *testing.T, pool *pgxpool.Pool, passwords map[string]string) string {
	t.Helper()
	sql, err := migrations.Bootstrap(passwords)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	return sql
}

// restoreRoles gives the roles, which the whole server shares, what other tests expect of them.
func restoreRoles(t *testing.T, server *postgres.Server, database string) {
	t.Cleanup(func() {
		if err := pgtest.Bootstrap(context.Background(), server, database); err != nil {
			t.Error(err)
		}
	})
}

func passwordsOf(password string) map[string]string {
	m := map[string]string{}
	for _, role := range migrations.Roles() {
		m[role] = password
	}
	return m
}

// signIn connects as role and returns the reason why not.
func signIn(t *testing.T, server *postgres.Server, database, role, password string) error {
	t.Helper()
	u, err := url.Parse(server.URL(role, database))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, password)
	conn, err := pgx.Connect(t.Context(), u.String())
	if err == nil {
		conn.Close(t.Context())
	}
	return err
}

func TestBootstrapAgainChangesPasswordsAndNothingElse(t *testing.T) {
	server, database, super := newEmpty(t)
	restoreRoles(t, server, database)
	const first, second = `first 'quoted' "p\a$do$ss%s`, "second"
	const state = `SELECT format('%s %s %s', c.relname, c.relowner::regrole, c.relacl) FROM pg_class c WHERE relnamespace = 'ql3'::regnamespace
		UNION ALL SELECT format('%s %s', nspowner::regrole, nspacl) FROM pg_namespace WHERE nspname = 'ql3'
		UNION ALL SELECT v::text FROM ql3.goose_db_version v
		UNION ALL SELECT format('%s %s', rolname, rolcanlogin) FROM pg_roles WHERE rolname LIKE 'ql3%' ORDER BY 1`

	text := runBootstrap(t, super, passwordsOf(first))
	before := pgtest.Column[string](t, super, state)
	text += runBootstrap(t, super, passwordsOf(second))
	if diff := cmp.Diff(before, pgtest.Column[string](t, super, state)); diff != "" {
		t.Errorf("Bootstrap again changes (-before +after)\n%s", diff)
	}
	for _, role := range migrations.Roles() {
		if err := signIn(t, server, database, role, first); !pg.HasCode(err, "28P01") {
			t.Errorf("%s with its old password = %v, want 28P01", role, err)
		}
		if err := signIn(t, server, database, role, second); err != nil {
			t.Errorf("%s with its new password = %v", role, err)
		}
	}
	if strings.Contains(text, first) || strings.Contains(text, second) || strings.Contains(text, "quoted") {
		t.Error("Bootstrap's text contains a password")
	}
}

func TestBootstrapTakesAnyASCIIPassword(t *testing.T) {
	server, database, super := newEmpty(t)
	restoreRoles(t, server, database)
	var all strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		all.WriteByte(c)
	}
	runBootstrap(t, super, map[string]string{migrations.RoleConsole: all.String()})
	if err := signIn(t, server, database, migrations.RoleConsole, all.String()); err != nil {
		t.Errorf("sign in with every printable character = %v", err)
	}
	if err := signIn(t, server, database, migrations.RoleRuntime, ""); err == nil {
		t.Error("a role without a password signs in")
	}
	if _, err := migrations.Bootstrap(map[string]string{migrations.RoleConsole: "clé"}); err == nil || strings.Contains(err.Error(), "clé") {
		t.Errorf("Bootstrap(password outside ASCII) = %v, want a refusal that does not repeat it", err)
	}
}

func TestBootstrapTakesPowersAway(t *testing.T) {
	server, database, super := newEmpty(t)
	restoreRoles(t, server, database)
	pgtest.Exec(t, super, `ALTER ROLE ql3_console SUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS INHERIT`)
	runBootstrap(t, super, nil)
	got := pgtest.Column[string](t, super, `SELECT rolname FROM pg_roles WHERE rolname LIKE 'ql3%'
		AND NOT (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls OR rolinherit OR rolcanlogin) ORDER BY rolname`)
	want := migrations.Roles()
	if diff := cmp.Diff(want, got, cmp.Transformer("set", set)); diff != "" {
		t.Errorf("roles without powers (-want +got)\n%s", diff)
	}
}

func set(list []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range list {
		m[s] = true
	}
	return m
}

// Three processes migrate one empty database. Its version table is locked against writing until all of them have come
// as far as they can: without goose's lock that is past the reading of the version, and two would then fail.
func TestThreeUpsAtOnce(t *testing.T) {
	server, database, super := newEmpty(t)
	if err := pgtest.Bootstrap(t.Context(), server, database); err != nil {
		t.Fatal(err)
	}
	hold, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Rollback(context.WithoutCancel(t.Context()))
	pgtest.Exec(t, hold, `LOCK TABLE ql3.goose_db_version IN EXCLUSIVE MODE`)

	type result struct {
		files []string
		err   error
	}
	results := make(chan result, 3)
	for range 3 {
		go func() {
			files, err := up(t.Context(), server.URL(server.Superuser(), database))
			results <- result{files, err}
		}()
	}
	for arrived := ""; arrived != "3"; {
		arrived = pgtest.Column[string](t, super, `SELECT count(DISTINCT pid)::text FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'up' AND (wait_event_type = 'Lock' OR query LIKE '%pg_try_advisory_lock%')`)[0]
	}
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	applied := 0
	for range 3 {
		r := <-results
		applied += len(r.files)
		if r.err != nil {
			t.Errorf("Up = %v", r.err)
		}
	}
	version, err := pg.SchemaVersion(t.Context(), super, migrations.VersionTable)
	if applied != int(migrations.Latest()) || version != migrations.Latest() || err != nil {
		t.Errorf("%d files applied, version %d, %v, want %d once each", applied, version, err, migrations.Latest())
	}
}

func up(ctx context.Context, url string) ([]string, error) {
	pool, err := pg.Open(ctx, pg.PoolConfig{URL: url, App: "up", Schema: migrations.Schema, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	m, err := pg.OpenMigrations(pool, migrations.Files(), migrations.VersionTable)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Up(ctx)
}
