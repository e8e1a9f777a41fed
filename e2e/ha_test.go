//go:build ha

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// haManifest has three Triggers that are due every second, and one for the Runs that are executed by hand.
const haManifest = `
projects:
  - id: ops
    name: Operations
    tasks:
      - id: job
        name: Job
        command: [/bin/true]
        triggers:
          - { id: tick-1, cron: "* * * * * *", timezone: UTC, misfire: fire_once }
          - { id: tick-2, cron: "* * * * * *", timezone: UTC, misfire: fire_once }
          - { id: tick-3, cron: "* * * * * *", timezone: UTC, misfire: skip }
          - { id: yearly, cron: "0 0 1 1 *", timezone: UTC, misfire: fire_once }
`

// An ha is two replicas before a pair of servers, and the report of what held. Every gate is something that must come
// true; the first that does not ends it.
type ha struct {
	*testing.T
	pair      *pair
	replicas  []*replica
	endpoints []*endpoint // of the replicas, in the same order
	operator  *operator
	want      ledger
	outage    time.Time // when the primary was killed last
}

// TestFailover is `make ha`. Each scenario ends with a primary lost, its standby promoted, the old primary rebuilt, and
// the same questions to the durable facts. The lines of its report begin with haReport.
func TestFailover(t *testing.T) {
	h := &ha{T: t, pair: newPair(t)}
	h.printf("%s", pgtest.Value[string](t, h.pair.primary.super, "SELECT 'PostgreSQL ' || current_setting('server_version')"))
	h.begin()
	for _, s := range []struct {
		name string
		play func()
	}{
		{"no primary for a while", h.noPrimary},
		{"a claim is held at the promotion", h.claimHeld},
		{"promotion between claim and commit", h.betweenClaimAndCommit},
		{"the answer to the scheduler's COMMIT is lost, then promotion", h.schedulerAnswerLost},
		{"the answer to a retry's COMMIT is lost, then promotion", h.retryAnswerLost},
		{"the answer to a stop's COMMIT is lost, then promotion", h.stopAnswerLost},
		{"a COMMIT that no standby confirms, and two primaries", h.unconfirmed},
		{"64 retries, the whole quota, then promotion", h.wholeQuota},
	} {
		h.printf("%s", s.name)
		s.play()
		h.settle()
	}
}

// haReport begins the lines of the report, which .ci/ha picks.
const haReport = "ha| "

func (h *ha) printf(format string, args ...any) {
	fmt.Fprintf(os.Stdout, haReport+format+"\n", args...)
}

// gate waits until ok holds, and reports how long that took.
func (h *ha) gate(ok func() bool, format string, args ...any) {
	h.Helper()
	what, began := fmt.Sprintf(format, args...), time.Now()
	defer func() {
		verdict := "ok    "
		if h.Failed() {
			verdict = "FAILED"
		}
		h.printf("  %s %6.1f s  %s", verdict, time.Since(began).Seconds(), what)
	}()
	eventually(h, what, ok)
}

// is is a gate for what must be so already.
func (h *ha) is(ok bool, format string, args ...any) {
	h.Helper()
	h.printf("  %s           %s", map[bool]string{true: "ok    ", false: "FAILED"}[ok], fmt.Sprintf(format, args...))
	if !ok {
		h.Fatalf("it is not so: "+format, args...)
	}
}

// begin publishes and starts the replicas.
func (h *ha) begin() {
	h.Helper()
	program, err := console()
	if err != nil {
		h.Fatal(err)
	}
	direct := variables(pgtest.On(h.pair.primary.Server, haDatabase))
	run(h, direct, haManifest, "apply", "-f", "-")
	pages := pagesVariables(h)
	for range 2 {
		e := newEndpoint(h)
		e.point(h.pair.primary.address(h.T))
		vars := maps.Clone(pages)
		for name, value := range direct {
			vars[name] = strings.Replace(value, h.pair.primary.address(h.T), e.address, 1)
		}
		h.endpoints = append(h.endpoints, e)
		h.replicas = append(h.replicas, serve(h, program, vars, "--claim-lease", "3s", "--database-deadline", "2s", "--cadence", "200ms"))
	}
	h.operator = signIn(h, h.replicas[0], h.pair.primary.super, direct, "operator", "ops")
	h.gate(h.admitting(), "two replicas admit")
}

// admitting holds when both replicas are ready and a Run has come since this was asked for.
func (h *ha) admitting() func() bool {
	const newest = "SELECT coalesce(max(created_at_ms), 0) FROM ql3.runs WHERE trigger_type = 'cron' AND trigger_id <> 'yearly'"
	before := pgtest.Value[int64](h, h.pair.primary.super, newest)
	return func() bool {
		return h.ready(http.StatusOK) && pgtest.Value[int64](h, h.pair.primary.super, newest) > before
	}
}

// ready reports whether every replica that is not frozen answers its probe so.
func (h *ha) ready(status int) bool {
	for _, r := range h.replicas {
		if got, _ := r.get(h, "/readyz"); got != status {
			return false
		}
	}
	return true
}

// lose fences the primary for good, which for a server is to be dead, and cuts what led to it.
func (h *ha) lose() {
	h.Helper()
	h.outage = time.Now()
	if err := h.pair.primary.Kill(); err != nil {
		h.Fatal(err)
	}
	for _, e := range h.endpoints {
		e.cut()
	}
	h.gate(func() bool { return !h.pair.primary.accepts(h.T) }, "the old primary is fenced: it takes no connection")
}

func (n *node) accepts(t *testing.T) bool {
	conn, err := pgx.Connect(t.Context(), n.SuperuserURL())
	if err == nil {
		conn.Close(t.Context())
	}
	return err == nil
}

// promote promotes the standby and leads the replicas to it.
func (h *ha) promote() {
	h.Helper()
	before := h.pair.standby.timeline(h.T)
	h.pair.promote(h.T)
	h.point()
	h.is(h.pair.primary.timeline(h.T) == before+1, "the standby is the primary: timeline %d", before+1)
}

func (h *ha) point() {
	for _, e := range h.endpoints {
		e.point(h.pair.primary.address(h.T))
	}
}

func (h *ha) failover() {
	h.Helper()
	h.lose()
	h.promote()
}

// settle ends a scenario: both replicas work, the old primary follows the new one, and the facts are right.
func (h *ha) settle() {
	h.Helper()
	h.gate(h.admitting(), "both replicas are ready and admit on timeline %d", h.pair.primary.timeline(h.T))
	h.printf("                   %.1f s after the primary was lost", time.Since(h.outage).Seconds())
	h.pair.rejoin(h.T)
	h.gate(h.follows, "the old primary is rebuilt and follows on timeline %d", h.pair.primary.timeline(h.T))
	var got ledger
	h.gate(func() bool {
		got = one(h, h.pair.primary.super, pgx.RowToStructByPos[ledger], ledgerSQL)
		return got.Lapsed == 0
	}, "no claim outlives its lease")
	if diff := cmp.Diff(h.want, got); diff != "" {
		h.Errorf("facts (-want +got):\n%s", diff)
	}
	h.is(got == h.want, "the durable facts are right: %+v", got)
	h.printf("                   %s", pgtest.Value[string](h, h.pair.primary.super, tallySQL))
}

// tallySQL says how much was asked about.
const tallySQL = `SELECT format('%s Runs, %s seconds accounted for without one, %s claims taken over',
    (SELECT count(*) FROM ql3.runs), (SELECT coalesce(sum(instants), 0) FROM ql3.schedule_events WHERE type = 'coalesced'),
    (SELECT count(*) FROM ql3.schedule_events WHERE type = 'taken_over'))`

// follows holds when the standby receives the primary's timeline and the primary waits for it.
func (h *ha) follows() bool {
	return pgtest.Value[int](h, h.pair.standby.super, "SELECT coalesce(max(received_tli), 0) FROM pg_stat_wal_receiver WHERE status = 'streaming'") == h.pair.primary.timeline(h.T) &&
		pgtest.Value[int](h, h.pair.primary.super, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
}

// A ledger is the durable facts. What is counted above the blank line must be nothing.
type ledger struct {
	Early, Doubled, Unaccounted, Torn, Lapsed, ProofsTwice, Unaudited, Inherited, SourcesChanged int

	Retries, Attempts, Events, Allowed, Stops int
}

// ledgerSQL shares nothing with the product but the names of its tables. A Trigger that is due every second has, from
// its first Run to its last, a Run or an account of every second.
const ledgerSQL = `
WITH ticks AS (
    SELECT trigger_id, (max(scheduled_for_ms) - min(scheduled_for_ms)) / 1000 + 1 AS seconds, count(*) AS runs,
        min(scheduled_for_ms) AS first, max(scheduled_for_ms) AS last
    FROM ql3.runs WHERE trigger_id LIKE 'tick-%' GROUP BY trigger_id
), passed AS (
    SELECT t.trigger_id, coalesce(sum(e.instants), 0) AS seconds FROM ticks t
    LEFT JOIN ql3.schedule_events e ON e.trigger_id = t.trigger_id AND e.type = 'coalesced' AND e.first_at_ms BETWEEN t.first AND t.last
    GROUP BY t.trigger_id
), retries AS (SELECT * FROM ql3.runs WHERE retry_of_run_id IS NOT NULL
), audit AS (SELECT * FROM ql3.security_audit_events WHERE outcome = 'allowed' AND action IN ('run.retry', 'run.stop') AND mutation_id IS NOT NULL
), events AS (SELECT run_id, count(*) AS n, min(sequence) AS first, max(sequence) AS last FROM ql3.run_events GROUP BY run_id
), attempts AS (SELECT run_id, count(*) AS n FROM ql3.run_attempts GROUP BY run_id)
SELECT (SELECT count(*) FROM ql3.runs WHERE created_at_ms < scheduled_for_ms),
    (SELECT count(*) - count(DISTINCT (trigger_id, scheduled_for_ms)) FROM ql3.runs WHERE trigger_type = 'cron'),
    (SELECT count(*) FROM ticks JOIN passed USING (trigger_id) WHERE ticks.seconds <> ticks.runs + passed.seconds),
    (SELECT count(*) FROM ql3.runs r LEFT JOIN events e ON e.run_id = r.id LEFT JOIN attempts a ON a.run_id = r.id
        WHERE (e.first = 1 AND e.last = e.n AND r.event_sequence = e.n AND a.n = 1) IS NOT TRUE),
    (SELECT count(*) FROM ql3.trigger_schedules WHERE claim_expires_at_ms < extract(epoch FROM clock_timestamp()) * 1000 - 5000),
    (SELECT count(*) - count(DISTINCT step_up_proof_id) FROM retries),
    (SELECT count(*) FROM retries r WHERE NOT EXISTS (SELECT FROM audit a WHERE a.proof_id = r.step_up_proof_id)),
    (SELECT count(*) FROM ql3.run_retry_policies WHERE run_id IN (SELECT id FROM retries)),
    (SELECT count(*) FROM ql3.runs WHERE id IN (SELECT retry_of_run_id FROM retries) AND (status <> 'failed' OR finished_at_ms IS NULL)),
    (SELECT count(*) FROM retries),
    (SELECT count(*) FROM ql3.run_attempts WHERE run_id IN (SELECT id FROM retries)),
    (SELECT count(*) FROM ql3.run_events WHERE run_id IN (SELECT id FROM retries) AND type IN ('run.created', 'run.queued')),
    (SELECT count(*) FROM audit),
    (SELECT count(*) FROM ql3.run_events WHERE type = 'run.cancel_requested')`

// retried is what count retries add to the ledger.
func (l *ledger) retried(count int) {
	l.Retries += count
	l.Attempts += count
	l.Events += 2 * count
	l.Allowed += count
}

// await waits for a trap.
func (h *ha) await(t *trap, what string) {
	h.Helper()
	select {
	case <-t.sprung:
		h.is(true, "%s", what)
	case <-time.After(patience):
		h.is(false, "%s", what)
	}
}
