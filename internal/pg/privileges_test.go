package pg_test

import (
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestEveryRoleHasExactlyItsPrivileges(t *testing.T) {
	db := pgtest.New(t)
	for _, role := range migrations.Roles() {
		if role == migrations.RoleMigration {
			continue // the owner
		}
		t.Run(role, func(t *testing.T) {
			if err := pg.CheckPrivileges(t.Context(), db.Pool(t, role), migrations.Schema, role, migrations.Privileges(role)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckPrivilegesNamesEveryDeviation(t *testing.T) {
	tests := []struct{ name, sql, want string }{
		{"a table privilege missing", `REVOKE UPDATE ON ql3.trigger_schedules FROM ql3_runtime`, "lacks UPDATE trigger_schedules"},
		{"a table privilege too many", `GRANT DELETE ON ql3.runs TO ql3_runtime`, "has DELETE runs, which is too much"},
		{"one column too many", `GRANT INSERT (name) ON ql3.projects TO ql3_runtime`, "has INSERT projects.name, which is too much"},
		{"through PUBLIC", `GRANT TRUNCATE ON ql3.runs TO PUBLIC`, "has TRUNCATE runs, which is too much"},
		{"a function missing", `REVOKE EXECUTE ON FUNCTION ql3.prune(integer) FROM ql3_runtime`, "lacks EXECUTE prune(integer)"},
		{"a function too many", `GRANT EXECUTE ON FUNCTION ql3.refuse_write() TO PUBLIC`, "has EXECUTE refuse_write(), which is too much"},
		{"a sequence", `GRANT USAGE ON ALL SEQUENCES IN SCHEMA ql3 TO ql3_runtime`, "has USAGE sequence schedule_events_id_seq, which is too much"},
		{"the schema", `GRANT CREATE ON SCHEMA ql3 TO ql3_runtime`, "has CREATE schema, which is too much"},
		{"an unknown table", `CREATE TABLE ql3.extra (); GRANT SELECT ON ql3.extra TO ql3_runtime`, "has SELECT extra, which is too much"},
		{"ownership", `ALTER TABLE ql3.replicas OWNER TO ql3_runtime`, "has OWN replicas, which is too much"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := pgtest.New(t)
			if _, err := db.Super(t).Exec(t.Context(), tt.sql); err != nil {
				t.Fatal(err)
			}
			err := pg.CheckPrivileges(t.Context(), db.Pool(t, migrations.RoleRuntime), migrations.Schema, migrations.RoleRuntime,
				migrations.Privileges(migrations.RoleRuntime))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("CheckPrivileges = %v, want one that says %q", err, tt.want)
			}
		})
	}
}
