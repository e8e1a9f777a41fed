package scheduler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/bench"
	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// How large the larger database of BenchmarkScale is, by default a million Schedules and no Runs.
const (
	scaleSchedules = "SCALE_SCHEDULES"
	scaleRuns      = "SCALE_RUNS"
	scaleTimes     = 300
	scaleBatch     = 16 // Schedules at once
)

// scaled is a database of some size, and how long claim and commit took in it.
type scaled struct {
	name           string
	super, runtime *pgxpool.Pool
	keys           []string // of Schedules, in no order
	claims         []time.Duration
	commits        []time.Duration
	logged         int64 // bytes of the server's log for all of them
}

// BenchmarkScale measures the claim and the commit of a few Schedules, wherever they are, in a small database and in a
// large one, by turns, so that whatever else the machine does slows both alike. The server is as durable as in
// production, and has as much memory as a database of that size is given.
func BenchmarkScale(b *testing.B) {
	server, err := postgres.Start(b.Context(), postgres.Config{Dir: filepath.Join(pgtest.DiskDir(b), "postgres"), Durable: true, Bin: os.Getenv(pgtest.BinVariable),
		Settings: map[string]string{"shared_buffers": "1GB", "max_wal_size": "4GB"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Stop() })
	all := []*scaled{
		newScaled(b, server, "small", bench.Size{Projects: 10, Schedules: 1000}),
		newScaled(b, server, "large", bench.Size{Projects: 100, Schedules: numberFrom(b, scaleSchedules, 1_000_000), Runs: numberFrom(b, scaleRuns, 0)}),
	}
	for range scaleTimes {
		for _, s := range all {
			s.admit(b)
		}
	}
	for _, s := range all {
		fmt.Printf("%-32s claim %6.2f ms   commit %6.2f ms   log %6d KB   (medians and a mean of %d, %d at once)\n", s.name, milliseconds(s.claims), milliseconds(s.commits),
			s.logged/scaleTimes>>10, scaleTimes, scaleBatch)
	}
	cost := func(s *scaled) float64 { return milliseconds(s.claims) + milliseconds(s.commits) }
	fmt.Printf("scale: ratio=%.2f\n", cost(all[1])/cost(all[0]))
}

// newScaled makes and fills a database of server.
func newScaled(b *testing.B, server *postgres.Server, name string, size bench.Size) *scaled {
	b.Helper()
	if err := pgtest.Migrate(b.Context(), server, name); err != nil {
		b.Fatal(err)
	}
	db := pgtest.On(server, name)
	// To look up what every row refers to would be most of the work, and of fewer rows bench's own tests have it looked up.
	mustExec(b, db.Super(b), "ALTER ROLE "+migrations.RoleMigration+" SET session_replication_role = replica")
	if err := bench.Seed(b.Context(), db.Pool(b, migrations.RoleMigration), size, func(int) {}); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(b.Context(), db.SuperURL()) // without the pool's deadline
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := conn.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	s := &scaled{name: fmt.Sprintf("%d Schedules, %d Runs", size.Schedules, size.Runs), super: db.Super(b), runtime: db.Pool(b, migrations.RoleRuntime)}
	s.keys = pgtest.Value[[]string](b, s.super, `SELECT array_agg(k) FROM (SELECT project_id || ' ' || trigger_id AS k FROM trigger_schedules
		WHERE enabled ORDER BY random() LIMIT $1) picked`, scaleTimes*scaleBatch)
	return s
}

// logPosition is how many bytes the server has logged.
const logPosition = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"

// admit makes a few Schedules due and measures their way to as many Runs.
func (s *scaled) admit(b *testing.B) {
	b.Helper()
	some := s.keys[:scaleBatch]
	s.keys = append(s.keys[scaleBatch:], some...)
	mustExec(b, s.super, `UPDATE trigger_schedules SET next_fire_at_ms = `+pg.ClockMS+` - 1000 WHERE (project_id, trigger_id) IN (
		SELECT split_part(k, ' ', 1), split_part(k, ' ', 2) FROM unnest($1::text[]) k)`, some)
	before := pgtest.Value[int64](b, s.super, logPosition)
	begun := time.Now()
	claims, err := claim(b.Context(), s.runtime, "a", 30*time.Second, scaleBatch)
	if err != nil || len(claims) != scaleBatch {
		b.Fatalf("claim = %d claims, %v, want %d", len(claims), err, scaleBatch)
	}
	claimed := time.Now()
	var list []work
	for _, c := range claims {
		d, err := decide(c, 5*time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, work{claim: c, decision: d})
	}
	decided := time.Now()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
	defer cancel()
	results := commit(ctx, s.runtime, list)
	committed := time.Now()
	if i := slices.IndexFunc(results, func(r Result) bool { return r.Outcome != Admitted }); i >= 0 {
		b.Fatalf("commit = %+v, want admitted", results[i])
	}
	s.logged += pgtest.Value[int64](b, s.super, logPosition) - before
	s.claims, s.commits = append(s.claims, claimed.Sub(begun)), append(s.commits, committed.Sub(decided))
}

// milliseconds is the median.
func milliseconds(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Microseconds()) / 1000
}

// numberFrom is a number from the environment.
func numberFrom(b *testing.B, name string, otherwise int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}
