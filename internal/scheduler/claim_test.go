package scheduler

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

func triggersOf(claims []Claim) (ids []string) {
	for _, c := range claims {
		ids = append(ids, c.TriggerID)
	}
	return ids
}

func TestClaimTakesWhatIsDueEarliestFirst(t *testing.T) {
	w := newWorld(t, "early", "late", "never-set", "later", "off")
	w.due("late", time.Second)
	w.due("early", time.Minute)
	w.due("off", time.Hour)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = NULL WHERE trigger_id = 'never-set'`)
	w.exec(`UPDATE trigger_schedules SET enabled = false WHERE trigger_id = 'off'`)
	for _, want := range [][]string{{"never-set", "early"}, {"late"}} { // the limit takes the earliest
		if diff := cmp.Diff(want, triggersOf(w.claim("a", 2))); diff != "" {
			t.Errorf("claimed (-want +got):\n%s", diff)
		}
	}
}

func TestClaimWritesTheWholeLease(t *testing.T) {
	w := newWorld(t, "one")
	cursor := w.due("one", time.Second)
	version, state := value[int64](w, `SELECT claim_version FROM trigger_schedules`), value[int64](w, `SELECT state_version FROM trigger_schedules`)
	c := w.claimOne("a")
	type lease struct {
		Owner                   string
		Version, State          int64
		LeaseMS, AcquiredAfter  bool
		Cursor                  int64
		Project, Trigger, TaskN string
	}
	got := lease{c.Owner, c.Version, c.StateVersion, c.ExpiresAtMS-c.AcquiredAtMS == 30_000, c.AcquiredAtMS >= cursor, *c.CursorMS, c.ProjectID, c.TriggerID, c.TaskName}
	want := lease{"a", version + 1, state + 1, true, true, cursor, "p", "one", "The task"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	if !value[bool](w, `SELECT claim_version = $1 AND state_version = $2 AND claim_token = $3 FROM trigger_schedules`, c.Version, c.StateVersion, c.Token) {
		t.Errorf("the claim is not what is written: %s", w.row("one"))
	}
}

func TestClaimLeavesAHeldScheduleAloneUntilItExpires(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	first := w.claimOne("a")
	if again := w.claim("b", 16); len(again) != 0 {
		t.Fatalf("claim of a held schedule = %v, want none", triggersOf(again))
	}
	w.expire("one")
	second := w.claimOne("b")
	if second.TakenFrom != "a" || second.Version != first.Version+1 || second.Token == first.Token {
		t.Errorf("takeover = from %q, version %d, same token %v; want from a, version %d, a new token",
			second.TakenFrom, second.Version, second.Token == first.Token, first.Version+1)
	}
	if n := w.events("taken_over"); n != 1 {
		t.Errorf("%d taken_over events, want 1", n)
	}
}

// A failover to a standby that lagged may lose a claim that a replica holds: its row is as before, and the next claim of it has the
// same versions. Whoever holds the lost one commits nothing, before and after somebody else has claimed.
func TestClaimThatAFailoverHasLostIsRaced(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	lost := w.claimOne("a")
	w.exec(`UPDATE trigger_schedules SET claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL, claim_version = claim_version - 1, state_version = state_version - 1`)
	stale := func() Result { return w.commitOf(lost)[0] }
	if r := stale(); r.Outcome != Raced || r.Reason != "claim gone" {
		t.Errorf("the commit of a lost claim = %s (%s), want raced (claim gone)", r.Outcome, r.Reason)
	}
	again := w.claimOne("b")
	if again.Version != lost.Version || again.StateVersion != lost.StateVersion || again.TakenFrom != "" {
		t.Errorf("the next claim has versions %d and %d, taken from %q, want %d and %d as the lost one, from nobody", again.Version, again.StateVersion,
			again.TakenFrom, lost.Version, lost.StateVersion)
	}
	if r := stale(); r.Outcome != Raced || r.Reason != "claim gone" {
		t.Errorf("the commit of a lost claim beside another = %s (%s), want raced (claim gone)", r.Outcome, r.Reason)
	}
	if r := w.commitOf(again)[0]; r.Outcome != Admitted {
		t.Errorf("the commit of the next claim = %+v, want admitted", r)
	}
}

// Two replicas claim at the same moment: the first has the row locked and has not committed. Without SKIP LOCKED the
// second would wait; without the lock it would claim the same row.
func TestClaimSkipsARowThatIsBeingClaimed(t *testing.T) {
	w := newWorld(t, "one", "two")
	w.due("one", 2*time.Second)
	w.due("two", time.Second)
	tx, err := w.runtime.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	first, err := claim(t.Context(), tx, "a", 30*time.Second, 1)
	if err != nil || len(first) != 1 || first[0].TriggerID != "one" {
		t.Fatalf("first claim = %v, %v, want one", triggersOf(first), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	second, err := claim(ctx, w.runtime, "b", 30*time.Second, 16)
	if err != nil {
		t.Fatalf("second claim waited for the first: %v", err)
	}
	if diff := cmp.Diff([]string{"two"}, triggersOf(second)); diff != "" {
		t.Errorf("second claim (-want +got):\n%s", diff)
	}
}

// What makes a Schedule unclaimable besides its own row. Each is one write that leaves everything else as it was.
func TestClaimRefuses(t *testing.T) {
	tests := []struct{ name, sql string }{
		{"archived project", `UPDATE projects SET status = 'archived'`},
		{"head that moved on", `UPDATE triggers SET current_revision = 2`},
		{"schedule switched off", `UPDATE trigger_schedules SET enabled = false`},
		{"revision switched off", `DO $$ BEGIN ALTER TABLE trigger_revisions ALTER enabled DROP EXPRESSION; UPDATE trigger_revisions SET enabled = false; END $$`},
		{"cursor ahead", `UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` + 60000`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "one")
			w.due("one", time.Second)
			w.exec(tt.sql)
			if got := w.claim("a", 16); len(got) != 0 {
				t.Errorf("claim = %v, want none", triggersOf(got))
			}
		})
	}
}

// A claim that waited for a publisher must see what the publisher wrote. The joins inside the locking CTE do that: a
// row that changed while it was waited for is checked against them again.
func TestClaimNeverReturnsWhatAPublisherIsChanging(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	tx, err := w.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE trigger_schedules SET enabled = false, state_version = state_version + 1, next_fire_at_ms = NULL`); err != nil {
		t.Fatal(err)
	}
	if got := w.claim("a", 16); len(got) != 0 {
		t.Errorf("claim beside an open publish = %v, want none", triggersOf(got))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.claim("a", 16); len(got) != 0 {
		t.Errorf("claim after the publish = %v, want none", triggersOf(got))
	}
}

// A hundred thousand rows that are idle or not due, and five thousand held claims at the head, do not slow the claim: it
// reads the due index from its head, in order, and stops.
func TestClaimReadsOnlyTheHeadOfTheDueIndex(t *testing.T) {
	w := newWorld(t, "one", "two")
	w.due("one", time.Second)
	w.due("two", time.Second)
	w.exec(`INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms)
		SELECT 'idle', 'idle-' || n, 1, n % 2 = 0, 0, CASE WHEN n % 2 = 0 THEN ` + pg.ClockMS + ` + 1000000 + n END, 0 FROM generate_series(1, 100000) n`)
	w.exec(`INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms, claim_owner, claim_token, claim_expires_at_ms)
		SELECT 'held', 'held-' || n, 1, true, 0, 1, 1, 'x', gen_random_uuid(), ` + pg.ClockMS + ` + 100000 FROM generate_series(1, 5000) n`)
	w.exec(`ANALYZE trigger_schedules`)
	plan := strings.Join(explain(t, w.runtime, `EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) `+fmt.Sprintf(claimSQL, firstBatch), "a", int64(30_000)), "\n")
	scan := regexp.MustCompile(`Index Scan using trigger_schedules_due on trigger_schedules s \(actual rows=[0-9.]+ loops=1\)\n.*Index Cond: \(COALESCE(?s:.*?)Buffers: shared hit=(\d+)`).FindStringSubmatch(plan)
	if scan == nil {
		t.Fatalf("the claim does not scan the due index once, in order:\n%s", plan)
	}
	if n, _ := strconv.Atoi(scan[1]); n > 1500 {
		t.Errorf("finding the due rows behind 5,000 held claims read %d buffers, want at most 1500:\n%s", n, plan)
	}
}

func explain(t *testing.T, q pg.Querier, sql string, args ...any) []string {
	t.Helper()
	rows, err := q.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
