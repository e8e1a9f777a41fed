package scheduler

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
)

// A replica that has lost its claim cannot mark the Schedule as blocked: somebody else is deciding it.
func TestBlockNeedsTheClaim(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	c := w.claimOne("a")
	w.expire("one")
	w.claimOne("b")
	c.tid = tidOf(w, "one") // by more than the ctid that the takeover moved
	before := w.row("one")
	if err := block(t.Context(), w.runtime, c, "stale"); err != nil {
		t.Fatal(err)
	}
	if after := w.row("one"); after != before {
		t.Errorf("the schedule went from\n%s to\n%s", before, after)
	}
	if n := w.events("failed"); n != 0 {
		t.Errorf("%d failed events, want none", n)
	}
}

// Whether a lost commit is what moved the cursor is told by the cursor and the state version together.
func TestCursorOnRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		sql  string
		want Outcome
	}{
		"as decided":            {`UPDATE trigger_schedules SET next_fire_at_ms = $1, state_version = $2`, Initialized},
		"another cursor":        {`UPDATE trigger_schedules SET next_fire_at_ms = $1::bigint + 1, state_version = $2`, Raced},
		"another state version": {`UPDATE trigger_schedules SET next_fire_at_ms = $1, state_version = $2::bigint + 1`, Raced},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "one")
			w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = NULL`)
			job := decided(t, w.claimOne("a"))[0]
			w.exec(tt.sql, job.decision.NextMS, job.claim.StateVersion+1)
			if r, err := outcomeOnRecord(t.Context(), w.super, job); r.Outcome != tt.want || err != nil {
				t.Errorf("outcomeOnRecord() = %+v, %v, want %s", r, err, tt.want)
			}
		})
	}
}

// A pause is as old as its lock, not as the wait for it.
func TestPauseReadsTheClockAfterItsLock(t *testing.T) {
	w := newWorld(t, "one")
	o := w.operator()
	release := w.open(w.super, pgx.ReadCommitted, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT FROM trigger_schedules FOR UPDATE`)
		return err
	})
	paused := make(chan error, 1)
	go func() { paused <- o.do(func(tx pgx.Tx) error { return o.pausing(tx, "one") }) }()
	w.waiting()
	released := value[int64](w, `SELECT `+pg.ClockMS)
	release()
	if err := <-paused; err != nil {
		t.Fatalf("pause = %v", err)
	}
	if at := value[int64](w, `SELECT paused_at_ms FROM trigger_pauses`); at < released {
		t.Errorf("paused at %d, want not before %d, when the lock was given", at, released)
	}
}

// A resumption that was decided from what was there before a publication is refused.
func TestResumeComparesTheStateVersion(t *testing.T) {
	w := newWorld(t, "one")
	o := w.operator()
	o.pause("one")
	var seen catalog.Hold
	err := o.do(func(tx pgx.Tx) (err error) {
		seen, err = catalog.ReadHold(t.Context(), tx, "p", "one")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(`UPDATE trigger_schedules SET state_version = state_version + 1`)
	err = o.do(func(tx pgx.Tx) error {
		_, err := catalog.ResumeSchedule(t.Context(), tx, "p", "one", seen, o.user, false)
		return err
	})
	if err == nil || value[bool](w, `SELECT pause_id IS NULL FROM trigger_schedules`) {
		t.Errorf("ResumeSchedule() = %v with the schedule at %s, want it refused and paused", err, w.row("one"))
	}
}

// What was switched off while it was paused is not switched on by resuming it.
func TestResumeEnablesOnlyWhatMayFire(t *testing.T) {
	w := newWorld(t, "one")
	o := w.operator()
	o.pause("one")
	w.publish(replaceOnce(manifest("one"), "misfire: fire_once", "misfire: fire_once, enabled: false"))
	o.resume("one", false)
	if value[bool](w, `SELECT enabled FROM trigger_schedules`) {
		t.Error("the schedule is enabled, want it off as its Trigger is")
	}
}

// A Trigger has one pause at a time, and a spell without replicas is recorded once, by the database's own word.
func TestFactsAreOnce(t *testing.T) {
	w := newWorld(t, "one")
	w.operator().pause("one")
	const spell = `INSERT INTO schedule_events (type, first_at_ms, last_at_ms, created_at_ms) VALUES ('unattended', 1, 2, 3)`
	w.exec(spell)
	for constraint, sql := range map[string]string{
		"pause_once_at_a_time": `INSERT INTO trigger_pauses (id, project_id, trigger_id, reason, paused_by, paused_at_ms)
			SELECT gen_random_uuid(), project_id, trigger_id, reason, paused_by, paused_at_ms FROM trigger_pauses`,
		"schedule_event_spell_once": spell,
	} {
		if _, err := w.super.Exec(t.Context(), sql); pg.Constraint(err) != constraint {
			t.Errorf("a second row = %v, want refused by %s", err, constraint)
		}
	}
}
