package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// TestPointInTimeRecovery loses a primary and brings back an instant from a base backup and archived WAL, as
// docs/operations.md says: all that was confirmed before it is there and nothing after, and a replica goes on from it.
func TestPointInTimeRecovery(t *testing.T) {
	t.Parallel()
	program := built(t, console)
	site := newArchive(t)
	primary := site.start(t, "primary", site.archiving())
	vars, super := install(t, primary, "postgres"), superOf(t, primary, "postgres")
	run(t, vars, fmt.Sprintf(restoreManifest, ""), "apply", "-f", "-")
	everyKindOfRow(t, super)
	replica := serve(t, program, vars)
	admits(t, super, replica)
	baseBackup(t, primary, filepath.Join(site.root, "recovered"))
	admits(t, super, replica) // what only the WAL knows
	grant(t, vars, "viewer")
	confirmed := historyOf(t, super)
	target := pgtest.Value[string](t, super, "SELECT clock_timestamp()::text")
	targetMS := clockMS(t, super)
	grant(t, vars, "owner")         // by mistake
	goneOn(t, super, targetMS+1000) // what was due next at the target has its Runs
	site.archived(t, super)
	super.Close()
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	replica.kill()

	recovered := site.recover(t, "recovered", target)
	vars, back := variablesOf(t, recovered, "postgres"), superOf(t, recovered, "postgres")
	run(t, vars, "", "check")
	lost := superOf(t, site.start(t, "primary", nil), "postgres") // comes back to be asked, and has no replica
	if was, is := timeline(t, lost), timeline(t, back); is <= was {
		t.Errorf("the recovered server is on timeline %d, that of the lost one was %d", is, was)
	}
	upTo(t, back, lost, confirmed, targetMS)
	signEverybodyOut(t, vars, back)
	goesOnWithinGrace(t, program, vars, back, lost)
}

// upTo sees that back has all of confirmed, and of what lost has made after target nothing.
func upTo(t *testing.T, back, lost *pgxpool.Pool, confirmed map[string]bool, targetMS int64) {
	t.Helper()
	intact(t, lost, back)
	got := historyOf(t, back)
	for row := range confirmed {
		if !got[row] {
			t.Errorf("what was confirmed before the target is gone: %s", row)
		}
	}
	for _, table := range []string{"runs", "run_events", "run_attempts", "project_role_bindings", "security_audit_events"} {
		sql := fmt.Sprintf("SELECT count(*) FROM ql3.%s WHERE created_at_ms > $1", table)
		if got := pgtest.Value[int](t, back, sql, targetMS); got != 0 {
			t.Errorf("%s has %d rows of after the target, want none", table, got)
		}
		if pgtest.Value[int](t, lost, sql, targetMS) == 0 {
			t.Errorf("%s had no row of after the target to lose", table)
		}
	}
	if diff := cmp.Diff([]string{"viewer"}, pgtest.Column[string](t, back, "SELECT role FROM ql3.project_role_bindings WHERE project_id = 'ops' ORDER BY version")); diff != "" {
		t.Errorf("the roles that came back (-want +got):\n%s", diff)
	}
}

// goesOnWithinGrace starts a replica and sees what it makes of what was due between the target and now.
func goesOnWithinGrace(t *testing.T, program string, vars map[string]string, back, lost *pgxpool.Pool) {
	t.Helper()
	due := map[string]int64{}
	for _, trigger := range []string{"skips", "once"} {
		due[trigger] = pgtest.Value[int64](t, back, "SELECT next_fire_at_ms FROM ql3.trigger_schedules WHERE trigger_id = $1", trigger)
	}
	last := slices.Max(slices.Collect(maps.Values(due)))
	eventually(t, "more than one instant of each is late", func() bool { return clockMS(t, back) > last+1000 })
	admits(t, back, serve(t, program, vars))
	goneOn(t, back, last)
	for trigger, ms := range due {
		const runs = "SELECT count(*) FROM ql3.runs WHERE trigger_id = $1 AND scheduled_for_ms = $2"
		got := []int{pgtest.Value[int](t, lost, runs, trigger, ms), pgtest.Value[int](t, back, runs, trigger, ms), pgtest.Value[int](t, back, runs, trigger, ms+1000)}
		if want := []int{1, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("Runs of %s: of what was due at the target in what was lost, in what came back, and of a second later = %v, want %v", trigger, got, want)
		}
		if got := pgtest.Value[int](t, back, "SELECT count(*) FROM ql3.schedule_events WHERE type = 'coalesced' AND trigger_id = $1 AND first_at_ms = $2", trigger, ms+1000); got != 1 {
			t.Errorf("the account of %s names what was passed over %d times, want once", trigger, got)
		}
	}
	if diff := cmp.Diff(unaccounted{}, one(t, back, pgx.RowToStructByPos[unaccounted], unaccountedSQL)); diff != "" {
		t.Errorf("what the recovery did to the seconds (-want +got):\n%s", diff)
	}
}

// grant gives the user that everyKindOfRow makes a role in ops.
func grant(t *testing.T, vars map[string]string, role string) {
	t.Helper()
	run(t, vars, "", "grant", "--project", "ops", "--role", role, "--yes", "--email", "ada@kept.example")
}

// historyOf is each row of the history, after its table's name.
func historyOf(t *testing.T, pool *pgxpool.Pool) map[string]bool {
	t.Helper()
	rows := map[string]bool{}
	for _, table := range lasting {
		for _, row := range pgtest.Texts(t, pool, "SELECT * FROM ql3."+table) {
			rows[table+" "+row] = true
		}
	}
	return rows
}

// timeline is the one that super's server writes.
func timeline(t *testing.T, super *pgxpool.Pool) int {
	t.Helper()
	return pgtest.Value[int](t, super, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int")
}

// An archive is a directory of WAL with the servers beside it.
type archive struct{ root, wal string }

func newArchive(t *testing.T) archive {
	t.Helper()
	root := pgtest.Dir(t)
	a := archive{root: root, wal: filepath.Join(root, "wal")}
	if err := os.Mkdir(a.wal, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(a.wal, 0o777); err != nil { // the servers' user writes there
		t.Fatal(err)
	}
	return a
}

func (a archive) archiving() map[string]string {
	return map[string]string{"archive_mode": "on", "archive_command": fmt.Sprintf("test ! -f %[1]s/%%f && cp %%p %[1]s/%%f", a.wal), "archive_timeout": "60"}
}

// start starts the server in the directory name, as what its data says it is.
func (a archive) start(t *testing.T, name string, settings map[string]string) *postgres.Server {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Config{Dir: filepath.Join(a.root, name), Durable: true, Bin: os.Getenv(pgtest.BinVariable), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return server
}

// archived waits until all WAL that there is by now is in the archive.
func (a archive) archived(t *testing.T, super *pgxpool.Pool) {
	t.Helper()
	last := pgtest.Value[string](t, super, "SELECT pg_walfile_name(pg_switch_wal())")
	eventually(t, "WAL is archived", func() bool {
		return pgtest.Value[bool](t, super, "SELECT coalesce(last_archived_wal >= $1, false) FROM pg_stat_archiver", last)
	})
}

// recover starts the server in the directory name, which holds a base backup, as what it was at target.
func (a archive) recover(t *testing.T, name, target string) *postgres.Server {
	t.Helper()
	if err := write(filepath.Join(a.root, name, "data"), "recovery.signal", ""); err != nil {
		t.Fatal(err)
	}
	settings := a.archiving()
	maps.Copy(settings, map[string]string{"restore_command": fmt.Sprintf("cp %s/%%f %%p", a.wal), "recovery_target_time": target, "recovery_target_action": "promote"})
	server := a.start(t, name, settings)
	super := superOf(t, server, "postgres")
	eventually(t, "the server is a primary", func() bool { return !pgtest.Value[bool](t, super, "SELECT pg_is_in_recovery()") })
	return server
}
