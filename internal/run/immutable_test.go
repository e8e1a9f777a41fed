package run_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/migrations"
)

// What is over, and what is a fact, is not written again: not by the owner, not by a superuser.
func TestNobodyWritesWhatIsOver(t *testing.T) {
	w := newWorld(t)
	for i, status := range []run.Status{run.Succeeded, run.Failed, run.Cancelled, run.TimedOut} {
		w.admit(time.Duration(i) * time.Hour)
		work := w.dispatch()
		w.start(work)
		if err := run.Finish(t.Context(), w.runtime, work.Lease, run.Outcome{Status: status}); err != nil {
			t.Fatal(err)
		}
	}
	w.admit(time.Hour * 9)
	w.dispatch()
	w.exec(`UPDATE run_attempts SET status = 'lost', finished_at_ms = created_at_ms, lease_token = NULL, lease_expires_at_ms = NULL WHERE status = 'starting'`)
	w.exec(`INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms) VALUES ('ops', 'hourly', 1, 'skipped', $1)`, w.nowMS)

	tests := []struct{ name, table, where, column string }{
		{"succeeded Run", "runs", "status = 'succeeded'", "version = version + 1"},
		{"failed Run", "runs", "status = 'failed'", "error_code = 'other'"},
		{"cancelled Run", "runs", "status = 'cancelled'", "cancel_requested_at_ms = 1, cancel_reason = 'user'"},
		{"timed out Run", "runs", "status = 'timed_out'", "status = 'failed'"},
		{"succeeded Attempt", "run_attempts", "status = 'succeeded'", "exit_code = 1"},
		{"failed Attempt", "run_attempts", "status = 'failed'", "status = 'succeeded'"},
		{"cancelled Attempt", "run_attempts", "status = 'cancelled'", "worker_id = 'other'"},
		{"timed out Attempt", "run_attempts", "status = 'timed_out'", "callback_sequence = 1"},
		{"lost Attempt", "run_attempts", "status = 'lost'", "status = 'running'"},
		{"Event", "run_events", "true", "payload = '{}'"},
		{"Task revision", "task_definition_revisions", "true", "created_at_ms = 0"},
		{"execution revision", "task_execution_revisions", "true", "created_at_ms = 0"},
		{"Trigger revision", "trigger_revisions", "true", "created_at_ms = 0"},
		{"event of a Schedule", "schedule_events", "true", "instants = 1"},
	}
	writers := map[string]*pgxpool.Pool{"superuser": w.super}
	for _, role := range migrations.Roles() {
		writers[role] = w.Pool(t, role)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contents := `SELECT jsonb_agg(to_jsonb(x)) FROM ` + tt.table + ` x WHERE ` + tt.where
			before := value[any](w, contents)
			if before == nil {
				t.Fatalf("no %s with %s", tt.table, tt.where)
			}
			for name, pool := range writers {
				for _, sql := range []string{`UPDATE ` + tt.table + ` SET ` + tt.column + ` WHERE ` + tt.where, `DELETE FROM ` + tt.table + ` WHERE ` + tt.where} {
					_, err := pool.Exec(t.Context(), sql)
					byTrigger, byPrivilege := pg.HasCode(err, "23001"), pg.HasCode(err, "42501")
					if all := name == "superuser" || name == migrations.RoleMigration; !byTrigger && (all || !byPrivilege) {
						t.Errorf("%s by %s = %v, want it refused", sql, name, err)
					}
				}
			}
			if diff := cmp.Diff(before, value[any](w, contents)); diff != "" {
				t.Errorf("%s (-before +after)\n%s", tt.table, diff)
			}
		})
	}
}

// The owner would otherwise go past the trigger: a role that may update a Run meets it, too.
func TestRolesThatMayUpdateMeetTheTrigger(t *testing.T) {
	w := newWorld(t)
	w.admit(time.Minute)
	work := w.dispatch()
	if err := run.Finish(t.Context(), w.runtime, work.Lease, run.Outcome{Status: run.Failed}); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{migrations.RoleRuntime, migrations.RoleRunManager} {
		if _, err := w.Pool(t, role).Exec(t.Context(), `UPDATE runs SET version = version + 1`); !pg.HasCode(err, "23001") {
			t.Errorf("UPDATE of a terminal Run by %s = %v, want 23001", role, err)
		}
	}
}
