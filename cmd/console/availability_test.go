package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

const losses = "ql3_admission_losses_total"

// ofConsole selects the backends of the replicas in this database.
const ofConsole = `FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'console %'`

// lost waits until the replica has withdrawn admission once more than before, and is ready again.
func (p *replica) lostAndReady(t *testing.T, before float64) {
	t.Helper()
	eventually(t, "admission was withdrawn", func() bool { return p.metrics(t)[losses] > before })
	p.ready(t)
}

// allOnce waits until nothing is due and checks that every Trigger has exactly one Run.
func allOnce(t *testing.T, super *pgxpool.Pool) {
	t.Helper()
	eventually(t, "nothing is due", func() bool {
		return pgtest.Value[int64](t, super, "SELECT count(*) FROM trigger_schedules WHERE claim_token IS NOT NULL OR next_fire_at_ms <= extract(epoch FROM now()) * 1000") == 0
	})
	if runs, triggers := pgtest.Value[int64](t, super, "SELECT count(*) FROM runs"), pgtest.Value[int64](t, super, "SELECT count(DISTINCT trigger_id) FROM runs"); runs != due || triggers != due {
		t.Errorf("%d Runs of %d Triggers, want %d of %d", runs, triggers, due, due)
	}
}

// A backend is terminated while the replica is idle, in its claim, and in its commit. Each time admission is withdrawn,
// returns through the gates in the same process, and every occurrence becomes one Run.
func TestTerminatedBackends(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		lock    string // what makes the statement wait
		waiting string // the statement that waits
	}{
		{"idle", "", ""},
		{"in the claim", "LOCK TABLE trigger_schedules IN ACCESS EXCLUSIVE MODE", "%AS taken_from%"},
		{"in the commit", "LOCK TABLE runs IN SHARE MODE", "%INSERT INTO runs%"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db, vars := published(t, due)
			super := db.Super(t)
			p := serve(t, vars, "--claim-lease", "2s", "--database-deadline", "1900ms")
			p.ready(t)
			initialised(t, super)
			before := p.metrics(t)[losses]
			if tt.lock == "" {
				pgtest.Value[int64](t, super, `SELECT count(pg_terminate_backend(pid)) `+ofConsole)
				p.lostAndReady(t, before)
				makeDue(t, super)
			} else {
				makeDueBehind(t, super, tt.lock, func() {
					eventually(t, "the statement waits", func() bool {
						return pgtest.Value[int64](t, super, `SELECT count(*) `+ofConsole+` AND wait_event_type = 'Lock' AND query LIKE $1`, tt.waiting) > 0
					})
					pgtest.Value[int64](t, super, `SELECT count(pg_terminate_backend(pid)) `+ofConsole+` AND wait_event_type = 'Lock'`)
				})
				p.lostAndReady(t, before)
			}
			allOnce(t, super)
		})
	}
}

// makeDueBehind makes every Schedule due, with the table locked before a replica can look, and calls then.
func makeDueBehind(t *testing.T, super *pgxpool.Pool, lock string, then func()) {
	t.Helper()
	tx, err := super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, sql := range []string{"SET LOCAL idle_in_transaction_session_timeout = 0", lock} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(lock, "trigger_schedules") {
		then() // the replica looks at least once a cadence
		tx.Rollback(t.Context())
		makeDue(t, super)
		return
	}
	makeDue(t, super)
	then()
}

// PostgreSQL is stopped and started again. The process stays, says so at every step, and goes on by itself.
func TestDatabaseStoppedAndStarted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(pgtest.Dir(t), "postgres")
	server, err := pgtest.StartIn(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	if err := pgtest.Migrate(t.Context(), server, "lost"); err != nil {
		t.Fatal(err)
	}
	db := pgtest.On(server, "lost")
	vars := variables(db)
	if got := consoleReading(t, yearly(due), vars, "apply", "-f", "-"); got.code != 0 {
		t.Fatalf("apply = %+v", got)
	}
	p := serve(t, vars)
	p.ready(t)
	step := func(when string, status int, ready float64) {
		t.Helper()
		eventually(t, when+": /readyz and the metric follow", func() bool {
			return get(t.Context(), p.public+"/readyz", "").status == status && p.metrics(t)["ql3_ready"] == ready
		})
		if got := get(t.Context(), p.public+"/livez", ""); got.status != http.StatusOK {
			t.Errorf("%s: /livez = %+v, want 200", when, got)
		}
	}
	step("before", http.StatusOK, 1)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	step("stopped", http.StatusServiceUnavailable, 0)
	if reason := get(t.Context(), p.machine+"/readyz", "").body; !strings.Contains(reason, "database") {
		t.Errorf("the machine listener's reason is %q, want one about the database", reason)
	}
	server = restart(t, dir)
	step("started again", http.StatusOK, 1)
	super := pgtest.On(server, "lost").Super(t)
	initialised(t, super)
	makeDue(t, super)
	allOnce(t, super)
	if p.metrics(t)[losses] < 1 {
		t.Errorf("%s = 0, want the loss counted", losses)
	}
}

func restart(t *testing.T, dir string) *postgres.Server {
	t.Helper()
	server, err := pgtest.StartIn(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return server
}

// The primary becomes read-only, as after a failover that the endpoint has not followed.
func TestDatabaseMadeReadOnly(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	p := serve(t, vars)
	p.ready(t)
	initialised(t, super)
	readOnly := func(on string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), "ALTER DATABASE "+db.Name+" SET default_transaction_read_only = "+on); err != nil {
			t.Fatal(err)
		}
		pgtest.Value[int64](t, super, `SELECT count(pg_terminate_backend(pid)) `+ofConsole)
	}
	readOnly("on")
	eventually(t, "/readyz is 503 with the reason", func() bool {
		got := get(t.Context(), p.machine+"/readyz", "")
		return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "read")
	})
	if got := get(t.Context(), p.public+"/livez", ""); got.status != http.StatusOK {
		t.Errorf("/livez = %+v, want 200", got)
	}
	if _, err := super.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	readOnly("off")
	p.ready(t)
	makeDue(t, super)
	allOnce(t, super)
}

// A notification ends a long sleep, also after the listening connection has been lost; without any, polling goes on.
func TestListenIsReestablished(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	p := serve(t, vars, "--cadence", "10s")
	p.ready(t)
	initialised(t, super)
	const listener = `FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN %'`
	eventually(t, "the replica listens", func() bool { return pgtest.Value[int64](t, super, `SELECT count(*) `+listener) == 1 })
	pid := pgtest.Value[int32](t, super, `SELECT pid `+listener)
	pgtest.Value[bool](t, super, `SELECT pg_terminate_backend($1)`, pid)
	eventually(t, "it listens again", func() bool {
		return pgtest.Value[int64](t, super, `SELECT count(*) `+listener+` AND pid <> $1`, pid) == 1
	})
	began := time.Now()
	makeDue(t, super)
	allOnce(t, super)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("admitted after %v: the notification did not end a sleep of 10 s", took)
	}
}

// A privilege too few or too many keeps a replica from becoming ready, and it says which.
func TestPrivilegesGateReadiness(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, sql, undo, want string }{
		{"too few", "REVOKE INSERT ON ql3.run_events FROM ql3_runtime", "GRANT INSERT ON ql3.run_events TO ql3_runtime", "lacks INSERT run_events"},
		{"too many", "GRANT DELETE ON ql3.runs TO ql3_runtime", "REVOKE DELETE ON ql3.runs FROM ql3_runtime", "has DELETE runs, which is too much"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db, vars := published(t, 1)
			super := db.Super(t)
			if _, err := super.Exec(t.Context(), tt.sql); err != nil {
				t.Fatal(err)
			}
			p := serve(t, vars)
			eventually(t, "the reason names the privilege", func() bool {
				got := get(t.Context(), p.machine+"/readyz", "")
				return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, tt.want)
			})
			if got := get(t.Context(), p.public+"/readyz", ""); got.status != http.StatusServiceUnavailable {
				t.Errorf("/readyz = %+v, want 503", got)
			}
			if _, err := super.Exec(t.Context(), tt.undo); err != nil {
				t.Fatal(err)
			}
			p.ready(t)
		})
	}
}

// A privilege that a running replica loses is noticed by the commit that needs it: the cycle is no success, the gates
// name the privilege, and what was claimed is admitted once it is given back.
func TestPrivilegeLostWhileRunning(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	p := serve(t, vars, "--claim-lease", "2s", "--database-deadline", "1900ms")
	p.ready(t)
	initialised(t, super)
	if _, err := super.Exec(t.Context(), "REVOKE INSERT ON ql3.runs FROM ql3_runtime"); err != nil {
		t.Fatal(err)
	}
	makeDue(t, super)
	eventually(t, "the reason names the privilege, and the metric agrees", func() bool {
		got := get(t.Context(), p.machine+"/readyz", "")
		return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "lacks INSERT runs") && p.metrics(t)["ql3_ready"] == 0
	})
	if _, err := super.Exec(t.Context(), "GRANT INSERT ON ql3.runs TO ql3_runtime"); err != nil {
		t.Fatal(err)
	}
	p.ready(t)
	allOnce(t, super)
}
