package migrations_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// A database of the previous version, with rows of every kind, is brought up to date: the gates pass, and every row says
// what it said.
func TestRowsOfThePreviousVersionSurvive(t *testing.T) {
	db := pgtest.New(t)
	m, err := pg.OpenMigrations(db.Pool(t, migrations.RoleMigration), migrations.Files(), migrations.VersionTable)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	super := db.Super(t)
	fillPrevious(t, super)
	tables := columnLists(t, super)
	before := contents(t, super, tables)
	for table, rows := range before {
		if len(rows) == 0 {
			t.Errorf("testdata/rows.sql has no row of %s", table)
		}
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, contents(t, super, tables)); diff != "" {
		t.Errorf("rows (-before +after the migration):\n%s", diff)
	}
	built := pg.Schema{Name: migrations.Schema, Version: migrations.Latest(), VersionTable: migrations.VersionTable, FloorTable: migrations.FloorTable}
	for _, role := range migrations.Roles()[1:] { // all but the owner
		pool := db.Pool(t, role)
		if err := built.Check(t.Context(), pool); err != nil {
			t.Error(err)
		}
		if err := built.CheckPrivileges(t.Context(), pool, role, migrations.Privileges(role)); err != nil {
			t.Error(err)
		}
	}
}

func fillPrevious(t *testing.T, super *pgxpool.Pool) {
	t.Helper()
	text, err := os.ReadFile("testdata/rows.sql")
	if err != nil {
		t.Fatal(err)
	}
	now := pgtest.Value[string](t, super, `SELECT (`+pg.ClockMS+`)::text`)
	pgtest.Exec(t, super, "DO $do$ BEGIN\n"+strings.ReplaceAll(string(text), ":now", now)+"\nEND $do$")
}

// columnLists are the columns of every table but goose's and that of floors, which a migration adds to.
func columnLists(t *testing.T, super *pgxpool.Pool) map[string]string {
	t.Helper()
	lists := map[string]string{}
	for _, line := range pgtest.Column[string](t, super, `SELECT c.relname || ' ' || string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'ql3'::regnamespace AND c.relkind = 'r' AND c.relname NOT IN ('goose_db_version', 'schema_floors') GROUP BY c.relname`) {
		table, columns, _ := strings.Cut(line, " ")
		lists[table] = columns
	}
	return lists
}

// contents are the rows of tables, by the columns given.
func contents(t *testing.T, super *pgxpool.Pool, tables map[string]string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for table, columns := range tables {
		rows[table] = pgtest.Texts(t, super, `SELECT `+columns+` FROM ql3.`+table)
		slices.Sort(rows[table])
	}
	return rows
}
