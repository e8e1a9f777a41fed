package scheduler_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

func TestParseAtRefuses(t *testing.T) {
	for _, s := range []string{"", "3:00", "24:00", "03:60", "03:00:60", "03:00 ", "Latest", "latest-", "now", "2026-11-29", "2026-11-29T03:00:00",
		"2026-11-29 03:00:00Z", "1969-12-31T23:59:59Z", "2026-02-30T03:00:00Z", "0000-00-00T00:00:00Z"} {
		if at, err := scheduler.ParseAt(s); err == nil {
			t.Errorf("ParseAt(%q) = %+v, want an error", s, at)
		}
	}
}

// FuzzParseAt checks that what is read is one thing, and that a blank for a plus changes nothing.
func FuzzParseAt(f *testing.F) {
	for _, s := range []string{"latest", "latest-failed", "03:00", "23:59:59", "2026-11-29T03:00:00Z", "2026-11-29T03:00:00+01:00", "2026-11-29T03:00:00 01:00", "+01:00", " 1:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := scheduler.ParseAt(s)
		if (err == nil) == (at == scheduler.At{}) {
			t.Fatalf("ParseAt(%q) = %+v, %v, want either", s, at, err)
		}
		moment, timeErr := time.Parse(time.RFC3339, s)
		if timeErr == nil && moment.UnixMilli() > 0 && err != nil {
			t.Errorf("ParseAt(%q) = %v, and it is a time", s, err)
		}
	})
}

func TestFind(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	local := time.UnixMilli(now).In(berlin)
	due := time.Date(local.Year(), local.Month(), local.Day(), 2, 30, 0, 0, berlin)
	if due.UnixMilli() > now {
		due = time.Date(local.Year(), local.Month(), local.Day()-1, 2, 30, 0, 0, berlin)
	}
	day := int64(24 * time.Hour / time.Millisecond)
	pgtest.Force(t, super, `UPDATE trigger_revisions SET created_at_ms = $1`, now-10*day)
	pgtest.Force(t, super, `UPDATE trigger_schedules SET base_at_ms = $1`, now-10*day)
	failed := runtest.Admit(t, d, "ops", "nightly", due.UnixMilli()-2*day, due.UnixMilli()-2*day)
	runtest.Execute(t, d, run.Outcome{Status: run.Failed, ExitCode: new(1), Code: "exit_status"})
	last := runtest.Admit(t, d, "ops", "nightly", due.UnixMilli(), due.UnixMilli())

	ms := func(at time.Time) int64 { return at.UnixMilli() }
	tests := []struct {
		name, trigger, at string
		run               uuid.UUID
		atMS              int64
		expected          bool
	}{
		{"an instant", "nightly", due.UTC().Format(time.RFC3339), last, ms(due), false},
		{"an instant in the zone", "nightly", due.Format(time.RFC3339), last, ms(due), false},
		{"a time of day", "nightly", "02:30", last, ms(due), false},
		{"the newest", "nightly", "latest", last, 0, false},
		{"the newest that failed", "nightly", "latest-failed", failed, 0, false},
		{"an instant without a Run", "nightly", due.Add(-24 * time.Hour).Format(time.RFC3339), uuid.Nil, ms(due) - day, true},
		{"an instant at which nothing is expected", "nightly", due.Add(time.Second).Format(time.RFC3339), uuid.Nil, ms(due) + 1000, false},
		{"an instant to come", "nightly", due.AddDate(1, 0, 0).Format(time.RFC3339), uuid.Nil, ms(due.AddDate(1, 0, 0)), false},
		{"of a Trigger that never ran, the latest instant it might have", "off", "latest", uuid.Nil, now - now%day, true},
		{"one that never failed", "off", "latest-failed", uuid.Nil, now - now%day, true},
		{"a time of day in another zone", "often", "00:00", uuid.Nil, now - now%day, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, err := scheduler.ParseAt(tt.at)
			if err != nil {
				t.Fatal(err)
			}
			m, err := scheduler.Find(t.Context(), q, []string{"ops", "growth"}, "ops", tt.trigger, at)
			if err != nil || m.RunID != tt.run || m.AtMS != tt.atMS || (m.Instant != nil) != tt.expected {
				t.Errorf("Find(%s, %q) = %+v, %v, want Run %s, %d, expected %t", tt.trigger, tt.at, m, err, tt.run, tt.atMS, tt.expected)
			}
		})
	}
	for name, trigger := range map[string]string{"another Project's": "nightly", "none": "nowhere"} {
		if m, err := scheduler.Find(t.Context(), q, []string{"growth"}, "ops", trigger, scheduler.At{}); !errors.Is(err, scheduler.ErrNotFound) {
			t.Errorf("Find(%s) = %+v, %v, want ErrNotFound", name, m, err)
		}
	}
}

func TestClaimNews(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	add := func(project, trigger, kind string, atMS int64) {
		pgtest.Exec(t, super, `INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, claim_owner, claim_version, reason, created_at_ms)
			VALUES ($1, $2, 1, $3, 'replica-2', 7, 'why', $4)`, project, trigger, kind, atMS)
	}
	add("ops", "nightly", "taken_over", now-1000)
	add("ops", "often", "raced", now-2000)
	add("ops", "often", "skipped", now-2000)
	add("ops", "often", "failed", now-3500*1000)
	add("ops", "often", "raced", now-3601*1000)
	add("growth", "daily", "raced", now)
	news, more, err := scheduler.ReadClaimNews(t.Context(), q, []string{"ops"})
	var got []string
	for _, n := range news {
		got = append(got, n.TriggerID+" "+n.Kind+" "+*n.Owner)
	}
	if want := []string{"nightly taken_over replica-2", "often raced replica-2", "often failed replica-2"}; err != nil || more || !slices.Equal(want, got) {
		t.Errorf("ReadClaimNews() = %v, more %t, %v, want %v", got, more, err, want)
	}
	pgtest.Exec(t, super, `INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms)
		SELECT 'growth', 'daily', 1, 'raced', $1 FROM generate_series(1, 100)`, now)
	if news, more, err := scheduler.ReadClaimNews(t.Context(), q, []string{"growth"}); err != nil || !more || len(news) != 100 {
		t.Errorf("ReadClaimNews() = %d, more %t, %v, want 100 and more", len(news), more, err)
	}
}
