package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/process"
)

const (
	burstSize     = "BURST_SIZE"   // how many Schedules, by default 20,000
	burstRounds   = "BURST_ROUNDS" // how often everything is measured, one after the other; the medians are the result
	burstWays     = "BURST_WAYS"   // which ways are measured, a regular expression; by default all
	burstLead     = 8 * time.Second
	burstTimeout  = 5 * time.Minute
	burstTemplate = "burst_template"
)

// A burst is a durable server with a database in which many Schedules are published and none is due.
type burst struct {
	size   int
	log    *process.Output
	server *postgres.Server
	super  *pgxpool.Pool // of the database postgres
	shape  statements    // what the console asks of the database
}

// BenchmarkBurst admits as many Schedules that are due at one instant, by one, two and four replicas, and does beside it
// what can be done at all, and what others do. It fails if an occurrence was lost or doubled.
func BenchmarkBurst(b *testing.B) {
	x := newBurst(b)
	ways := regexp.MustCompile(os.Getenv(burstWays))
	var all []measure
	for range fromEnv(b, burstRounds, 3) {
		for _, way := range x.ways() {
			if !ways.MatchString(way.name) {
				continue
			}
			m := way.measure(b)
			m.name = way.name
			fmt.Println(m)
			all = append(all, m)
		}
	}
	fmt.Printf("load average %s\n", loadAverage(b))
	fmt.Printf("burst: one=%d two=%d four=%d floor=%d river16=%d worker=%d\n", median(all, "one"), median(all, "two"), median(all, "four"),
		max(median(all, "floor 1"), median(all, "floor 2")), median(all, "river, 16 a call"), median(all, "worker"))
}

// A way is one thing that is measured.
type way struct {
	name    string
	measure func(testing.TB) measure
}

func (x *burst) ways() []way {
	replicas := func(n int) func(testing.TB) measure { return func(t testing.TB) measure { return x.replicas(t, n) } }
	floor := func(n int) func(testing.TB) measure { return func(t testing.TB) measure { return x.floor(t, n) } }
	river := func(how string) func(testing.TB) measure {
		return func(t testing.TB) measure { return x.peer(t, riverVariable, how) }
	}
	return []way{
		{"one", replicas(1)}, {"two", replicas(2)}, {"four", replicas(4)}, {"floor 1", floor(1)}, {"floor 2", floor(2)},
		{"river, 16 a call", river("sixteen")}, {"river, one a call", river("single")}, {"river, in bulk", river("bulk")}, {"river, periodic", river("periodic")},
		{"worker", func(t testing.TB) measure { return x.peer(t, workerVariable) }},
	}
}

func newBurst(t testing.TB) *burst {
	t.Helper()
	x := &burst{size: fromEnv(t, burstSize, 20_000), log: &process.Output{}}
	x.server = durableServer(t, x.log)
	x.super = superOf(t, x.server, "postgres")
	pgtest.Exec(t, x.super, "CREATE DATABASE "+burstTemplate)
	vars := install(t, x.server, burstTemplate)
	run(t, vars, burstManifest(x.size), "apply", "-f", "-")
	filled, err := pgxpool.New(t.Context(), x.server.URL(x.server.Superuser(), burstTemplate))
	if err != nil {
		t.Fatal(err)
	}
	defer filled.Close() // a database that is in use is nobody's template
	pgtest.Exec(t, filled, "UPDATE ql3.trigger_schedules SET next_fire_at_ms = 4102444800000")
	pgtest.Exec(t, filled, "VACUUM ANALYZE")
	filled.Close()
	x.shape = x.capture(t)
	return x
}

// burstManifest has size yearly Triggers, up to a hundred to a Task and up to ten Tasks to a Project.
func burstManifest(size int) string {
	var b strings.Builder
	b.WriteString("projects:\n")
	for i := range size {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "  - id: p-%02d\n    name: Project %d\n    tasks:\n", i/1000, i/1000)
		}
		if i%100 == 0 {
			fmt.Fprintf(&b, "      - id: task-%d\n        name: Task %d\n        command: [/usr/local/bin/report, --day, yesterday]\n        triggers:\n", i/100%10, i/100)
		}
		fmt.Fprintf(&b, "          - { id: t-%05d, cron: \"0 0 1 1 *\", timezone: Europe/Berlin, misfire: fire_once }\n", i)
	}
	return b.String()
}

// copied is a database like the template, for one measurement.
type copied struct {
	name  string
	super *pgxpool.Pool
}

func (x *burst) copy(t testing.TB, from string) copied {
	t.Helper()
	const name = "burst"
	pgtest.Exec(t, x.super, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	pgtest.Exec(t, x.super, "CREATE DATABASE "+name+" TEMPLATE "+from)
	pgtest.Exec(t, x.super, "CHECKPOINT")
	return copied{name, superOf(t, x.server, name)}
}

// replicas has n replicas admit the burst.
func (x *burst) replicas(t testing.TB, n int) measure {
	t.Helper()
	binary, err := console()
	if err != nil {
		t.Fatal(err)
	}
	c := x.copy(t, burstTemplate)
	due := c.due(t, x.size, clockMS(t, c.super)+burstLead.Milliseconds())
	var pids []int
	var running []*replica
	for range n {
		r := serve(t, binary, variablesOf(t, x.server, c.name))
		running, pids = append(running, r), append(pids, r.Cmd.Process.Pid)
	}
	if late := clockMS(t, c.super) - due; late > 0 {
		t.Fatalf("the replicas were ready %d ms after the burst had begun", late)
	}
	m := x.during(t, c, pids, func() { c.await(t, due) })
	for _, r := range running {
		r.kill()
	}
	m.count, m.elapsed = c.admitted(t, x.size, due)
	return m
}

// due makes the first n Schedules due at ms.
func (c copied) due(t testing.TB, n int, ms int64) int64 {
	t.Helper()
	pgtest.Exec(t, c.super, `UPDATE ql3.trigger_schedules SET next_fire_at_ms = $1
		WHERE (project_id, trigger_id) IN (SELECT project_id, trigger_id FROM ql3.trigger_schedules ORDER BY 1, 2 LIMIT $2)`, ms, n)
	pgtest.Exec(t, c.super, "VACUUM ANALYZE ql3.trigger_schedules")
	return ms
}

// await waits until nothing is due any more of what was due at ms.
func (c copied) await(t testing.TB, ms int64) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(burstTimeout); ; <-tick.C {
		if pgtest.Value[bool](t, c.super, `SELECT NOT EXISTS (SELECT FROM ql3.trigger_schedules WHERE enabled AND coalesce(next_fire_at_ms, -1) <= $1)`, ms) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the burst was not over after %v", burstTimeout)
		}
	}
}

// admitted counts what was admitted, which must be n occurrences of the instant due, once each and whole, and returns how
// long after it the last was.
func (c copied) admitted(t testing.TB, n int, due int64) (int, time.Duration) {
	t.Helper()
	type facts struct{ Runs, Triggers, Whole, Attempts, Events, Advanced, Held int }
	got := one(t, c.super, pgxRow[facts], `SELECT (SELECT count(*) FROM ql3.runs), (SELECT count(DISTINCT (project_id, trigger_id)) FROM ql3.runs),
		(SELECT count(*) FROM ql3.runs WHERE scheduled_for_ms = $1 AND status = 'queued'), (SELECT count(DISTINCT run_id) FROM ql3.run_attempts),
		(SELECT count(*) FROM ql3.run_events), (SELECT count(*) FROM ql3.trigger_schedules WHERE last_scheduled_at_ms = $1 AND next_fire_at_ms > $1),
		(SELECT count(*) FROM ql3.trigger_schedules WHERE claim_token IS NOT NULL)`, due)
	if want := (facts{n, n, n, n, 2 * n, n, 0}); got != want {
		t.Errorf("after the burst there are %+v, want %+v", got, want)
	}
	last := pgtest.Value[int64](t, c.super, "SELECT max(created_at_ms) FROM ql3.runs")
	return got.Runs, time.Duration(last-due) * time.Millisecond
}

// fromEnv is a number from the environment.
func fromEnv(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s, want a number of at least 1", name, text)
	}
	return n
}
