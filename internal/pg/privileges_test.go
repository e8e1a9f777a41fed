package pg_test

import (
	"strings"
	"testing"

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
			if err := built().CheckPrivileges(t.Context(), db.Pool(t, role), role, migrations.Privileges(role)); err != nil {
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
			err := built().CheckPrivileges(t.Context(), db.Pool(t, migrations.RoleRuntime), migrations.RoleRuntime,
				migrations.Privileges(migrations.RoleRuntime))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("CheckPrivileges = %v, want one that says %q", err, tt.want)
			}
		})
	}
}

// On a newer schema a replica compares what it knows, as strictly as ever, and nothing that it has never heard of.
func TestCheckPrivilegesOnANewerSchema(t *testing.T) {
	const byColumn = `REVOKE SELECT ON ql3.projects FROM ql3_console; GRANT SELECT (id, name, status, version, guard, created_at_ms, updated_at_ms) ON ql3.projects TO ql3_console`
	tests := []struct{ name, sql, want string }{
		{"a new table", `CREATE TABLE ql3.extra (id int); GRANT SELECT, INSERT ON ql3.extra TO ql3_console`, ""},
		{"a new column of a table granted whole", `ALTER TABLE ql3.projects ADD extra int`, ""},
		{"a new column of a table granted by columns", `ALTER TABLE ql3.run_attempts ADD extra int; GRANT SELECT (extra) ON ql3.run_attempts TO ql3_console`, ""},
		{"a new function", `CREATE FUNCTION ql3.extra() RETURNS int LANGUAGE sql RETURN 1; GRANT EXECUTE ON FUNCTION ql3.extra() TO ql3_console`, ""},
		{"a new sequence", `CREATE SEQUENCE ql3.extra; GRANT USAGE ON SEQUENCE ql3.extra TO ql3_console`, ""},
		{"every known column instead of the table", byColumn, ""},

		{"a known column less", `REVOKE SELECT ON ql3.projects FROM ql3_console; GRANT SELECT (id, name) ON ql3.projects TO ql3_console`, "lacks SELECT projects.created_at_ms"},
		{"a known column more", `GRANT SELECT (lease_token) ON ql3.run_attempts TO ql3_console`, "has SELECT run_attempts.lease_token, which is too much"},
		{"the table instead of known columns", `GRANT SELECT ON ql3.run_attempts TO ql3_console`, "has SELECT run_attempts.lease_token, which is too much"},
		{"a known table more", `GRANT DELETE ON ql3.runs TO ql3_console`, "has DELETE runs, which is too much"},
		{"a known function more", `GRANT EXECUTE ON FUNCTION ql3.prune(integer) TO ql3_console`, "has EXECUTE prune(integer), which is too much"},
		{"a known sequence more", `GRANT USAGE ON SEQUENCE ql3.schedule_events_id_seq TO ql3_console`, "has USAGE sequence schedule_events_id_seq, which is too much"},
		{"the schema", `GRANT CREATE ON SCHEMA ql3 TO ql3_console`, "has CREATE schema, which is too much"},
		{"ownership", `ALTER TABLE ql3.replicas OWNER TO ql3_console`, "has OWN replicas, which is too much"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := pgtest.New(t)
			super := db.Super(t)
			pgtest.Exec(t, super, `INSERT INTO ql3.goose_db_version (version_id, is_applied) VALUES ($1, true)`, migrations.Latest()+1)
			if _, err := super.Exec(t.Context(), tt.sql); err != nil {
				t.Fatal(err)
			}
			err := built().CheckPrivileges(t.Context(), db.Pool(t, migrations.RoleConsole), migrations.RoleConsole, migrations.Privileges(migrations.RoleConsole))
			if tt.want == "" && err != nil {
				t.Errorf("CheckPrivileges = %v, want none: this program knows nothing of it", err)
			}
			if tt.want != "" {
				says(t, "CheckPrivileges", err, tt.want)
			}
		})
	}
}
