package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// statements are what a replica asks of the database for a batch, word for word as the server saw it.
type statements struct {
	claim, lock, insert, advance string
	batch                        int // Schedules
}

// captured is how many Schedules a replica admits for its statements to be seen.
const captured = 500

// capture has a replica admit a few Schedules while the server logs its statements.
func (x *burst) capture(t testing.TB) statements {
	t.Helper()
	binary, err := console()
	if err != nil {
		t.Fatal(err)
	}
	c := x.copy(t, burstTemplate)
	pgtest.Exec(t, x.super, "ALTER ROLE ql3_runtime SET log_statement = 'all'")
	n := min(captured, x.size)
	due := c.due(t, n, clockMS(t, c.super))
	r := serve(t, binary, variablesOf(t, x.server, c.name))
	c.await(t, due)
	r.kill()
	pgtest.Exec(t, x.super, "ALTER ROLE ql3_runtime RESET log_statement")
	return parseStatements(t, x.log.String())
}

var (
	executedSQL = regexp.MustCompile(`LOG:  execute stmtcache_[0-9a-f]+: ((?:.*\n)(?:\t.*\n)*)`)
	claimLimit  = regexp.MustCompile(`LIMIT (\d+) FOR UPDATE OF s SKIP LOCKED`)
)

// parseStatements finds the statements of the largest batch in the server's log.
func parseStatements(t testing.TB, log string) (s statements) {
	t.Helper()
	for _, found := range executedSQL.FindAllStringSubmatch(log, -1) {
		sql := strings.ReplaceAll(found[1], "\n\t", "\n")
		switch {
		case claimLimit.MatchString(sql):
			if n, _ := strconv.Atoi(claimLimit.FindStringSubmatch(sql)[1]); n > s.batch {
				s.claim, s.batch = sql, n
			}
		case strings.Contains(sql, "WITH locked AS MATERIALIZED"):
			s.lock = sql
		case strings.Contains(sql, "INSERT INTO runs ("):
			s.insert = sql
		case strings.Contains(sql, "UPDATE trigger_schedules s SET next_fire_at_ms"):
			s.advance = sql
		}
	}
	if s.claim == "" || s.lock == "" || s.insert == "" || s.advance == "" {
		t.Fatalf("the server's log does not hold all of the statements of a batch:\n%+v\n%s", s, log)
	}
	return s
}

// What a replica computes between its statements, as far as they need it, computed by the claim: pgbench computes little.
// There is no colon in it but those of casts, for pgbench takes any other to begin a variable.
const computed = `
SELECT coalesce(array_agg(tid), '{}') AS tids, coalesce(array_agg(claim_token), '{}') AS tokens, coalesce(array_agg(claim_version), '{}') AS versions,
    coalesce(array_agg(overlay(gen_random_uuid()::text PLACING stamp FROM 1 FOR 15)::uuid), '{}') AS i1,
    coalesce(array_agg(overlay(gen_random_uuid()::text PLACING stamp FROM 1 FOR 15)::uuid), '{}') AS i2,
    coalesce(array_agg(overlay(gen_random_uuid()::text PLACING stamp FROM 1 FOR 15)::uuid), '{}') AS i3,
    coalesce(array_agg(overlay(gen_random_uuid()::text PLACING stamp FROM 1 FOR 15)::uuid), '{}') AS i4,
    coalesce(array_agg(project_id), '{}') AS i5, coalesce(array_agg(task_id), '{}') AS i6, coalesce(array_agg(task_revision), '{}') AS i7,
    coalesce(array_agg(task_name), '{}') AS i8, coalesce(array_agg(execution_id), '{}') AS i9, coalesce(array_agg(trigger_id), '{}') AS i10,
    coalesce(array_agg(trigger_revision), '{}') AS i11, coalesce(array_agg(content_digest), '{}') AS i12, coalesce(array_agg(next_fire_at_ms), '{}') AS i13,
    coalesce(array_agg(concat_ws(chr(58), 'ql3', 'cron', 'v1', trigger_id, trigger_revision, next_fire_at_ms)), '{}') AS i14,
    coalesce(array_agg(updated_at_ms), '{}') AS i15, coalesce(array_agg(claim_owner), '{}') AS i16,
    coalesce(array_agg(jsonb_build_object('trigger_id', trigger_id, 'trigger_revision', trigger_revision, 'scheduled_for_ms', next_fire_at_ms,
        'observed_at_ms', updated_at_ms, 'claim_version', claim_version, 'execution_digest', execution_digest)::text), '{}') AS i17,
    coalesce(array_agg(next_fire_at_ms + 31536000000), '{}') AS nexts
FROM (SELECT *, 'pgbench'::text AS claim_owner, left(lpad(to_hex(updated_at_ms), 12, '0'), 8) || '-' || right(to_hex(updated_at_ms), 4) || '-7' AS stamp FROM claimed) c \gset
`

// script is a batch as pgbench drives it.
func (s statements) script() string {
	claim := s.claim[:strings.LastIndex(s.claim, "\nSELECT ")] + computed
	commit := "BEGIN ISOLATION LEVEL SERIALIZABLE;\n" + named(s.lock, "tids", "tokens", "versions") + ";\n" + named(s.insert, columns(17)...) + ";\n" +
		named(s.advance, "tids", "tokens", "nexts", "i13", "i15") + ";\nCOMMIT;\n"
	return "\\set lease 30000\n" + named(claim, "owner", "lease") + "\n" + commit
}

func columns(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("i%d", i+1))
	}
	return list
}

// named gives the parameters of sql the names of pgbench's variables.
func named(sql string, names ...string) string {
	for i := len(names); i > 0; i-- {
		sql = strings.ReplaceAll(sql, "$"+strconv.Itoa(i), ":"+names[i-1])
	}
	return strings.TrimSuffix(sql, "\n")
}

// floor has pgbench drive the statements by as many connections.
func (x *burst) floor(t testing.TB, connections int) measure {
	t.Helper()
	c := x.copy(t, burstTemplate)
	c.due(t, x.size, clockMS(t, c.super))
	script := filepath.Join(t.TempDir(), "batch.sql")
	if err := os.WriteFile(script, []byte(x.shape.script()), 0o600); err != nil {
		t.Fatal(err)
	}
	batches := (x.size + x.shape.batch*connections - 1) / (x.shape.batch * connections)
	n := strconv.Itoa(connections)
	cmd := command("pgbench", map[string]string{"PGOPTIONS": asRuntime}, "-n", "-M", "prepared", "-c", n, "-j", n, "-t", strconv.Itoa(batches),
		"-D", "owner=pgbench", "-f", script, variablesOf(t, x.server, c.name)["CONSOLE_RUNTIME_DATABASE_URL"])
	begun := clockMS(t, c.super)
	var p *program
	m := x.during(t, c, nil, func() { p = finish(t, "pgbench", cmd) })
	m.client = p.cpu()
	m.count = pgtest.Value[int](t, c.super, "SELECT count(*) FROM ql3.runs")
	m.elapsed = time.Duration(clockMS(t, c.super)-begun) * time.Millisecond
	if m.count < x.size/2 { // what pgbench loses to a conflict stays claimed, and is not counted
		t.Errorf("pgbench admitted %d of %d", m.count, x.size)
	}
	return m
}

// asRuntime are the settings of the connections of ql3_runtime, which pgbench has to be told.
const asRuntime = "-c search_path=ql3 -c jit=off -c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off " +
	"-c join_collapse_limit=1 -c plan_cache_mode=force_generic_plan"
