package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// world is one database with published Schedules whose Triggers never come due by themselves: a test sets the cursor.
type world struct {
	*pgtest.Database
	t       *testing.T
	super   *pgxpool.Pool
	admin   *pgxpool.Pool
	runtime *pgxpool.Pool
}

func newWorld(t *testing.T, triggers ...string) *world {
	t.Helper()
	db := pgtest.New(t)
	w := &world{Database: db, t: t, super: db.Super(t), admin: db.Pool(t, migrations.RoleAdmin), runtime: db.Pool(t, migrations.RoleRuntime)}
	if len(triggers) == 0 {
		return w // the test publishes
	}
	w.publish(manifest(triggers...))
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` + 100000000`)
	return w
}

// manifest has one Task and a yearly Trigger for each id, misfire fire_once.
func manifest(triggers ...string) string {
	var b strings.Builder
	b.WriteString("projects:\n  - id: p\n    name: P\n    tasks:\n      - id: task\n        name: The task\n        command: [/bin/true]\n        triggers:\n")
	for _, id := range triggers {
		fmt.Fprintf(&b, "          - { id: %s, cron: '0 0 1 1 *', timezone: UTC, misfire: fire_once }\n", id)
	}
	return b.String()
}

func (w *world) publish(text string) {
	w.t.Helper()
	m, err := catalog.Read("test.yaml", strings.NewReader(text))
	if err != nil {
		w.t.Fatalf("read manifest: %v", err)
	}
	if _, err := catalog.Apply(w.t.Context(), w.admin, m, catalog.Options{}); err != nil {
		w.t.Fatalf("apply: %v", err)
	}
}

// exec runs sql as superuser with triggers and foreign keys off, so that a test can make any state whatever.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	pgtest.Force(w.t, w.super, sql, args...)
}

func value[T any](w *world, sql string, args ...any) T {
	w.t.Helper()
	return pgtest.Value[T](w.t, w.super, sql, args...)
}

// due sets the trigger's cursor to ago before now, and returns it.
func (w *world) due(trigger string, ago time.Duration) int64 {
	w.t.Helper()
	return value[int64](w, `UPDATE trigger_schedules SET next_fire_at_ms = `+pg.ClockMS+` - $2 WHERE trigger_id = $1 RETURNING next_fire_at_ms`,
		trigger, ago.Milliseconds())
}

// claimOne claims what is due as owner, which must be exactly one Schedule.
func (w *world) claimOne(owner string) Claim {
	w.t.Helper()
	list := w.claim(owner, 16)
	if len(list) != 1 {
		w.t.Fatalf("claim = %d claims, want 1", len(list))
	}
	return list[0]
}

func (w *world) claim(owner string, limit int) []Claim {
	w.t.Helper()
	list, err := claim(w.t.Context(), w.runtime, owner, 30*time.Second, limit)
	if err != nil {
		w.t.Fatalf("claim: %v", err)
	}
	return list
}

func decided(t *testing.T, claims ...Claim) (list []work) {
	t.Helper()
	for _, c := range claims {
		d, err := decide(c, 5*time.Minute)
		if err != nil {
			t.Fatalf("decide: %v", err)
		}
		list = append(list, work{claim: c, decision: d})
	}
	return list
}

// commitOf decides and commits claims within 5 s.
func (w *world) commitOf(claims ...Claim) []Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	return commit(ctx, w.runtime, decided(w.t, claims...))
}

// expire lets a claim lapse a second ago.
func (w *world) expire(trigger string) {
	w.t.Helper()
	w.exec(`UPDATE trigger_schedules SET claim_expires_at_ms = `+pg.ClockMS+` - 1000, updated_at_ms = `+pg.ClockMS+` - 31000 WHERE trigger_id = $1`, trigger)
}

// written counts what an admission writes.
type written struct{ Runs, Attempts, Events int }

func (w *world) written() written {
	w.t.Helper()
	return written{value[int](w, `SELECT count(*) FROM runs`), value[int](w, `SELECT count(*) FROM run_attempts`), value[int](w, `SELECT count(*) FROM run_events`)}
}

// row is the Schedule as text, to see whether anything of it changed.
func (w *world) row(trigger string) string {
	w.t.Helper()
	return value[string](w, `SELECT s::text FROM trigger_schedules s WHERE trigger_id = $1`, trigger)
}

func (w *world) events(kind string) int {
	w.t.Helper()
	return value[int](w, `SELECT count(*) FROM schedule_events WHERE type = $1`, kind)
}

// replica is a Scheduler on a pool of its own, with a quiet log.
func (w *world) replica(name string, change func(*Settings)) *Scheduler {
	w.t.Helper()
	settings := Defaults()
	if change != nil {
		change(&settings)
	}
	s, err := New(Config{Pool: w.Pool(w.t, migrations.RoleRuntime), Replica: name, Version: "test", Schema: pg.Schema{Version: migrations.Latest()}, Settings: settings,
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// waiting blocks until some backend waits for a lock.
func (w *world) waiting() {
	w.t.Helper()
	pgtest.AwaitLock(w.t, w.super)
}

// pastClock blocks until the database clock has passed ms.
func (w *world) pastClock(ms int64) {
	w.t.Helper()
	for value[int64](w, `SELECT `+pg.ClockMS) <= ms {
	}
}

func replaceOnce(text, old, new string) string { return strings.Replace(text, old, new, 1) }
