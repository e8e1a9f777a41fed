package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// column is one column of a table, and whether a statement may name it in INSERT.
type column struct {
	Table, Name string
	Insertable  bool
}

// Every role tries every verb on every table and column, and what the server lets it do is exactly the matrix. Each
// statement touches no row; the server checks the privilege before it looks for any.
func TestEveryRoleTriesEverything(t *testing.T) {
	db := pgtest.New(t)
	rows, err := db.Super(t).Query(t.Context(), `
		SELECT table_name::text, column_name::text, is_generated = 'NEVER' AND coalesce(identity_generation, '') <> 'ALWAYS'
		FROM information_schema.columns WHERE table_schema = 'ql3' ORDER BY table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range migrations.Roles() {
		if role == migrations.RoleMigration {
			continue // the owner
		}
		t.Run(role, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), db.URL(role))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			want := migrations.Privileges(role)
			var got, expected []string
			for _, try := range tries(columns) {
				if may(t, conn, try.sql) {
					got = append(got, try.privilege)
				}
				if slices.Contains(want, try.privilege) || slices.Contains(want, try.byTable) {
					expected = append(expected, try.privilege)
				}
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%s may (-matrix +server):\n%s", role, diff)
			}
		})
	}
}

// attempt is one statement, and the privilege that the server wants for it: of the column, or of its whole table.
type attempt struct{ sql, privilege, byTable string }

func tries(columns []column) (list []attempt) {
	var table string
	for _, c := range columns {
		if c.Table != table {
			table = c.Table
			for verb, sql := range map[string]string{"DELETE": "DELETE FROM ql3.%s WHERE false", "TRUNCATE": "TRUNCATE ql3.%s CASCADE"} {
				list = append(list, attempt{fmt.Sprintf(sql, table), verb + " " + table, verb + " " + table})
			}
		}
		add := func(verb, sql string) {
			list = append(list, attempt{sql, verb + " " + c.Table + "." + c.Name, verb + " " + c.Table})
		}
		add("SELECT", fmt.Sprintf(`SELECT %q FROM ql3.%s LIMIT 0`, c.Name, c.Table))
		add("UPDATE", fmt.Sprintf(`UPDATE ql3.%s SET %q = DEFAULT WHERE false`, c.Table, c.Name))
		if c.Insertable {
			add("INSERT", fmt.Sprintf(`INSERT INTO ql3.%s (%q) SELECT NULL WHERE false`, c.Table, c.Name))
		}
	}
	slices.SortFunc(list, func(a, b attempt) int { return strings.Compare(a.privilege, b.privilege) })
	return list
}

// may reports whether the server lets conn do it, in a transaction that is rolled back.
func may(t *testing.T, conn *pgx.Conn, sql string) bool {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), sql)
	if err != nil && !pg.HasCode(err, "42501") {
		t.Fatalf("%s: %v", sql, err)
	}
	return !pg.HasCode(err, "42501")
}
