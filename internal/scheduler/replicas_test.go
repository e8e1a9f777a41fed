package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg"
)

// A replica claims, stalls past its lease, and wakes after another has taken over and committed.
func TestStalledReplicaCommitsNothingAfterATakeover(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	stalled := w.claimOne("a")
	w.expire("one")
	taken := w.claimOne("b")
	if r := w.commitOf(taken)[0]; r.Outcome != Admitted {
		t.Fatalf("the new holder's commit = %+v, want admitted", r)
	}
	if r := w.commitOf(stalled)[0]; r.Outcome != Raced {
		t.Errorf("the stalled replica's commit = %+v, want raced", r)
	}
	if diff := cmp.Diff(written{1, 1, 2}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// The same, but it wakes between the takeover and the new holder's commit.
func TestStalledReplicaCommitsNothingBeforeTheNewHolder(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	stalled := w.claimOne("a")
	w.expire("one")
	taken := w.claimOne("b")
	if r := w.commitOf(stalled)[0]; r.Outcome != Raced {
		t.Errorf("the stalled replica's commit = %+v, want raced", r)
	}
	if r := w.commitOf(taken)[0]; r.Outcome != Admitted {
		t.Errorf("the new holder's commit = %+v, want admitted", r)
	}
	if diff := cmp.Diff(written{1, 1, 2}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// It never takes over while the commit is under way: the row is locked, and a claim passes it by.
func TestNoTakeoverWhileACommitHoldsTheRow(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	c := w.claimOne("a")
	gate := holdRunInsertion(w)
	result := make(chan Result, 1)
	go func() { result <- w.commitOf(c)[0] }()
	w.waiting() // the commit has the row and waits at the gate
	// The row is locked, so the claim cannot be made to lapse by a write; by then its lease may have.
	if got := w.claim("b", 16); len(got) != 0 {
		t.Errorf("claim during the commit = %v, want none", triggersOf(got))
	}
	gate()
	if r := <-result; r.Outcome != Admitted {
		t.Errorf("commit = %+v, want admitted", r)
	}
}

// A claim that expires while its commit waits for the row lock is expired: the clock is read after the lock.
func TestClaimThatExpiresWhileCommitWaitsForTheLock(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	const lease = time.Second
	list, err := claim(t.Context(), w.runtime, "a", lease, 1)
	if err != nil || len(list) != 1 {
		t.Fatalf("claim = %v, %v", list, err)
	}
	blocker, err := w.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Rollback(context.Background())
	if _, err := blocker.Exec(t.Context(), `SELECT FROM trigger_schedules FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	result := make(chan Result, 1)
	go func() { result <- w.commitOf(list[0])[0] }()
	w.waiting()
	w.pastClock(list[0].ExpiresAtMS)
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-result; r.Outcome != Raced || r.Reason != "claim expired" {
		t.Errorf("commit = %+v, want raced by claim expired", r)
	}
	if diff := cmp.Diff(written{}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// Publishing while a claim is held: the claim can never commit, whether the publication commits before the commit
// begins or while it waits for the row.
func TestPublishingDefeatsAHeldClaim(t *testing.T) {
	changes := map[string]string{
		"new trigger revision": `misfire: skip`,
		"trigger disabled":     `misfire: fire_once, enabled: false`,
	}
	for name, to := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "one")
			w.due("one", time.Second)
			c := w.claimOne("a")
			w.publish(replaceOnce(manifest("one"), `misfire: fire_once`, to))
			if r := w.commitOf(c)[0]; r.Outcome != Raced {
				t.Errorf("commit = %+v, want raced", r)
			}
			if diff := cmp.Diff(written{}, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if n := w.events("superseded"); n != 1 {
				t.Errorf("%d superseded events, want 1: the cursor was due", n)
			}
		})
	}
}

func TestArchivingDefeatsAHeldClaim(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	c := w.claimOne("a")
	w.publish(replaceOnce(manifest("one"), "name: P\n", "name: P\n    state: archived\n"))
	if r := w.commitOf(c)[0]; r.Outcome != Raced {
		t.Errorf("commit = %+v, want raced", r)
	}
	if got := w.claim("b", 16); len(got) != 0 {
		t.Errorf("claim in an archived project = %v, want none", triggersOf(got))
	}
	w.publish(replaceOnce(manifest("one"), "name: P\n", "name: P\n    state: active\n"))
	if got := w.claim("b", 16); len(got) != 1 || got[0].CursorMS != nil {
		t.Errorf("claim after un-archiving = %v, want one whose cursor starts anew", got)
	}
}

// Several replicas work the same backlog, each cycle after cycle, while claims are stolen from under them: every
// occurrence becomes one Run and no more, and every replica ends with nothing left to claim.
func TestReplicasShareABacklog(t *testing.T) {
	for _, replicas := range []int{2, 4} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			const schedules = 120
			var ids []string
			for i := range schedules {
				ids = append(ids, fmt.Sprintf("t%03d", i))
			}
			w := newWorld(t, ids...)
			w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
			start := make(chan struct{})
			var all sync.WaitGroup
			for n := range replicas {
				s := w.replica(fmt.Sprintf("replica-%d", n), nil)
				all.Go(func() {
					<-start
					for {
						claims, err := s.Cycle(t.Context())
						if err != nil {
							t.Errorf("cycle: %v", err)
							return
						}
						if claims == 0 {
							return
						}
					}
				})
			}
			close(start)
			all.Wait()
			if diff := cmp.Diff(written{schedules, schedules, 2 * schedules}, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if held := value[int](w, `SELECT count(*) FROM trigger_schedules WHERE claim_token IS NOT NULL`); held != 0 {
				t.Errorf("%d claims left, want none", held)
			}
		})
	}
}

// Two replicas decide the same occurrence from the same facts at the same time. Only the row's lease stands between
// them, so it is copied: both hold what looks like the valid claim, and the unique key decides.
func TestTheOccurrenceKeyIsTheLastLine(t *testing.T) {
	w := newWorld(t, "one")
	cursor := w.due("one", time.Second)
	if r := w.commitOf(w.claimOne("a"))[0]; r.Outcome != Admitted {
		t.Fatalf("commit = %+v", r)
	}
	for range 3 {
		w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = $1`, cursor)
		if r := w.commitOf(w.claimOne("b"))[0]; r.Outcome != Already {
			t.Errorf("commit of an occurrence that has its Run = %+v, want already_admitted", r)
		}
	}
	if diff := cmp.Diff(written{1, 1, 2}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// holdRunInsertion makes every insertion of a Run wait until the returned function is called.
func holdRunInsertion(w *world) (release func()) {
	w.t.Helper()
	w.exec(`CREATE FUNCTION public.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END $$`)
	w.exec(`CREATE TRIGGER gate BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION public.gate()`)
	conn, err := w.super.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := conn.Exec(w.t.Context(), `SELECT pg_advisory_lock(4711)`); err != nil {
		w.t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		conn.Exec(context.Background(), `SELECT pg_advisory_unlock(4711)`)
		conn.Release()
	})
}
