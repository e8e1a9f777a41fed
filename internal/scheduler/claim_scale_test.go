package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/bench"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// held is how many claims of other replicas stand at the head of the due index.
const held = 5000

const insertHeldSQL = `
	INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms, claim_owner, claim_token, claim_expires_at_ms)
	SELECT 'held', 'held-' || n, 1, true, 0, 1, 1, 'x', gen_random_uuid(), ` + pg.ClockMS + ` + 3600000 FROM generate_series(1, $1::int) n`

// Twenty times as many disabled, archived and not-due Schedules do not slow the claim: behind five thousand held claims
// it reads about as many pages as before; an index may be a level deeper and its pages differently full. BenchmarkClaim
// does the same with a million, which takes too long to make for every test run.
func TestClaimCostDoesNotGrowWithIdleSchedules(t *testing.T) {
	few, many := claimBesideIdle(t, 10_000), claimBesideIdle(t, 200_000)
	t.Logf("buffers of a claim beside 10,000 idle Schedules: %d, beside 200,000: %d", few, many)
	if many > few+few/4 {
		t.Errorf("a claim beside 200,000 idle Schedules reads %d buffers, beside 10,000 only %d", many, few)
	}
}

// claimBesideIdle is how many buffers a claim reads that looks for one Schedule more than is due: only so must it find
// out that what comes next in the index is not due.
func claimBesideIdle(t *testing.T, idle int) int {
	t.Helper()
	var ids []string
	for i := range firstBatch - 1 {
		ids = append(ids, fmt.Sprintf("due-%d", i))
	}
	w := newWorld(t, ids...)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
	// A third is disabled or archived and never had a cursor, a third is disabled and had one, a third is not due.
	w.exec(`INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms)
		SELECT 'idle', 'idle-' || n, 1, n % 3 = 0, 0, CASE n % 3 WHEN 0 THEN `+pg.ClockMS+` + 1000000 + n WHEN 1 THEN n END, 0 FROM generate_series(1, $1::int) n`, idle)
	w.exec(insertHeldSQL, held)
	w.exec(`ANALYZE trigger_schedules`)
	return claimBuffers(t, w.runtime, firstBatch-1)
}

// claimBuffers claims, which must yield want Schedules, returns how many buffers that read, and takes it back.
func claimBuffers(t testing.TB, pool *pgxpool.Pool, want int) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	rows, err := tx.Query(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+fmt.Sprintf(claimSQL, firstBatch), "a", int64(30_000))
	if err != nil {
		t.Fatal(err)
	}
	text, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Actual Rows"`
			Hit  int     `json:"Shared Hit Blocks"`
			Read int     `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if p := plans[0].Plan; p.Rows != float64(want) {
		t.Fatalf("claimed %v Schedules, want %d:\n%s", p.Rows, want, text)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// BenchmarkClaim measures the claim statement, without its COMMIT, in databases as publishing would have made them:
// half of the Schedules disabled or archived, the others due next New Year.
func BenchmarkClaim(b *testing.B) {
	for _, size := range []bench.Size{{Projects: 10, Schedules: 1000}, {Projects: 100, Schedules: 100_000}, {Projects: 100, Schedules: 1_000_000}} {
		b.Run(fmt.Sprintf("schedules=%d", size.Schedules), func(b *testing.B) {
			db := pgtest.New(b)
			if err := bench.Seed(b.Context(), db.Pool(b, migrations.RoleMigration), size, func(int) {}); err != nil {
				b.Fatal(err)
			}
			super, runtime := db.Super(b), db.Pool(b, migrations.RoleRuntime)
			b.Run("none due", func(b *testing.B) { benchmarkClaim(b, runtime, 0) })
			mustExec(b, super, `UPDATE trigger_schedules SET next_fire_at_ms = `+pg.ClockMS+` - 1000 WHERE (project_id, trigger_id) IN
				(SELECT project_id, trigger_id FROM trigger_schedules WHERE enabled ORDER BY random() LIMIT $1)`, firstBatch-1)
			b.Run("15 due", func(b *testing.B) { benchmarkClaim(b, runtime, firstBatch-1) })
			mustExec(b, super, `SET session_replication_role = replica`)
			mustExec(b, super, insertHeldSQL, held)
			b.Run("15 due behind 5000 held", func(b *testing.B) { benchmarkClaim(b, runtime, firstBatch-1) })
		})
	}
}

func benchmarkClaim(b *testing.B, pool *pgxpool.Pool, want int) {
	buffers := claimBuffers(b, pool, want)
	for b.Loop() {
		tx, err := pool.Begin(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		list, err := claim(b.Context(), tx, "a", 30*time.Second, firstBatch)
		if err != nil || len(list) != want {
			b.Fatalf("claim = %d claims, %v, want %d", len(list), err, want)
		}
		if err := tx.Rollback(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(buffers), "buffers")
}

func mustExec(b *testing.B, pool *pgxpool.Pool, sql string, args ...any) {
	b.Helper()
	if _, err := pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}
