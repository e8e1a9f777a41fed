package policy_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A world is one database with the Projects ops, lab (archived) and web, and the Users alice, bob and eve.
type world struct {
	*testing.T
	db      *pgtest.Database
	admin   *pgxpool.Pool
	console *pgxpool.Pool
	super   *pgxpool.Pool
}

var (
	alice = uuid.MustParse("00000000-0000-7000-8000-00000000000a")
	bob   = uuid.MustParse("00000000-0000-7000-8000-00000000000b")
	eve   = uuid.MustParse("00000000-0000-7000-8000-00000000000e")
)

const people = `
INSERT INTO projects (id, name, status, version, created_at_ms, updated_at_ms) VALUES
    ('ops', 'Operations', 'active', 7, 1, 1), ('lab', 'Laboratory', 'archived', 2, 1, 1), ('web', 'Website', 'active', 1, 1, 1);
INSERT INTO users (id, issuer, subject, name, email, email_verified, created_at_ms, updated_at_ms) VALUES
    ('00000000-0000-7000-8000-00000000000a', 'https://idp.example', 'alice', 'Alice', 'alice@example.org', true, 1, 1),
    ('00000000-0000-7000-8000-00000000000b', 'https://idp.example', 'bob', NULL, 'bob@example.org', false, 1, 1),
    ('00000000-0000-7000-8000-00000000000e', 'https://other.example', 'eve', NULL, NULL, false, 1, 1)`

func newWorld(t *testing.T) world {
	t.Helper()
	db := pgtest.New(t)
	w := world{T: t, db: db, admin: db.Pool(t, migrations.RoleAdmin), console: db.Pool(t, migrations.RoleConsole), super: db.Super(t)}
	w.exec(people)
	return w
}

var byRoot = policy.Actor{Type: policy.ByCommand, Name: "root@host"}

// asks is a request that grants role to user in ops.
func asks(user uuid.UUID, role policy.Role) policy.GrantRequest {
	return policy.GrantRequest{Project: "ops", User: user, Role: role, MutationID: uuid.New(), Actor: byRoot, Reason: "INC-7"}
}

// takes is the request that takes away what r grants.
func takes(r policy.GrantRequest) policy.RevokeRequest {
	return policy.RevokeRequest{Project: r.Project, User: r.User, MutationID: uuid.New(), Actor: r.Actor, Reason: r.Reason}
}

func (w world) grant(r policy.GrantRequest) policy.Binding {
	w.Helper()
	b, err := policy.Grant(w.Context(), w.admin, r)
	if err != nil {
		w.Fatalf("Grant(%+v) = %v", r, err)
	}
	return b
}

func (w world) revoke(r policy.RevokeRequest) {
	w.Helper()
	if _, err := policy.Revoke(w.Context(), w.admin, r); err != nil {
		w.Fatalf("Revoke(%+v) = %v", r, err)
	}
}

func (w world) access(user uuid.UUID) policy.Access {
	w.Helper()
	a, err := policy.ReadAccess(w.Context(), w.console, user)
	if err != nil {
		w.Fatalf("ReadAccess(%s) = %v", user, err)
	}
	return a
}

func (w world) exec(sql string, args ...any) {
	w.Helper()
	pgtest.Exec(w, w.super, sql, args...)
}

// rows returns a query's rows as text, a line each.
func (w world) rows(sql string, args ...any) string {
	w.Helper()
	return strings.Join(pgtest.Texts(w, w.super, sql, args...), "\n")
}

func (w world) wantRows(want, sql string, args ...any) {
	w.Helper()
	if diff := cmp.Diff(want, w.rows(sql, args...)); diff != "" {
		w.Errorf("%s (-want +got):\n%s", sql, diff)
	}
}

// everything is every row that this package writes, with its version: two equal answers mean that nothing was written.
func (w world) everything() string {
	w.Helper()
	var all strings.Builder
	for _, table := range []string{"projects", "users", "project_role_bindings", "console_sessions", "security_audit_events"} {
		all.WriteString(table + "\n" + w.rows("SELECT xmin, t.* FROM "+table+" t ORDER BY t::text") + "\n")
	}
	return all.String()
}

// blocked waits until n sessions wait for a lock.
func (w world) blocked(n int) {
	w.Helper()
	pgtest.AwaitLocks(w, w.super, n)
}

// hold runs sql as role in a transaction that stays open until release is called with COMMIT or ROLLBACK.
func (w world) hold(pool *pgxpool.Pool, sql string) (release func(end string)) {
	w.Helper()
	conn, err := pool.Acquire(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	exec := func(sql string) {
		w.Helper()
		if _, err := conn.Exec(w.Context(), sql); err != nil {
			w.Fatalf("%s: %v", sql, err)
		}
	}
	exec("BEGIN")
	exec(sql)
	w.Cleanup(func() { // after a failure too, or the pool would wait for it
		conn.Hijack().Close(context.WithoutCancel(w.Context()))
	})
	return exec
}

// session makes a session of user that nobody has ended.
func session(user uuid.UUID) string {
	return fmt.Sprintf(`INSERT INTO console_sessions (id, user_id, origin, issuer, subject, peer_address, created_at_ms, last_seen_at_ms, idle_ms, expires_at_ms)
		SELECT gen_random_uuid(), id, 'oidc', issuer, subject, '127.0.0.1', 1, 1, 1, 2 FROM users WHERE id = '%s'`, user)
}

// A counter counts the queries that reach the database.
type counter struct {
	pg.Querier
	queries int
}

func (c *counter) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.queries++
	return c.Querier.Query(ctx, sql, args...)
}

func (c *counter) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.queries++
	return c.Querier.QueryRow(ctx, sql, args...)
}
