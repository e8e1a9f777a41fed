package catalog

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A world is one database, with the role that publishes and one that may do anything.
type world struct {
	*testing.T
	admin *pgxpool.Pool
	super *pgxpool.Pool
	db    *pgtest.Database
}

func newWorld(t *testing.T) world {
	t.Helper()
	db := pgtest.New(t)
	return world{T: t, admin: db.Pool(t, migrations.RoleAdmin), super: db.Super(t), db: db}
}

// in is the same world without any rows, for a subtest.
func (w world) in(t *testing.T) world {
	t.Helper()
	w.T = t
	w.exec(`TRUNCATE projects CASCADE`)
	return w
}

func (w world) manifest(text string) Manifest {
	w.Helper()
	m, err := read(text)
	if err != nil {
		w.Fatalf("Read() = %v", err)
	}
	return m
}

// apply publishes text and returns what it says about it.
func (w world) apply(text string) string {
	w.Helper()
	changes, err := Apply(w.Context(), w.admin, w.manifest(text), Options{})
	if err != nil {
		w.Fatalf("Apply() = %v", err)
	}
	return show(changes)
}

func show(changes []ProjectChange) string {
	var b strings.Builder
	for _, c := range changes {
		c.WriteTo(&b)
	}
	return b.String()
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

// everything is every row of every table that publishing writes, with its
// version: two equal answers mean that nothing was written in between.
func (w world) everything() string {
	w.Helper()
	var all strings.Builder
	for _, table := range []string{"projects", "task_definitions", "task_definition_revisions", "task_execution_revisions",
		"triggers", "trigger_revisions", "trigger_schedules", "schedule_events"} {
		all.WriteString(table + "\n" + w.rows("SELECT xmin, t.* FROM "+table+" t ORDER BY t::text") + "\n")
	}
	return all.String()
}

// blocked waits until n sessions wait for a lock.
func (w world) blocked(n int) {
	w.Helper()
	pgtest.AwaitLocks(w, w.super, n)
}

type outcome struct {
	text string
	err  error
}

// applies starts n concurrent publications of m.
func (w world) applies(n int, m Manifest) <-chan outcome {
	out := make(chan outcome, n)
	for range n {
		go func() {
			changes, err := Apply(w.Context(), w.admin, m, Options{})
			out <- outcome{show(changes), err}
		}()
	}
	return out
}

// hold runs sql in a transaction that stays open until release is called with
// COMMIT or ROLLBACK.
func (w world) hold(sql string) (release func(end string)) {
	w.Helper()
	conn, err := w.super.Acquire(w.Context())
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
	return func(end string) {
		w.Helper()
		exec(end)
		conn.Release()
	}
}
