package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

// The account of a Trigger of every ten seconds through a day in its life, made of real publications, claims and
// commits whose times are moved by hand: minutes, counted from minute 0 an hour ago.
func TestAccountNamesEveryInstant(t *testing.T) {
	w := newWorld(t)
	zero := value[int64](w, `SELECT (`+pg.ClockMS+` / 60000 - 60) * 60000`)
	ms := func(minute int) int64 { return zero + int64(minute)*60_000 }
	trigger := func(more string) string {
		return "projects:\n  - id: p\n    name: P\n" + more + "    tasks:\n      - id: task\n        name: T\n        command: [/bin/true]\n        triggers:\n"
	}
	const minutely = "          - { id: one, cron: '* * * * *', timezone: UTC, misfire: skip }\n"
	const disabled = "          - { id: one, cron: '* * * * *', timezone: UTC, misfire: skip, enabled: false }\n"

	// Minute 0: published. 1 to 3 are admitted on time.
	w.publish(trigger("") + minutely)
	w.move("one", 1, ms(0))
	for minute := 1; minute <= 3; minute++ {
		w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = $1`, ms(minute))
		w.commitAt(ms(minute) + 20)
	}
	// Frozen from 4 to 10; at 10 and a half the cursor is more than the grace late: skipped, the others coalesced.
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = $1`, ms(4))
	w.exec(`INSERT INTO schedule_events (type, first_at_ms, last_at_ms, created_at_ms) VALUES ('unattended', $1, $2, $2)`, ms(3)+5000, ms(10)+29_000)
	w.commitAt(ms(10) + 30_000)
	// Republished, disabled, at 13 and a half: 11 to 13 were due.
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = $1`, ms(11))
	w.publishAt(trigger("")+disabled, 2, ms(13)+30_000)
	// Enabled again at 16 and a half, archived at 18 and a half with 17 and 18 due, un-archived at 20 and a half.
	w.publishAt(trigger("")+minutely, 3, ms(16)+30_000)
	w.publishAt(trigger("    state: archived\n")+minutely, 3, ms(18)+30_000)
	w.publishAt(trigger("    state: active\n")+minutely, 3, ms(20)+30_000)

	a := w.account("one", ms(0)-1, ms(22))
	want := []string{
		"22 r3 pending due, and not yet claimed", "21 r3 pending due, and not yet claimed", "20 r3 archived", "19 r3 archived",
		"18 r3 superseded the Project was archived", "17 r3 superseded the Project was archived", "16 r2 disabled", "15 r2 disabled", "14 r2 disabled",
		"13 r1 superseded revision 2 was published", "12 r1 superseded revision 2 was published", "11 r1 superseded revision 2 was published",
		"10 r1 coalesced without replica", "9 r1 coalesced without replica", "8 r1 coalesced without replica", "7 r1 coalesced without replica",
		"6 r1 coalesced without replica", "5 r1 coalesced without replica", "4 r1 skipped misfire policy skip without replica",
		"3 r1 admitted queued", "2 r1 admitted queued", "1 r1 admitted queued",
	}
	var got []string
	for _, i := range a.Instants {
		s := fmt.Sprintf("%d r%d %s", (i.AtMS-zero)/60_000, i.Revision, i.Verdict)
		for _, part := range []string{i.Reason, i.RunStatus} {
			if part != "" {
				s += " " + part
			}
		}
		if i.Unattended {
			s += " without replica"
		}
		got = append(got, s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}

// move says that the trigger's revision was created, and its Schedule published, at ms.
func (w *world) move(trigger string, revision int, ms int64) {
	w.t.Helper()
	w.exec(`UPDATE trigger_revisions SET created_at_ms = $3 WHERE trigger_id = $1 AND revision = $2`, trigger, revision, ms)
	w.exec(`UPDATE trigger_schedules SET base_at_ms = $2 WHERE trigger_id = $1`, trigger, ms)
}

// publishAt publishes and then says it was at ms: instants that fell due later were not due then.
func (w *world) publishAt(manifest string, revision int, ms int64) {
	w.t.Helper()
	events := value[int64](w, `SELECT coalesce(max(id), 0) FROM schedule_events`)
	revisions := value[int](w, `SELECT count(*) FROM trigger_revisions`)
	w.publish(manifest)
	if value[int](w, `SELECT count(*) FROM trigger_revisions`) > revisions {
		w.exec(`UPDATE trigger_revisions SET created_at_ms = $2 WHERE revision = $1`, revision, ms)
	}
	w.exec(`UPDATE trigger_schedules SET base_at_ms = $1`, ms)
	w.exec(`UPDATE schedule_events SET created_at_ms = $1::bigint, last_at_ms = CASE WHEN last_at_ms IS NOT NULL THEN least(last_at_ms, $1::bigint) END WHERE id > $2`, ms, events)
}

// commitAt claims and commits what is due as if the database clock of the claim had been ms.
func (w *world) commitAt(ms int64) {
	w.t.Helper()
	c := w.claimOne("a")
	w.exec(`UPDATE trigger_schedules SET updated_at_ms = $1`, ms)
	c.AcquiredAtMS, c.tid = ms, tidOf(w, "one")
	if r := w.commitOf(c)[0]; r.Outcome == Raced || r.Outcome == Failed {
		w.t.Fatalf("commit = %+v", r)
	}
}

func (w *world) account(trigger string, from, to int64) Account {
	w.t.Helper()
	a, err := ReadAccount(w.t.Context(), w.Pool(w.t, migrations.RoleConsole), []string{"p"}, "p", trigger, from, to)
	if err != nil {
		w.t.Fatal(err)
	}
	if !a.Truncated {
		w.checkLane(trigger, a)
	}
	return a
}

// checkLane holds that the lane of an account counts what the account names, part by part.
func (w *world) checkLane(trigger string, a Account) {
	w.t.Helper()
	const part = 420_000
	_, l, err := ReadLane(w.t.Context(), w.Pool(w.t, migrations.RoleConsole), []string{"p"}, "p", trigger, a.FromMS, a.ToMS, a.FromMS-1000, part)
	if err != nil {
		w.t.Fatal(err)
	}
	parts := map[int64]*Part{}
	var want []Part
	for _, i := range slices.Backward(a.Instants) {
		k := (i.AtMS - a.FromMS + 1000) / part
		if parts[k] == nil {
			parts[k] = &Part{FromMS: a.FromMS - 1000 + k*part, ToMS: a.FromMS - 1000 + (k+1)*part, ByVerdict: map[Verdict]int{}}
		}
		parts[k].add(i)
	}
	for _, k := range slices.Sorted(maps.Keys(parts)) {
		want = append(want, *parts[k])
	}
	if diff := cmp.Diff(want, l.Parts); diff != "" || l.KnownFromMS != 0 {
		w.t.Errorf("the lane, known from %d, counts other than the account names (-account +lane):\n%s", l.KnownFromMS, diff)
	}
}

// A range with more instants than a lane counts is counted from its newest part on, and says so.
func TestLaneStopsWhereItHasNoRoom(t *testing.T) {
	now := ms("2026-03-02T00:00:00Z")
	f := facts{fromMS: now - 2*laneRoom*1000, toMS: now, nowMS: now, schedule: scheduleNow{revision: 1},
		revisions: []revisionFact{{revision: 1, taskEnabled: true, content: claimOf(t, "* * * * * *", "UTC", "skip", at("2026-01-01T00:00:00Z"), nil, at("2026-01-01T00:00:00Z")).TriggerContent}}}
	l := f.lane(now, 3_600_000)
	n := 0
	for _, p := range l.Parts {
		n += p.Instants
	}
	first := l.Parts[0]
	if n > laneRoom || n <= laneRoom-3600 || l.KnownFromMS != first.FromMS || first.Instants != 3600 || l.Parts[len(l.Parts)-1].Instants != 1 {
		t.Errorf("the lane counts %d instants, known from %d, the first part %+v", n, l.KnownFromMS, first)
	}
}

func TestAccountMarksDaylightSaving(t *testing.T) {
	f := facts{fromMS: ms("2026-03-29T00:00:00Z"), toMS: ms("2026-03-31T00:00:00Z"), nowMS: ms("2026-03-31T00:00:00Z"),
		revisions: []revisionFact{{revision: 1, createdMS: 0, taskEnabled: true, content: claimOf(t, "30 2 * * *", "Europe/Berlin", "skip", at("2026-01-01T00:00:00Z"), nil, at("2026-01-01T00:00:00Z")).TriggerContent}},
		schedule:  scheduleNow{revision: 1}}
	a := f.account()
	var got []string
	for _, i := range a.Instants {
		got = append(got, time.UnixMilli(i.AtMS).UTC().Format(time.RFC3339)+" "+i.Mark)
	}
	if diff := cmp.Diff([]string{"2026-03-30T00:30:00Z ", "2026-03-29T01:00:00Z gap"}, got); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}

// Nothing is inferred where nothing is recorded: an instant behind the cursor without a fact says so.
func TestAccountDoesNotGuess(t *testing.T) {
	w := newWorld(t)
	w.publish(manifest("one"))
	w.publish("projects:\n  - id: p\n    name: P\n    tasks:\n      - id: task\n        name: The task\n        command: [/bin/true]\n        triggers: [{ id: one, cron: '* * * * *', timezone: UTC }]\n")
	now := value[int64](w, `SELECT `+pg.ClockMS)
	w.exec(`UPDATE trigger_revisions SET created_at_ms = $1 WHERE revision = 2`, now-180_000)
	w.exec(`UPDATE trigger_schedules SET base_at_ms = $1, next_fire_at_ms = $2`, now-180_000, now+60_000)
	a := w.account("one", now-180_000, now)
	if len(a.Instants) != 3 || a.Instants[0].Verdict != WasUnaccounted {
		t.Errorf("account = %v, want three unaccounted instants", a.Instants)
	}
}

func TestAccountIsBounded(t *testing.T) {
	w := newWorld(t)
	w.publish("projects:\n  - id: p\n    name: P\n    tasks:\n      - id: task\n        name: T\n        command: [/bin/true]\n        triggers: [{ id: one, cron: '* * * * * *', timezone: UTC }]\n")
	now := value[int64](w, `SELECT `+pg.ClockMS)
	w.exec(`UPDATE trigger_revisions SET created_at_ms = 0`)
	w.exec(`UPDATE trigger_schedules SET base_at_ms = 0, next_fire_at_ms = NULL`)
	a := w.account("one", 0, now+1_000_000)
	if len(a.Instants) != MaxInstants || !a.Truncated {
		t.Errorf("account has %d instants, truncated %v; want %d, truncated", len(a.Instants), a.Truncated, MaxInstants)
	}
	if a.FromMS < now-AccountHorizon.Milliseconds() || a.ToMS > a.NowMS {
		t.Errorf("account is of %d to %d at %d, want within the horizon and not after now", a.FromMS, a.ToMS, a.NowMS)
	}
}

func TestAccountIsOnlyOfVisibleProjects(t *testing.T) {
	w := newWorld(t, "one")
	_, err := ReadAccount(t.Context(), w.Pool(t, migrations.RoleConsole), []string{"other"}, "p", "one", 0, 1)
	_, missing := ReadAccount(t.Context(), w.Pool(t, migrations.RoleConsole), []string{"p"}, "p", "none", 0, 1)
	for _, err := range []error{err, missing} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("ReadAccount = %v, want ErrNotFound", err)
		}
	}
}

// Whoever wakes first after a time without any replica records it, once.
func TestBeatRecordsASpellWithoutReplicas(t *testing.T) {
	w := newWorld(t)
	if _, err := beat(t.Context(), w.runtime, "a", "v", migrations.Latest()); err != nil {
		t.Fatal(err)
	}
	w.exec(`UPDATE replicas SET started_at_ms = started_at_ms - 40000, last_tick_at_ms = last_tick_at_ms - 40000`)
	for _, replica := range []string{"a", "b", "a"} {
		if _, err := beat(t.Context(), w.runtime, replica, "v", migrations.Latest()); err != nil {
			t.Fatal(err)
		}
	}
	got := value[string](w, `SELECT string_agg(type || ' ' || (last_at_ms - first_at_ms BETWEEN 40000 AND 45000), ',') FROM schedule_events`)
	if got != "unattended true" {
		t.Errorf("recorded %q, want one spell of 40 s", got)
	}
}

// A time without any replica that has not ended is on nobody's record: the account sees it from the newest tick.
func TestAccountSeesASpellThatLasts(t *testing.T) {
	w := newWorld(t)
	w.publish("projects:\n  - id: p\n    name: P\n    tasks:\n      - id: task\n        name: T\n        command: [/bin/true]\n        triggers: [{ id: one, cron: '* * * * * *', timezone: UTC }]\n")
	if _, err := beat(t.Context(), w.runtime, "a", "v", migrations.Latest()); err != nil {
		t.Fatal(err)
	}
	now := value[int64](w, `SELECT `+pg.ClockMS)
	w.exec(`UPDATE trigger_revisions SET created_at_ms = $1`, now-40_000)
	w.exec(`UPDATE trigger_schedules SET base_at_ms = $1`, now-40_000)
	w.exec(`UPDATE replicas SET started_at_ms = $1, last_tick_at_ms = $1`, now-30_000)
	a := w.account("one", now-20_000, now)
	if len(a.Spells) != 1 || a.Spells[0].FromMS != now-30_000 || len(a.Instants) == 0 || !a.Instants[0].Unattended || a.Instants[0].Reason != "no replica was running then" {
		t.Errorf("account = %v, spells %v; want instants that no replica was there for", a.Instants, a.Spells)
	}
}

// The account is kept for 90 days: older rows go, younger ones stay, and nobody may delete those.
func TestPruneDeletesOnlyWhatIsPastTheHorizon(t *testing.T) {
	w := newWorld(t, "one")
	for _, days := range []int{1, 89, 91, 400} {
		w.exec(`INSERT INTO schedule_events (type, first_at_ms, last_at_ms, created_at_ms) SELECT 'unattended', $1, $1, `+pg.ClockMS+` - $1 * 86400000::bigint`, days)
	}
	var pruned int
	if err := w.runtime.QueryRow(t.Context(), `SELECT prune(1)`).Scan(&pruned); err != nil || pruned != 1 {
		t.Errorf("prune(1) = %d, %v, want 1", pruned, err)
	}
	w.replica("a", nil).prune(t.Context())
	if got := value[string](w, `SELECT string_agg(first_at_ms::text, ' ' ORDER BY first_at_ms) FROM schedule_events`); got != "1 89" {
		t.Errorf("left are the rows of %q days ago, want 1 89", got)
	}
	for role, pool := range map[string]*pgxpool.Pool{"runtime": w.runtime, "superuser": w.super} {
		if _, err := pool.Exec(t.Context(), `DELETE FROM ql3.schedule_events`); err == nil {
			t.Errorf("%s deleted from the account, want a refusal", role)
		}
	}
}
