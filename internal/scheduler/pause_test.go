package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// operator pauses and resumes as the role of operators does.
type operator struct {
	*world
	pool *pgxpool.Pool
	user uuid.UUID
}

func (w *world) operator() operator {
	w.t.Helper()
	o := operator{w, w.Pool(w.t, migrations.RoleRunManager), uuid.New()}
	w.exec(`INSERT INTO users (id, issuer, subject, name, created_at_ms, updated_at_ms) VALUES ($1, 'https://idp.example', 'alice', 'alice', 1, 1)`, o.user)
	return o
}

// pausing is the pause's transaction, to be ended by the test.
func (o operator) pausing(tx pgx.Tx, trigger string) error {
	_, err := catalog.PauseSchedule(context.Background(), tx, "p", trigger, uuid.New(), o.user, "the bank is down")
	return err
}

func (o operator) resuming(tx pgx.Tx, trigger string, catchUp bool) error {
	h, err := catalog.ReadHold(context.Background(), tx, "p", trigger)
	if err == nil {
		_, err = catalog.ResumeSchedule(context.Background(), tx, "p", trigger, h, o.user, catchUp)
	}
	return err
}

func (o operator) do(what func(tx pgx.Tx) error) error {
	return pg.InTx(context.Background(), o.pool, what)
}

func (o operator) pause(trigger string) {
	o.t.Helper()
	if err := o.do(func(tx pgx.Tx) error { return o.pausing(tx, trigger) }); err != nil {
		o.t.Fatalf("pause: %v", err)
	}
}

func (o operator) resume(trigger string, catchUp bool) {
	o.t.Helper()
	if err := o.do(func(tx pgx.Tx) error { return o.resuming(tx, trigger, catchUp) }); err != nil {
		o.t.Fatalf("resume: %v", err)
	}
}

// open begins a transaction on pool, does what in it and leaves it open until the returned function commits it.
func (w *world) open(pool *pgxpool.Pool, level pgx.TxIsoLevel, what func(tx pgx.Tx) error) (commit func()) {
	w.t.Helper()
	tx, err := pool.BeginTx(w.t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { tx.Rollback(context.Background()) })
	if err := what(tx); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if err := tx.Commit(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// idle wants no Run, no claim, and nothing to claim.
func (w *world) idle(trigger string) {
	w.t.Helper()
	if n := w.written().Runs; n != 0 {
		w.t.Errorf("%d Runs of a paused Trigger, want none", n)
	}
	if got := w.claim("late", 16); len(got) != 0 {
		w.t.Errorf("claim = %v of a paused Trigger, want none", triggersOf(got))
	}
	if value[bool](w, `SELECT pause_id IS NULL OR enabled OR claim_token IS NOT NULL FROM trigger_schedules WHERE trigger_id = $1`, trigger) {
		w.t.Errorf("the schedule is %s, want it paused and free", w.row(trigger))
	}
}

func TestPausedIsNeverClaimed(t *testing.T) {
	w := newWorld(t, "one", "two")
	w.due("one", time.Second)
	o := w.operator()
	o.pause("one")
	w.idle("one")
	if err := o.do(func(tx pgx.Tx) error { return o.pausing(tx, "one") }); err == nil {
		t.Error("a second pause beside the first was recorded")
	}
	w.due("two", time.Second)
	if diff := cmp.Diff([]string{"two"}, triggersOf(w.claim("a", 16))); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

// The database refuses what no code of ours does.
func TestNoRoleCanClaimWhatIsPaused(t *testing.T) {
	w := newWorld(t, "one")
	w.operator().pause("one")
	for _, sql := range []string{`enabled = true`, `claim_owner = 'x', claim_token = gen_random_uuid(), claim_expires_at_ms = 9000000000000`} {
		if _, err := w.runtime.Exec(t.Context(), `UPDATE trigger_schedules SET `+sql); !pg.HasCode(err, "23514") {
			t.Errorf("SET %s = %v, want a CHECK to refuse it", sql, err)
		}
	}
}

// Every order of a pause and one claim: between claim and commit, while the claim is taken, while the commit is under
// way, and the pause first. Whichever is later sees the other.
func TestPauseMeetsAClaim(t *testing.T) {
	t.Run("claim, pause, commit", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		c, o := w.claimOne("a"), w.operator()
		o.pause("one")
		c.tid = tidOf(w, "one") // by more than the ctid that the UPDATE moved
		if r := w.commitOf(c)[0]; r.Outcome != Raced {
			t.Errorf("commit = %+v, want raced", r)
		}
		w.idle("one")
	})
	t.Run("pause waits for a claim that is being taken", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		o := w.operator()
		var claims []Claim
		commitClaim := w.open(w.runtime, pgx.ReadCommitted, func(tx pgx.Tx) (err error) {
			claims, err = claim(t.Context(), tx, "a", 30*time.Second, 1)
			return err
		})
		paused := make(chan error, 1)
		go func() { paused <- o.do(func(tx pgx.Tx) error { return o.pausing(tx, "one") }) }()
		w.waiting()
		commitClaim()
		if err := <-paused; err != nil {
			t.Fatalf("pause = %v", err)
		}
		if r := w.commitOf(claims...)[0]; r.Outcome != Raced {
			t.Errorf("commit = %+v, want raced", r)
		}
		w.idle("one")
	})
	t.Run("a claim beside a pause that is being made", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		o := w.operator()
		commitPause := w.open(o.pool, pgx.Serializable, func(tx pgx.Tx) error { return o.pausing(tx, "one") })
		if got := w.claim("a", 16); len(got) != 0 {
			t.Errorf("claim = %v, want none", triggersOf(got))
		}
		commitPause()
		w.idle("one")
	})
	t.Run("a commit waits for a pause that is being made", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		c, o := w.claimOne("a"), w.operator()
		commitPause := w.open(o.pool, pgx.Serializable, func(tx pgx.Tx) error { return o.pausing(tx, "one") })
		done := make(chan Result, 1)
		go func() { done <- commit(context.Background(), w.runtime, decided(t, c))[0] }()
		w.waiting()
		commitPause()
		if r := <-done; r.Outcome != Raced {
			t.Errorf("commit = %+v, want raced", r)
		}
		w.idle("one")
	})
	t.Run("a pause waits for a commit under way", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		c, o := w.claimOne("a"), w.operator()
		job := decided(t, c)
		commitRun := w.open(w.runtime, pgx.Serializable, func(tx pgx.Tx) error {
			now, err := lock(t.Context(), tx, job)
			if err != nil {
				return err
			}
			return write(t.Context(), tx, job, now, []Result{outcome(job[0], now[0])})
		})
		paused := make(chan error, 1)
		go func() { paused <- o.do(func(tx pgx.Tx) error { return o.pausing(tx, "one") }) }()
		w.waiting()
		commitRun()
		if err := <-paused; err != nil {
			t.Fatalf("pause = %v", err)
		}
		if n := w.written().Runs; n != 1 {
			t.Errorf("%d Runs, want the one that was admitted before", n)
		}
		w.due("one", time.Second)
		if got := w.claim("a", 16); len(got) != 0 {
			t.Errorf("claim = %v after the pause, want none", triggersOf(got))
		}
	})
	t.Run("pause, resume, and the claim from before", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		c, o := w.claimOne("a"), w.operator()
		o.pause("one")
		o.resume("one", true)
		c.tid = tidOf(w, "one")
		if r := w.commitOf(c)[0]; r.Outcome != Raced {
			t.Errorf("commit = %+v, want raced", r)
		}
	})
}

// publishing publishes beside the test.
func (w *world) publishing(text string) <-chan error {
	w.t.Helper()
	m, err := catalog.Read("test.yaml", strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := catalog.Apply(context.Background(), w.admin, m, catalog.Options{})
		done <- err
	}()
	return done
}

// Publishing leaves a pause as it is, whichever of the two comes first, and neither is lost.
func TestPauseMeetsAPublication(t *testing.T) {
	again := replaceOnce(manifest("one"), "/bin/true", "/bin/false")
	check := func(t *testing.T, w *world) {
		t.Helper()
		got := value[string](w, `SELECT concat_ws(' ', trigger_revision, enabled, pause_id IS NOT NULL, next_fire_at_ms IS NULL) FROM trigger_schedules`)
		if got != "2 f t t" {
			t.Errorf("the schedule is %q, want revision 2, paused and with no cursor", got)
		}
		w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = 1`)
		w.idle("one")
	}
	t.Run("published while paused", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		w.operator().pause("one")
		w.publish(again)
		if got := value[string](w, `SELECT string_agg(concat_ws(' ', type, trigger_revision, instants, reason), ',') FROM schedule_events`); got != "paused 1 1 revision 2 was published while it was paused: the bank is down" {
			t.Errorf("recorded %q, want the instant that was due as paused", got)
		}
		check(t, w)
	})
	t.Run("a publication waits for a pause", func(t *testing.T) {
		w := newWorld(t, "one")
		o := w.operator()
		commitPause := w.open(o.pool, pgx.Serializable, func(tx pgx.Tx) error { return o.pausing(tx, "one") })
		published := w.publishing(again)
		w.waiting()
		commitPause()
		if err := <-published; err != nil {
			t.Fatalf("apply = %v", err)
		}
		check(t, w)
	})
	t.Run("a pause waits for a publication", func(t *testing.T) {
		w := newWorld(t, "one")
		o := w.operator()
		commitGate := w.open(w.super, pgx.ReadCommitted, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE trigger_schedules SET updated_at_ms = updated_at_ms + 1`)
			return err
		})
		published, paused := w.publishing(again), make(chan error, 1)
		w.waiting()
		go func() { paused <- o.do(func(tx pgx.Tx) error { return o.pausing(tx, "one") }) }()
		pgtest.AwaitLocks(w.t, w.super, 2)
		commitGate()
		if err := <-published; err != nil {
			t.Fatalf("apply = %v", err)
		}
		if err := <-paused; err != nil {
			t.Fatalf("pause = %v", err)
		}
		check(t, w)
	})
	t.Run("archived, un-archived and enabled again while paused", func(t *testing.T) {
		w := newWorld(t, "one")
		o := w.operator()
		o.pause("one")
		for _, state := range []string{"archived", "active"} {
			w.publish(replaceOnce(manifest("one"), "name: P\n", "name: P\n    state: "+state+"\n"))
			w.idle("one")
		}
		o.resume("one", false)
		if !value[bool](w, `SELECT enabled FROM trigger_schedules`) {
			t.Error("not enabled after the resumption")
		}
	})
}

// Resuming expects nothing of the past, or exactly one Run for all of it, whatever the misfire policy says of lateness.
func TestResume(t *testing.T) {
	const daily = "projects:\n  - id: p\n    name: P\n    tasks:\n      - id: task\n        name: T\n        command: [/bin/true]\n        triggers: [{ id: one, cron: '0 0 * * *', timezone: UTC, misfire: %s }]\n"
	tests := []struct {
		name, misfire string
		catchUp       bool
		missed        int // days
		runs          int
		want          string // of the account
	}{
		{"from now", "fire_once", false, 10, 0, "paused 10"},
		{"from now, nothing missed", "skip", false, 0, 0, ""},
		{"once for what was missed", "fire_once", true, 10, 1, "paused 9"},
		{"once, though the policy skips what is late", "skip", true, 10, 1, "paused 9"},
		{"once, of one", "skip", true, 1, 1, ""},
		{"once, nothing missed", "skip", true, 0, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.publish(fmt.Sprintf(daily, tt.misfire))
			o := w.operator()
			o.pause("one")
			// The base lies that many whole days before midnight: so many instants have fallen due since.
			midnight := value[int64](w, `UPDATE trigger_schedules SET base_at_ms = (`+pg.ClockMS+` / 86400000 - $1::bigint) * 86400000, next_fire_at_ms = NULL RETURNING base_at_ms + $1::bigint * 86400000`, tt.missed)
			o.resume("one", tt.catchUp)
			w.commitOf(w.claim("a", 16)...)
			if n := w.written().Runs; n != tt.runs {
				t.Errorf("%d Runs, want %d", n, tt.runs)
			}
			if tt.runs == 1 && value[int64](w, `SELECT scheduled_for_ms FROM runs`) != midnight {
				t.Errorf("the Run is not of the last instant that was missed")
			}
			got := strings.Join(value[[]string](w, `SELECT coalesce(array_agg(type || ' ' || instants ORDER BY id), '{}') FROM schedule_events WHERE type NOT IN ('initialized')`), ",")
			if got != tt.want {
				t.Errorf("recorded %q, want %q", got, tt.want)
			}
			if value[bool](w, `SELECT catch_up OR pause_id IS NOT NULL OR NOT enabled OR next_fire_at_ms <= $1 FROM trigger_schedules`, midnight) {
				t.Errorf("the schedule is %s, want it to go on", w.row("one"))
			}
			for _, i := range w.account("one", midnight-int64(tt.missed)*86_400_000, midnight).Instants {
				if i.Verdict != WasPaused && i.Verdict != WasAdmitted || (i.LatenessMS != nil) != (i.Verdict == WasAdmitted) {
					t.Errorf("account: %s, late by %v, want paused, without lateness, or admitted", i, i.LatenessMS)
				}
			}
		})
	}
}

// The account of a Trigger that is paused now says by whom and why, of every instant since the cursor.
func TestAccountSaysWhoHoldsItBack(t *testing.T) {
	w := newWorld(t)
	w.publish("projects:\n  - id: p\n    name: P\n    tasks:\n      - id: task\n        name: T\n        command: [/bin/true]\n        triggers: [{ id: one, cron: '* * * * *', timezone: UTC }]\n")
	o := w.operator()
	now := value[int64](w, `SELECT `+pg.ClockMS)
	w.exec(`UPDATE trigger_revisions SET created_at_ms = $1`, now-180_000)
	w.exec(`UPDATE trigger_schedules SET base_at_ms = $1, next_fire_at_ms = NULL`, now-180_000)
	o.pause("one")
	a := w.account("one", now-180_000, now)
	if len(a.Instants) != 3 {
		t.Fatalf("account = %v, want three instants", a.Instants)
	}
	for _, i := range a.Instants {
		if i.Verdict != WasPaused || i.Reason != "paused by alice: the bank is down" {
			t.Errorf("%s %q, want paused by alice", i, i.Reason)
		}
	}
	d, err := Get(t.Context(), w.Pool(t, migrations.RoleConsole), []string{"p"}, "p", "one")
	if err != nil || d.State != Paused || *d.PausedBy != "alice" || *d.PauseReason != "the bank is down" || *d.PausedMS < now {
		t.Errorf("Get = %+v, %v, want paused by alice since now", d.Summary, err)
	}
	page, err := List(t.Context(), w.Pool(t, migrations.RoleConsole), Filter{Projects: []string{"p"}, State: Paused}, nil, 10)
	if err != nil || len(page.Schedules) != 1 || *page.Schedules[0].PausedBy != "alice" {
		t.Errorf("List of the paused = %+v, %v, want the one", page, err)
	}
}
