package bench_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/bench"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/migrations"
)

// retriesSQL retries each hundredth Run, by two hundred users.
const retriesSQL = `
WITH person AS (
    INSERT INTO users (id, issuer, subject, email, email_verified, name, created_at_ms, updated_at_ms)
    SELECT gen_random_uuid(), 'https://idp.example', 'user-' || n, 'user' || n || '@example.org', true, 'Person ' || n, 1, 1 FROM generate_series(1, 200) n
    RETURNING id, substr(subject, 6)::int AS n
), source AS (
    SELECT * FROM (SELECT r.*, row_number() OVER (PARTITION BY project_id ORDER BY created_at_ms) AS n FROM runs r) r WHERE n % 100 = 0
)
INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type, execution_origin, triggered_by,
    step_up_proof_id, status, version, event_sequence, idempotency_key, created_at_ms, queued_at_ms, started_at_ms, finished_at_ms)
SELECT overlay(source.id::text PLACING substr(to_hex((source.n % 65536)::int + 65536), 2) FROM 20 FOR 4)::uuid, project_id, task_id, task_revision, task_name, task_snapshot_ref, source.id,
    'run_manual_retry', 'manual', person.id::text, gen_random_uuid(), CASE WHEN source.n % 300 = 0 THEN 'failed' ELSE 'succeeded' END, 4, 3,
    'ql3:run-manual-retry:v1:' || source.id, created_at_ms, created_at_ms, created_at_ms, created_at_ms + 1000
FROM source JOIN person ON person.n = 1 + source.n / 100 % 200`

// seeded is a database of that size as it is after a vacuum, and the console's pool on it.
func seeded(t testing.TB, size bench.Size) *pgxpool.Pool {
	t.Helper()
	d := pgtest.New(t)
	if err := bench.Seed(t.Context(), d.Pool(t, migrations.RoleMigration), size, func(int) {}); err != nil {
		t.Fatal(err)
	}
	super := d.Super(t)
	pgtest.Force(t, super, retriesSQL)
	for _, table := range []string{"runs", "users", "triggers", "trigger_schedules", "trigger_revisions", "task_definition_revisions"} {
		pgtest.Exec(t, super, "VACUUM ANALYZE "+table)
	}
	return d.Pool(t, migrations.RoleConsole)
}

// sights are what a reader of one Project sees, and one of all.
func sights(t testing.TB, q pg.Querier) []sight {
	t.Helper()
	s := sight{nowMS: pgtest.Value[int64](t, q, "SELECT "+pg.ClockMS), projects: pgtest.Column[string](t, q, "SELECT id FROM projects ORDER BY id")}
	s.deep = pg.Cursor{CreatedAtMS: s.nowMS - 29*86_400_000}
	s.run = pgtest.Value[uuid.UUID](t, q, `SELECT id FROM runs WHERE project_id = 'load-0001' ORDER BY created_at_ms DESC LIMIT 1`)
	s.retried = pgtest.Value[uuid.UUID](t, q, `SELECT id FROM runs WHERE project_id = 'load-0001' AND trigger_type = 'run_manual_retry' ORDER BY created_at_ms DESC LIMIT 1`)
	err := q.QueryRow(t.Context(), `SELECT next_fire_at_ms, project_id, trigger_id FROM trigger_schedules WHERE enabled
		ORDER BY coalesce(next_fire_at_ms, -1) DESC, project_id DESC, trigger_id DESC OFFSET 100 LIMIT 1`).Scan(&s.later.NextMS, &s.later.ProjectID, &s.later.TriggerID)
	if err != nil {
		t.Fatal(err)
	}
	one := s
	one.projects = s.projects[:1]
	return []sight{one, s}
}

// weighed is a Querier that adds up what every statement takes.
type weighed struct {
	pg.Querier
	buffers int
	rows    int // looked at in tables and indexes
}

func (w *weighed) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := w.weigh(ctx, sql, args); err != nil {
		return nil, err
	}
	return w.Querier.Query(ctx, sql, args...)
}

func (w *weighed) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	w.weigh(ctx, sql, args) // what is wrong with it the query itself says
	return w.Querier.QueryRow(ctx, sql, args...)
}

func (w *weighed) weigh(ctx context.Context, sql string, args []any) error {
	var text string
	if err := w.Querier.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		return err
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		return err
	}
	w.buffers += plans[0].Plan.Hit + plans[0].Plan.Read
	w.rows += plans[0].Plan.looked()
	return nil
}

// node is a node of a plan.
type node struct {
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Loops    float64 `json:"Actual Loops"`
	Rows     float64 `json:"Actual Rows"` // of one loop
	Filtered float64 `json:"Rows Removed by Filter"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []node
}

func (n node) looked() (rows int) {
	if n.Relation != "" || n.Index != "" {
		rows = int(n.Loops * (n.Rows + n.Filtered))
	}
	for _, p := range n.Plans {
		rows += p.looked()
	}
	return rows
}

func weigh(t testing.TB, q pg.Querier, r reading, s sight) weighed {
	t.Helper()
	w := weighed{Querier: q}
	if err := r.read(t.Context(), &w, s); err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	return w
}

// No page looks at a whole Project, in which there are more Runs than its bound, nor at all of ten: what it looks at is
// bounded by what it shows, by where looking stops (5,000 Runs, 20,000 names, 10,000 of each count) and by its lanes.
func TestWhatPagesReadIsBounded(t *testing.T) {
	pool := seeded(t, bench.Size{Projects: 10, Schedules: 2000, DuePerMinute: 320, Runs: 120_000})
	for _, s := range sights(t, pool) {
		for _, r := range readings() {
			rows, buffers := bounds(r.name, len(s.projects))
			if w := weigh(t, pool, r, s); w.rows > rows || w.buffers > buffers {
				t.Errorf("%s, a reader of %d Projects: %d rows looked at in %d buffers, want %d and %d at most", r.name, len(s.projects), w.rows, w.buffers, rows, buffers)
			}
		}
	}
}

func bounds(name string, projects int) (rows, buffers int) {
	rows, buffers = 7000+1000*projects, 1500+500*projects
	switch text := !strings.HasSuffix(name, "text=") && strings.Contains(name, "text="); {
	case strings.HasPrefix(name, "runs, ") && strings.HasSuffix(name, "origin= task= trigger="):
		return 500, 600 // however many lanes there are, few are walked further than their heads
	case strings.Contains(name, "counts"):
		return 3*run.CountCap + 1000*projects, run.CountCap
	case text && strings.HasPrefix(name, "schedules"):
		return rows + 20_000, buffers
	case text: // it may name fifty Triggers, each with a lane for each status
		return rows, buffers + 5000
	}
	return rows, buffers
}

// readsVariable names a database that is filled already, as role ql3_console.
const readsVariable = "CONSOLE_READS_DATABASE_URL"

// reps is how often each reading is made: often enough for a 95th percentile.
const reps = 20

// BenchmarkReads measures every reading beside a million Runs, and prints a table. The CPU time is the server's for one
// reading, which other people's load changes little.
func BenchmarkReads(b *testing.B) {
	pool := largest(b)
	var spent, took []time.Duration
	most := 0
	fmt.Printf("%27s | %27s |\n", "one Project", "all Projects")
	fmt.Printf("%8s %8s %9s | %8s %8s %9s |\n", "buffers", "cpu", "p95", "buffers", "cpu", "p95")
	for b.Loop() {
		many := sights(b, pool)
		for _, r := range readings() {
			line := ""
			for _, s := range many {
				n := weigh(b, pool, r, s).buffers
				cpu, times := timed(b, pool, r, s)
				spent, took, most = append(spent, cpu), append(took, times...), max(most, n)
				line += fmt.Sprintf("%8d %8s %9s | ", n, cpu, percentile(times, 95))
			}
			fmt.Println(line + r.name)
		}
	}
	slices.Sort(spent)
	slices.Sort(took)
	fmt.Printf("reads: cpu_p95=%s cpu_most=%s p50=%s p95=%s buffers=%d\n", percentile(spent, 95), percentile(spent, 100), percentile(took, 50), percentile(took, 95), most)
}

// largest is one connection to the database, so that its CPU time can be told.
func largest(b *testing.B) *pgxpool.Pool {
	url := os.Getenv(readsVariable)
	if url == "" {
		url = seeded(b, bench.Size{Projects: 100, Schedules: 10_000, DuePerMinute: 1000, Runs: 1_000_000}).Config().ConnString()
	}
	pool, err := pg.Open(b.Context(), pg.PoolConfig{URL: url, App: b.Name(), Schema: migrations.Schema, MaxConns: 1, StatementTimeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

// timed makes a reading again and again and returns the server's CPU time of one, and how long each took, in ascending order.
func timed(b *testing.B, q pg.Querier, r reading, s sight) (cpu time.Duration, took []time.Duration) {
	b.Helper()
	pid := pgtest.Value[int](b, q, "SELECT pg_backend_pid()")
	before := cpuTime(b, pid)
	for range reps {
		began := time.Now()
		if err := r.read(b.Context(), q, s); err != nil {
			b.Fatalf("%s: %v", r.name, err)
		}
		took = append(took, time.Since(began))
	}
	slices.SortFunc(took, cmp.Compare[time.Duration])
	return (cpuTime(b, pid) - before) / reps, took
}

// cpuTime is what a process of this machine has used, as proc(5) tells it in ticks of 10 ms.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	if err := errors.Join(userErr, systemErr); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)-1)*p/100].Round(100 * time.Microsecond)
}
