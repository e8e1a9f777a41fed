package scheduler_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

const readManifest = `
projects:
  - id: ops
    name: Operations
    tasks:
      - id: report
        name: Nightly report
        command: [/bin/report]
        timeout: 1m
        triggers:
          - {id: nightly, cron: "30 2 * * *", timezone: Europe/Berlin}
          - {id: often, cron: "*/10 * * * *", timezone: UTC}
          - {id: off, cron: "0 0 * * *", timezone: UTC, enabled: false}
  - id: growth
    name: Growth
    tasks:
      - id: digest
        name: Mail digest
        command: [/bin/digest]
        timeout: 1m
        triggers:
          - {id: daily, cron: "15 9 * * *", timezone: Asia/Shanghai}
`

// set writes a Schedule's row as a scheduler might have left it; now is the database clock in SQL.
func set(t *testing.T, super *pgxpool.Pool, trigger, assignments string) {
	t.Helper()
	tag, err := super.Exec(t.Context(), `UPDATE trigger_schedules SET `+assignments+`
		FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) c WHERE trigger_id = $1`, trigger)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("set(%s, %s) = %v, %v", trigger, assignments, tag, err)
	}
}

const held = `claim_owner = 'replica-1', claim_token = '0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e', claim_version = 7,
	updated_at_ms = c.now - 1000, claim_expires_at_ms = c.now + 20000, next_fire_at_ms = c.now - 1500`

func TestStates(t *testing.T) {
	tests := []struct {
		name, trigger, row string
		want               scheduler.State
	}{
		{"disabled", "off", "updated_at_ms = c.now", scheduler.Disabled},
		{"disabled with an old cursor", "off", "next_fire_at_ms = 1, last_scheduled_at_ms = 1", scheduler.Disabled},
		{"without a cursor it is due", "nightly", "next_fire_at_ms = NULL", scheduler.Due},
		{"cursor reached", "nightly", "next_fire_at_ms = c.now", scheduler.Due},
		{"an expired claim is no claim", "nightly", strings.Replace(held, "c.now + 20000", "c.now - 1", 1), scheduler.Due},
		{"claimed", "nightly", held, scheduler.Claimed},
		{"blocked keeps its lease", "nightly", held + ", blocked_reason = 'digest differs'", scheduler.Blocked},
		{"no occurrence yet", "nightly", "next_fire_at_ms = c.now + 60000, last_scheduled_at_ms = NULL", scheduler.NeverRun},
		{"between two", "nightly", "next_fire_at_ms = c.now + 60000, last_scheduled_at_ms = 1", scheduler.Waiting},
	}
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set(t, super, tt.trigger, "claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL, blocked_reason = NULL")
			set(t, super, tt.trigger, tt.row)
			got, err := scheduler.Get(t.Context(), q, []string{"ops"}, "ops", tt.trigger)
			if err != nil || got.State != tt.want {
				t.Errorf("Get(%s).State = %q, %v, want %q", tt.trigger, got.State, err, tt.want)
			}
			list, err := scheduler.List(t.Context(), q, scheduler.Filter{Projects: []string{"ops"}, State: tt.want, Text: tt.trigger}, nil, 10)
			if !slices.Contains(names(list.Schedules), tt.trigger) {
				t.Errorf("List(state %s) = %v, %v, want %s among them", tt.want, names(list.Schedules), err, tt.trigger)
			}
		})
	}
}

func names(list []scheduler.Summary) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.TriggerID)
	}
	return out
}

func TestListIsNextFirstInPages(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	set(t, super, "nightly", "next_fire_at_ms = c.now + 9000000")
	set(t, super, "often", "next_fire_at_ms = c.now + 60000")
	set(t, super, "daily", "next_fire_at_ms = NULL")
	set(t, super, "off", "next_fire_at_ms = 1")

	var got [][]string
	var after *scheduler.Cursor
	for {
		page, err := scheduler.List(t.Context(), q, scheduler.Filter{Projects: []string{"ops", "growth"}}, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, names(page.Schedules))
		if after = page.Next; after == nil {
			break
		}
	}
	if diff := cmp.Diff([][]string{{"daily", "often"}, {"nightly", "off"}}, got); diff != "" {
		t.Errorf("pages: uninitialised first, disabled last (-want +got)\n%s", diff)
	}
}

func TestListFindsText(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	q := d.Pool(t, migrations.RoleConsole)
	for text, want := range map[string]int{"": 4, "often": 1, "OFTEN": 1, "report": 3, "nightly r": 3, "%": 0, "_": 0, "digest": 1} {
		page, err := scheduler.List(t.Context(), q, scheduler.Filter{Projects: []string{"ops", "growth"}, Text: text}, nil, 10)
		if err != nil || len(page.Schedules) != want {
			t.Errorf("List(text %q) = %v, %v, want %d of them", text, names(page.Schedules), err, want)
		}
	}
}

func TestGetHidesOtherProjects(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	q := d.Pool(t, migrations.RoleConsole)
	for _, projects := range [][]string{nil, {}, {"growth"}} {
		if _, err := scheduler.Get(t.Context(), q, projects, "ops", "nightly"); !errors.Is(err, scheduler.ErrNotFound) {
			t.Errorf("Get(by a reader of %v) = %v, want ErrNotFound", projects, err)
		}
	}
	if _, err := scheduler.Get(t.Context(), q, []string{"ops"}, "ops", "daily"); !errors.Is(err, scheduler.ErrNotFound) {
		t.Errorf("Get(another Project's Trigger) = %v, want ErrNotFound", err)
	}
}

func TestGetReadsTheFence(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	id := runtest.Admit(t, d, "ops", "nightly", 1_000_000, runtest.Clock(t, q))
	set(t, super, "nightly", held+", last_scheduled_at_ms = 1000000, state_version = 41")

	got, err := scheduler.Get(t.Context(), q, []string{"ops"}, "ops", "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if *got.ClaimToken != "0199f3c2" || got.ClaimVersion != 7 || got.StateVersion != 41 || *got.ClaimOwner != "replica-1" {
		t.Errorf("Get() fence = token %q, versions %d and %d, owner %q", *got.ClaimToken, got.ClaimVersion, got.StateVersion, *got.ClaimOwner)
	}
	if *got.LastRunID != id || got.TaskName != "Nightly report" || !got.TaskEnabled || got.Archived {
		t.Errorf("Get() = %+v, want the Run %s of the enabled Nightly report", got, id)
	}
	plan, err := got.Plan()
	if err != nil || plan.Words.String() != "at 02:30 every day" || plan.Timezone != "Europe/Berlin" {
		t.Errorf("Plan() = %+v, %v", plan, err)
	}
	gap := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC) // the clock skips 02:30 the next morning
	next := plan.After(gap.UnixMilli(), 1)
	if at := next[0].At.In(plan.Location()).Format("15:04"); at != "03:00" || next[0].Mark != "gap" {
		t.Errorf("After(%v) = %s marked %q, want 03:00 marked gap", gap, at, next[0].Mark)
	}
}

func TestHealth(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	set(t, super, "nightly", held)
	set(t, super, "often", "next_fire_at_ms = c.now - 60000")
	set(t, super, "daily", "next_fire_at_ms = c.now - 1, blocked_reason = 'digest differs'")

	h, err := scheduler.ReadHealth(t.Context(), q, []string{"ops", "growth"})
	if err != nil {
		t.Fatal(err)
	}
	if h.Due != 1 || h.Held != 1 || h.Blocked != 1 || h.Schedules != 3 || h.OldestLateMS < 60_000 || h.OldestLateMS > 90_000 {
		t.Errorf("ReadHealth() = %+v, want one due for a minute, one held, one blocked, three enabled", h)
	}
	h, err = scheduler.ReadHealth(t.Context(), q, []string{"growth"})
	if err != nil || h.Due+h.Held != 0 || h.Blocked != 1 || h.Schedules != 1 || h.OldestLateMS != 0 {
		t.Errorf("ReadHealth(growth) = %+v, %v, want only its blocked one", h, err)
	}
	claims, err := scheduler.Claims(t.Context(), q, []string{"ops"})
	if err != nil || len(claims) != 1 || claims[0].TriggerID != "nightly" || claims[0].Token != "0199f3c2" || claims[0].Version != 7 {
		t.Errorf("Claims(ops) = %+v, %v, want nightly's", claims, err)
	}
	if claims, err = scheduler.Claims(t.Context(), q, []string{"growth"}); err != nil || len(claims) != 0 {
		t.Errorf("Claims(growth) = %+v, %v, want none", claims, err)
	}
}

func TestReplicas(t *testing.T) {
	d := pgtest.New(t)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	for id, tick := range map[string]int64{"fresh": now, "stale": now - 120_000, "forgotten": now - 25*3_600_000} {
		if _, err := super.Exec(t.Context(), "INSERT INTO replicas VALUES ($1, 'v1', 0, $2, -3)", id, tick); err != nil {
			t.Fatal(err)
		}
	}
	list, err := scheduler.Replicas(t.Context(), q)
	if err != nil || len(list) != 2 || list[0].ID != "fresh" || !list[0].Alive || list[1].ID != "stale" || list[1].Alive {
		t.Errorf("Replicas() = %+v, %v, want fresh alive, then stale", list, err)
	}
}

func TestUpcoming(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	set(t, super, "often", "next_fire_at_ms = (c.now / 600000 + 1) * 600000")
	set(t, super, "daily", "next_fire_at_ms = c.now + 3500000")
	set(t, super, "nightly", "next_fire_at_ms = c.now + 3700000")

	list, err := scheduler.Upcoming(t.Context(), q, []string{"ops", "growth"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i, e := range list {
		count[e.TriggerID]++
		if e.Frequent != (e.TriggerID == "often") || i > 0 && e.AtMS < list[i-1].AtMS {
			t.Errorf("Upcoming()[%d] = %+v, want them in order, and only often frequent", i, e)
		}
	}
	if diff := cmp.Diff(map[string]int{"often": 6, "daily": 1}, count); diff != "" {
		t.Errorf("Upcoming(one hour) (-want +got)\n%s", diff)
	}
}

func TestCursorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := scheduler.Cursor{NextMS: rapid.Int64Range(-1, 1<<53-1).Draw(t, "ms"), ProjectID: rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,20}`).Draw(t, "project"),
			TriggerID: rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,20}`).Draw(t, "trigger")}
		if got, err := scheduler.ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("ParseCursor(%q) = %v, %v, want %v", c, got, err, c)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"", "_/", "1_a/b", "-1_a/b", "-2_a/b", "+1_a/b", "1_a/b/c", "9007199254740992_a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := scheduler.ParseCursor(s); err == nil && c.String() != s {
			t.Errorf("ParseCursor(%q) = %v, which is spelled %q", s, c, c)
		}
	})
}

func TestRecentSpells(t *testing.T) {
	d := pgtest.New(t)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	for _, s := range []scheduler.Spell{{FromMS: now - 100_000_000, ToMS: now - 90_000_000}, {FromMS: now - 89_000_000, ToMS: now - 80_000_000}, {FromMS: now - 60_000, ToMS: now - 20_000}} {
		if _, err := super.Exec(t.Context(), `INSERT INTO ql3.schedule_events (type, first_at_ms, last_at_ms, created_at_ms) VALUES ('unattended', $1, $2, $2)`, s.FromMS, s.ToMS); err != nil {
			t.Fatal(err)
		}
	}
	want := []scheduler.Spell{{FromMS: now - 60_000, ToMS: now - 20_000}, {FromMS: now - 89_000_000, ToMS: now - 80_000_000}}
	got, err := scheduler.RecentSpells(t.Context(), q)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("RecentSpells(): %v (-want +got)\n%s", err, diff)
	}
}

func TestArchivings(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	for _, kind := range []string{"archived", "unarchived", "skipped", "archived"} {
		_, err := super.Exec(t.Context(), `INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms)
			SELECT 'ops', 'nightly', 1, $1, count(*) FROM ql3.schedule_events WHERE trigger_id = 'nightly'`, kind)
		if err != nil {
			t.Fatal(err)
		}
	}
	now := runtest.Clock(t, q)
	a, l, err := scheduler.ReadLane(t.Context(), q, []string{"ops"}, "ops", "nightly", now-1000, now, 0, 1000)
	want := []scheduler.Spell{{FromMS: 0, ToMS: 1}, {FromMS: 3, ToMS: a.NowMS}}
	if diff := cmp.Diff(want, l.Archived); err != nil || diff != "" {
		t.Errorf("ReadLane(nightly).Archived: %v (-want +got)\n%s", err, diff)
	}
	if _, got, err := scheduler.ReadLane(t.Context(), q, []string{"growth"}, "ops", "nightly", now-1000, now, 0, 1000); !errors.Is(err, scheduler.ErrNotFound) {
		t.Errorf("ReadLane(by a reader of growth) = %v, %v, want ErrNotFound", got, err)
	}
}
