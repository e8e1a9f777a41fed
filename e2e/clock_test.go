package e2e

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// everySecond is a manifest of n Triggers that are due each second.
func everySecond(n int) string {
	var b strings.Builder
	b.WriteString("projects:\n  - id: ops\n    name: Operations\n    tasks:\n      - id: job\n        name: Job\n        command: [/bin/true]\n        triggers:\n")
	for i := range n {
		fmt.Fprintf(&b, "          - { id: t-%d, cron: \"* * * * * *\", timezone: UTC, misfire: skip }\n", i)
	}
	return b.String()
}

// Three replicas work on one database, of which one is right, one a day ahead and one a day behind. Each claims one
// Schedule at a time, so that all of them get some.
func TestAReplicaWithAWrongClockChangesNothingButItsSkew(t *testing.T) {
	t.Parallel()
	program, err := shifted()
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	run(t, vars, everySecond(12), "apply", "-f", "-")
	shifts := []time.Duration{0, 24 * time.Hour, -24 * time.Hour}
	var replicas []*replica
	for _, shift := range shifts {
		vars[clockShift] = shift.String()
		replicas = append(replicas, serve(t, program, vars, "--claim-budget", "1"))
	}
	for i, r := range replicas {
		eventually(t, fmt.Sprintf("the replica that is %v wrong has admitted twenty Runs", shifts[i]), func() bool {
			return pgtest.Value[int](t, super, "SELECT count(*) FROM ql3.run_events WHERE type = 'run.created' AND actor_id LIKE $1", r.actor()) >= 20
		})
	}
	for i, r := range replicas {
		if got := r.metric(t, "ql3_scheduler_clock_skew_seconds"); math.Abs(got-shifts[i].Seconds()) > 5 {
			t.Errorf("clock skew of a replica that is %v wrong = %v s", shifts[i], got)
		}
		if status, body := r.get(t, "/readyz"); status != http.StatusOK {
			t.Errorf("/readyz of a replica that is %v wrong = %d, %s", shifts[i], status, body)
		}
	}
	if diff := cmp.Diff(wrongs{}, one(t, super, pgx.RowToStructByPos[wrongs], wrongsSQL)); diff != "" {
		t.Errorf("what a wrong clock did (-want +got):\n%s", diff)
	}
}

// wrongs counts what the clock of a replica could do to the facts.
type wrongs struct {
	Early    int // Runs before their time
	Late     int // Runs that came half a minute late or more; each is due every second
	Missing  int // instants without a Run that the account does not name either
	Doubled  int // occurrences with two Runs
	IDs      int // Runs whose id does not carry the time of their creation
	Unsorted int // Events of a Run that go back in time
	Settled  int // claims that came to a bad end, and spells without a replica
}

const wrongsSQL = `
WITH spans AS (
    SELECT trigger_id, (max(scheduled_for_ms) - min(scheduled_for_ms)) / 1000 + 1 AS instants, count(*) AS runs,
        min(scheduled_for_ms) AS first, max(scheduled_for_ms) AS last
    FROM ql3.runs GROUP BY trigger_id
), passed AS (
    SELECT s.trigger_id, coalesce(sum(e.instants), 0) AS instants FROM spans s
    LEFT JOIN ql3.schedule_events e ON e.trigger_id = s.trigger_id AND e.type = 'coalesced' AND e.first_at_ms BETWEEN s.first AND s.last
    GROUP BY s.trigger_id
)
SELECT (SELECT count(*) FROM ql3.runs WHERE created_at_ms < scheduled_for_ms),
    (SELECT count(*) FROM ql3.runs WHERE created_at_ms > scheduled_for_ms + 30000),
    (SELECT count(*) FROM spans JOIN passed USING (trigger_id) WHERE spans.instants <> spans.runs + passed.instants),
    (SELECT count(*) - count(DISTINCT (trigger_id, scheduled_for_ms)) FROM ql3.runs),
    (SELECT count(*) FROM ql3.runs WHERE ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint <> created_at_ms),
    (SELECT count(*) FROM ql3.run_events a JOIN ql3.run_events b ON b.run_id = a.run_id AND b.sequence = a.sequence + 1 WHERE b.created_at_ms < a.created_at_ms),
    (SELECT count(*) FROM ql3.schedule_events WHERE type NOT IN ('initialized', 'coalesced'))`
