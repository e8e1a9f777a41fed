package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// latenessSeconds names how long occurrences are counted, with a web load and without one.
const latenessSeconds = "LATENESS_SECONDS"

// A beat is a Trigger that is due at these seconds of every minute.
type beat struct {
	id      string
	seconds []int
}

// spread is a thousand Triggers: ten due every second, sixty every five seconds, and the others once a minute, some
// thirty-seven occurrences a second.
func spread() (list []beat) {
	every := func(step, from int) (seconds []int) {
		for s := from; s < 60; s += step {
			seconds = append(seconds, s)
		}
		return seconds
	}
	for i := range 1000 {
		b := beat{id: fmt.Sprintf("t-%03d", i)}
		switch {
		case i < 10:
			b.seconds = every(1, 0)
		case i < 70:
			b.seconds = every(5, i%5)
		default:
			b.seconds = []int{i * 7 % 60}
		}
		list = append(list, b)
	}
	return list
}

func manifestOf(list []beat) string {
	var b strings.Builder
	b.WriteString("projects:\n  - id: ops\n    name: Operations\n    tasks:\n      - id: job\n        name: Job\n        command: [/bin/true]\n        triggers:\n")
	for _, t := range list {
		seconds := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.seconds), " ", ","), "[]")
		fmt.Fprintf(&b, "          - { id: %s, cron: \"%s * * * * *\", timezone: UTC, misfire: skip }\n", t.id, seconds)
	}
	return b.String()
}

// An occurrence is one instant of one Trigger.
type occurrence struct {
	Trigger     string
	ScheduledMS int64
}

// expected lists what must become Runs from fromMS until before untilMS, whole seconds both.
func expected(list []beat, fromMS, untilMS int64) map[occurrence]bool {
	all := map[occurrence]bool{}
	for ms := fromMS; ms < untilMS; ms += 1000 {
		for _, t := range list {
			if slices.Contains(t.seconds, int(ms/1000%60)) {
				all[occurrence{t.id, ms}] = true
			}
		}
	}
	return all
}

// admitted is one Run of the table.
type admitted struct {
	occurrence
	CreatedMS int64
}

// BenchmarkLateness runs one replica with default settings on a durable database and reads from the table of Runs how
// late each was, first alone and then while people ask it for pages. It fails if an occurrence was lost or doubled; how
// late is too late is for the reader to judge.
func BenchmarkLateness(b *testing.B) {
	program, err := console()
	if err != nil {
		b.Fatal(err)
	}
	vars, super := durable(b)
	maps.Copy(vars, pagesVariables(b))
	triggers := spread()
	run(b, vars, manifestOf(triggers), "apply", "-f", "-")
	r := serve(b, program, vars)
	v := newVisitor(r.public())
	v.signIn(b)
	pgtest.Exec(b, super, viewerOfAll)
	eventually(b, "every Schedule has a cursor", func() bool {
		return pgtest.Value[bool](b, super, "SELECT bool_and(next_fire_at_ms IS NOT NULL) FROM ql3.trigger_schedules")
	})
	settle(b, super)
	alone := late(b, super, triggers)
	stop := v.load(b, few, pagesAt("/", "/runs", "/runs?status=failed", "/schedules", "/claims"))
	loaded := late(b, super, triggers)
	pages := stop()
	fmt.Printf("\nalone\n")
	report(alone)
	fmt.Printf("\nwith %d pages meanwhile, by %d at a time\n", pages, few)
	report(loaded)
	fmt.Printf("load average %s\n", loadAverage(b))
	fmt.Printf("lateness: p50=%dms p99=%dms p99_with_load=%dms\n", percentile(alone, 50), percentile(alone, 99), percentile(loaded, 99))
}

// late is how late every occurrence was of a span that begins with the second after the next, in ascending order.
func late(b *testing.B, super *pgxpool.Pool, triggers []beat) (list []int64) {
	b.Helper()
	fromMS := (clockMS(b, super)/1000 + 2) * 1000
	untilMS := fromMS + int64(fromEnv(b, latenessSeconds, 120))*1000
	<-time.After(time.Duration(untilMS-clockMS(b, super)) * time.Millisecond)
	eventually(b, "nothing of the span is due any more", func() bool {
		return pgtest.Value[bool](b, super, "SELECT min(next_fire_at_ms) >= $1 FROM ql3.trigger_schedules", untilMS)
	})
	runs := admittedIn(b, super, fromMS, untilMS)
	compare(b, expected(triggers, fromMS, untilMS), runs)
	for _, r := range runs {
		list = append(list, r.CreatedMS-r.ScheduledMS)
	}
	slices.Sort(list)
	return list
}

// settle waits for what has nothing to do with what is measured. A new server has no segments of its log to use again, as one
// that has been running has, and makes a file of 16 MB whenever one is full; and what a build has just written is on its
// way to the disk. Whoever commits waits for both.
func settle(t testing.TB, super *pgxpool.Pool) {
	t.Helper()
	for range 6 {
		pgtest.Exec(t, super, "SELECT pg_logical_emit_message(false, 'settle', '')") // an empty segment is not switched
		pgtest.Exec(t, super, "SELECT pg_switch_wal()")
	}
	pgtest.Exec(t, super, "CHECKPOINT")
	syscall.Sync()
}

// clockMS is the database clock.
func clockMS(t testing.TB, super *pgxpool.Pool) int64 {
	t.Helper()
	return pgtest.Value[int64](t, super, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
}

func admittedIn(t testing.TB, super *pgxpool.Pool, fromMS, untilMS int64) []admitted {
	t.Helper()
	rows, err := super.Query(t.Context(), `SELECT trigger_id, scheduled_for_ms, created_at_ms FROM ql3.runs
		WHERE scheduled_for_ms >= $1 AND scheduled_for_ms < $2`, fromMS, untilMS)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[admitted])
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// compare fails unless runs are what was expected, each once.
func compare(t testing.TB, want map[occurrence]bool, runs []admitted) {
	t.Helper()
	got := map[occurrence]int{}
	for _, r := range runs {
		got[r.occurrence]++
		if !want[r.occurrence] {
			t.Errorf("%s has a Run at %d, which is no instant of it", r.Trigger, r.ScheduledMS)
		}
		if r.CreatedMS < r.ScheduledMS {
			t.Errorf("%s has its Run at %d already at %d", r.Trigger, r.ScheduledMS, r.CreatedMS)
		}
	}
	for o := range want {
		if got[o] != 1 {
			t.Errorf("%s has %d Runs at %d, want 1", o.Trigger, got[o], o.ScheduledMS)
		}
	}
}

// report prints the distribution of lateness in milliseconds.
func report(late []int64) {
	fmt.Println("lateness up to   Runs")
	for i, bound := 0, int64(1); i < len(late); bound *= 2 {
		n := i
		for i < len(late) && late[i] <= bound {
			i++
		}
		if i > n {
			fmt.Printf("%8d ms    %6d  %s\n", bound, i-n, strings.Repeat("#", (i-n)*60/len(late)))
		}
	}
	fmt.Printf("n=%d p50=%dms p90=%dms p99=%dms max=%dms\n", len(late), percentile(late, 50), percentile(late, 90), percentile(late, 99), late[len(late)-1])
}
