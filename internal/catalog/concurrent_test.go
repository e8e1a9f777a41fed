package catalog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

func TestApplyConcurrently(t *testing.T) {
	all := newWorld(t)
	changed := strings.Replace(ops, "/bin/report", "/bin/report2", 1)
	tests := []struct {
		name        string
		first, then string
		hold        string
		end         string
		changes     int
		tasks       string
	}{
		{"new Project", "", ops, `INSERT INTO projects VALUES ('ops', 'Held', 'active', 1, 0, 1, 1)`, "ROLLBACK", 1, "(report,1)\n(sweep,1)"},
		{"new Project, there meanwhile", "", ops, `INSERT INTO projects VALUES ('ops', 'Operations', 'active', 1, 0, 1, 1)`, "COMMIT", 1, "(report,1)\n(sweep,1)"},
		{"changed Task", ops, changed, `SELECT FROM projects FOR NO KEY UPDATE`, "COMMIT", 1, "(report,2)\n(sweep,1)"},
		{"Project raised meanwhile", ops, changed, `UPDATE projects SET guard = guard + 1`, "COMMIT", 1, "(report,2)\n(sweep,1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := all.in(t)
			if tt.first != "" {
				w.apply(tt.first)
			}
			release := w.hold(tt.hold)
			out := w.applies(2, w.manifest(tt.then))
			w.blocked(2)
			release(tt.end)
			changes := 0
			for range 2 {
				o := <-out
				if o.err != nil {
					t.Fatalf("Apply() = %v", o.err)
				}
				if o.text != "project ops: unchanged\n" {
					changes++
				}
			}
			if changes != tt.changes {
				t.Errorf("%d of 2 concurrent applications published, want %d", changes, tt.changes)
			}
			w.wantRows(tt.tasks, selectTasks)
		})
	}
}

// An admission that commits while the publication waits for its row is seen:
// its instant is not superseded as well.
func TestApplyWaitsForAdmission(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = 600000 WHERE trigger_id = 'sweep'`)
	release := w.hold(`UPDATE trigger_schedules SET next_fire_at_ms = 9000000000000, state_version = state_version + 1 WHERE trigger_id = 'sweep'`)
	out := w.applies(1, w.manifest(strings.Replace(ops, `"*/5 *`, `"*/6 *`, 1)))
	w.blocked(1)
	release("COMMIT")
	if o := <-out; o.err != nil {
		t.Fatalf("Apply() = %v", o.err)
	}
	w.wantRows("", `SELECT * FROM schedule_events`)
	w.wantRows("(sweep,2,t,,3,1)", `SELECT trigger_id, trigger_revision, enabled, next_fire_at_ms, state_version, claim_version FROM trigger_schedules WHERE trigger_id = 'sweep'`)
}

// However long it waited: what it publishes, it publishes as of then.
func TestApplyReadsClockAfterLocks(t *testing.T) {
	all := newWorld(t)
	for _, table := range []string{"projects", "trigger_schedules"} {
		t.Run(table, func(t *testing.T) {
			w := all.in(t)
			w.apply(ops)
			release := w.hold(`SELECT FROM ` + table + ` FOR UPDATE`)
			out := w.applies(1, w.manifest(strings.Replace(ops, "/bin/report", "/bin/report2", 1)))
			w.blocked(1)
			var released int64
			if err := w.super.QueryRow(t.Context(), `SELECT pg_sleep(0.01), `+pg.ClockMS).Scan(nil, &released); err != nil {
				t.Fatal(err)
			}
			release("ROLLBACK")
			if o := <-out; o.err != nil {
				t.Fatalf("Apply() = %v", o.err)
			}
			w.wantRows("(t,t)", `SELECT r.created_at_ms >= $1, s.base_at_ms = r.created_at_ms FROM trigger_schedules s
				JOIN trigger_revisions r ON r.trigger_id = s.trigger_id AND r.revision = 2 WHERE s.trigger_id = 'nightly'`, released)
		})
	}
}

// A lostAnswer is a connection that breaks after COMMIT was sent, once.
type lostAnswer struct {
	net.Conn
	lose      *atomic.Bool
	committed bool
}

func (c *lostAnswer) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) && c.lose.CompareAndSwap(true, false) {
		c.committed = true
	}
	return c.Conn.Write(b)
}

func (c *lostAnswer) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.committed && err == nil {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// The answer to the COMMIT is lost; what happened is found out, not done twice.
func TestApplySettlesUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	config, err := pgxpool.ParseConfig(w.db.URL(migrations.RoleAdmin))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = migrations.Schema
	var lose atomic.Bool
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &lostAnswer{Conn: conn, lose: &lose}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	m := w.manifest(ops)
	if _, err := Apply(t.Context(), pool, m, Options{DryRun: true}); err != nil {
		t.Fatal(err) // its COMMIT is not the one to lose
	}
	to := m.Projects[0]
	lose.Store(true)
	change, err := publish(t.Context(), pool, m.File, to)
	if err != nil || len(change.Changes) != 6 {
		t.Errorf("publish() = %v, %v, want the 6 changes that were committed", change, err)
	}
	if lose.Load() {
		t.Error("no COMMIT lost its answer")
	}
	w.wantRows("(ops,0)", `SELECT id, guard FROM projects`)
	w.wantRows("(report,1)\n(sweep,1)", selectTasks)
}

// A publication that fails for good under contention says so in time.
func TestApplyGivesUp(t *testing.T) {
	w := newWorld(t)
	w.apply(ops)
	release := w.hold(`SELECT FROM projects FOR UPDATE`)
	defer release("ROLLBACK")
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	m := w.manifest(strings.Replace(ops, "/bin/report", "/bin/report2", 1))
	go func() {
		_, err := Apply(ctx, w.admin, m, Options{})
		out <- err
	}()
	w.blocked(1)
	cancel()
	if err := <-out; !errors.Is(err, context.Canceled) || errors.Is(err, pg.ErrOutcomeUnknown) {
		t.Errorf("Apply() = %v, want %v", err, context.Canceled)
	}
	w.wantRows("(report,1)\n(sweep,1)", selectTasks)
}
