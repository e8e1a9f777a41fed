package run_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/migrations"
)

// recovery is one database with one admitted Run.
type recovery struct {
	t       *testing.T
	super   *pgxpool.Pool
	runtime *pgxpool.Pool
	console *pgxpool.Pool
	id      uuid.UUID
}

func newRecovery(t *testing.T) *recovery {
	t.Helper()
	db := pgtest.New(t)
	m, err := catalog.Read("test.yaml", strings.NewReader(`
projects:
  - id: p
    name: P
    tasks:
      - id: task
        name: Task
        command: [/bin/true]
        triggers: [{ id: trigger, cron: "0 0 1 1 *", timezone: UTC }]
`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Apply(t.Context(), db.Pool(t, migrations.RoleAdmin), m, catalog.Options{}); err != nil {
		t.Fatal(err)
	}
	r := &recovery{t: t, super: db.Super(t), runtime: db.Pool(t, migrations.RoleRuntime), console: db.Pool(t, migrations.RoleConsole)}
	err = pg.InTx(t.Context(), r.runtime, func(tx pgx.Tx) error {
		a := run.Admission{ProjectID: "p", TaskID: "task", TaskRevision: 1, TaskName: "Task", Actor: "a", AtMS: time.Now().UnixMilli(), Created: map[string]int{},
			Occurrence: run.Occurrence{TriggerID: "trigger", TriggerRevision: 1, TriggerDigest: "d", ScheduledForMS: 1}}
		if err := tx.QueryRow(t.Context(), `SELECT id FROM task_execution_revisions`).Scan(&a.TaskSnapshotRef); err != nil {
			return err
		}
		ids, err := run.Admit(t.Context(), tx, []run.Admission{a})
		r.id = ids[0]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recovery) exec(sql string) {
	r.t.Helper()
	pgtest.Exec(r.t, r.super, sql)
}

// shape is the Run and its Attempt in one line.
func (r *recovery) shape() (s string) {
	r.t.Helper()
	err := r.super.QueryRow(r.t.Context(), `SELECT concat_ws(' ', r.status, r.version, r.event_sequence, r.error_code, '|', a.status, a.error_code, '|',
		(SELECT string_agg(e.type, ',' ORDER BY sequence) FROM run_events e WHERE e.run_id = r.id))
		FROM runs r JOIN run_attempts a ON a.run_id = r.id ORDER BY a.attempt DESC LIMIT 1`).Scan(&s)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *recovery) attention() []string {
	r.t.Helper()
	list, err := run.NeedAttention(r.t.Context(), r.console, []string{"p"}, 10)
	if err != nil {
		r.t.Fatal(err)
	}
	var reasons []string
	for _, a := range list {
		reasons = append(reasons, a.Reason)
	}
	return reasons
}

const (
	lapse  = `UPDATE run_attempts SET lease_expires_at_ms = 1`
	noHold = `UPDATE run_attempts SET lease_expires_at_ms = NULL, lease_token = NULL`
)

func TestRecover(t *testing.T) {
	tests := []struct {
		name      string
		progress  int // 0: as admitted, 1: dispatched, 2: started
		drift     string
		lost      int64
		shape     string
		attention []string
	}{
		{name: "ordinary work is never touched", shape: "queued 1 2 | claimed | run.created,run.queued"},
		{name: "a living lease is left alone", progress: 2, shape: "running 3 4 | running | run.created,run.queued,run.dispatching,run.running"},
		{name: "dispatching, lease lapsed", progress: 1, drift: lapse, lost: 1,
			shape:     "lost 3 4 lease_lapsed | lost lease_lapsed | run.created,run.queued,run.dispatching,run.lost",
			attention: []string{"lost: whether its command still runs, or ended and how, is not known; look at the worker"}},
		{name: "running, lease lapsed", progress: 2, drift: lapse, lost: 1,
			shape:     "lost 4 5 lease_lapsed | lost lease_lapsed | run.created,run.queued,run.dispatching,run.running,run.lost",
			attention: []string{"lost: whether its command still runs, or ended and how, is not known; look at the worker"}},
		{name: "running, no lease", progress: 2, drift: noHold, lost: 1,
			shape:     "lost 4 5 lease_absent | lost lease_absent | run.created,run.queued,run.dispatching,run.running,run.lost",
			attention: []string{"lost: whether its command still runs, or ended and how, is not known; look at the worker"}},
		{name: "queued, but touched", drift: `UPDATE run_attempts SET worker_id = 'w'`, shape: "queued 1 2 | claimed | run.created,run.queued",
			attention: []string{"queued, but its newest Attempt is not as admission leaves it"}},
		{name: "queued, asked to cancel", drift: `UPDATE runs SET cancel_requested_at_ms = 1, cancel_reason = 'user'`, shape: "queued 1 2 | claimed | run.created,run.queued",
			attention: []string{"queued with a request to cancel that nobody has taken up"}},
		{name: "running, Attempt ended", progress: 2, drift: `UPDATE run_attempts SET status = 'failed', finished_at_ms = started_at_ms, lease_token = NULL, lease_expires_at_ms = NULL`,
			shape:     "running 3 4 | failed | run.created,run.queued,run.dispatching,run.running",
			attention: []string{"its newest Attempt has ended and it has not"}},
		{name: "waiting for a retry nobody makes", progress: 2, drift: `UPDATE runs SET status = 'retry_wait'`,
			shape:     "retry_wait 3 4 | running | run.created,run.queued,run.dispatching,run.running",
			attention: []string{"no component of this version takes it further"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecovery(t)
			r.advance(tt.progress)
			if tt.drift != "" {
				r.exec(tt.drift)
			}
			lost, err := run.Recover(t.Context(), r.runtime, "replica")
			if err != nil || lost != tt.lost {
				t.Errorf("Recover = %d, %v, want %d", lost, err, tt.lost)
			}
			if got := r.shape(); got != tt.shape {
				t.Errorf("after Recover:\n%s, want\n%s", got, tt.shape)
			}
			if diff := cmp.Diff(tt.attention, r.attention()); diff != "" {
				t.Errorf("NeedAttention (-want +got):\n%s", diff)
			}
			if again, err := run.Recover(t.Context(), r.runtime, "replica"); err != nil || again != 0 {
				t.Errorf("Recover again = %d, %v, want 0", again, err)
			}
		})
	}
}

func (r *recovery) advance(steps int) {
	r.t.Helper()
	if steps == 0 {
		return
	}
	w, err := run.Dispatch(r.t.Context(), r.runtime, "worker", time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	if steps == 2 {
		if err := run.Start(r.t.Context(), r.runtime, w.Lease, time.Minute); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A worker that is finishing while a replica starts holds the row: recovery passes it by instead of waiting, and does
// not judge it by what it saw before.
func TestRecoverPassesByWorkInHand(t *testing.T) {
	r := newRecovery(t)
	r.advance(2)
	r.exec(lapse)
	tx, err := r.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `SELECT FROM runs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if lost, err := run.Recover(ctx, r.runtime, "replica"); err != nil || lost != 0 {
		t.Errorf("Recover beside work in hand = %d, %v, want 0 at once", lost, err)
	}
}

// A Run that was asked to stop before anybody began it is ended by whoever would have begun it; others are left alone.
func TestCancelQueued(t *testing.T) {
	const asked = `UPDATE runs SET cancel_requested_at_ms = created_at_ms, cancel_reason = 'user'`
	tests := []struct {
		name     string
		progress int
		drift    string
		want     int64
		shape    string
	}{
		{"nobody asked", 0, "", 0, "queued 1 2 | claimed | run.created,run.queued"},
		{"asked while it waits", 0, asked, 1, "cancelled 2 3 cancelled | cancelled cancelled | run.created,run.queued,run.cancelled"},
		{"asked, and handed out already", 1, asked, 0, "dispatching 2 3 | starting | run.created,run.queued,run.dispatching"},
		{"asked, but not as admission leaves it", 0, asked + `; UPDATE run_attempts SET worker_id = 'w'`, 0, "queued 1 2 | claimed | run.created,run.queued"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecovery(t)
			r.advance(tt.progress)
			if tt.drift != "" {
				r.exec(tt.drift)
			}
			n, err := run.CancelQueued(t.Context(), r.runtime, "worker")
			if err != nil || n != tt.want {
				t.Errorf("CancelQueued = %d, %v, want %d", n, err, tt.want)
			}
			if got := r.shape(); got != tt.shape {
				t.Errorf("after CancelQueued:\n%s, want\n%s", got, tt.shape)
			}
		})
	}
}
