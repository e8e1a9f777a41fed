package scheduler

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/cron"
)

// claimOf is a claim of a Schedule with the expression and policy, held since observed.
func claimOf(t rapid.TB, expression, zone, misfire string, base time.Time, cursor *time.Time, observed time.Time) Claim {
	t.Helper()
	content, err := json.Marshal(catalog.TriggerContent{Kind: catalog.KindCron, Project: "p", Trigger: "t", Enabled: true, Cron: expression,
		Written: expression, Timezone: zone, Misfire: misfire, Task: catalog.TaskPin{ID: "task", Revision: 1, Digest: "d"}})
	if err != nil {
		t.Fatal(err)
	}
	c := Claim{ProjectID: "p", TriggerID: "t", BaseAtMS: base.UnixMilli(), AcquiredAtMS: observed.UnixMilli(),
		TriggerContent: string(content), TriggerDigest: catalog.Digest(catalog.DomainTrigger, string(content))}
	if cursor != nil {
		ms := cursor.UnixMilli()
		c.CursorMS = &ms
	}
	return c
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func ms(s string) int64 { return at(s).UnixMilli() }

func TestDecide(t *testing.T) {
	due := at("2027-01-01T10:00:00Z")
	tests := []struct {
		name     string
		misfire  string
		base     string
		cursor   *time.Time
		observed string
		want     Decision
	}{
		{name: "never set, nothing due: only the cursor is set", misfire: "skip", base: "2027-01-01T09:50:00Z", observed: "2027-01-01T09:55:00Z",
			want: Decision{Kind: Initialize, NextMS: ms("2027-01-01T10:00:00Z"), Initialized: true}},
		{name: "never set and already due: goes on as due", misfire: "skip", base: "2027-01-01T09:59:00Z", observed: "2027-01-01T10:00:01Z",
			want: Decision{Kind: Admit, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:10:00Z"), Initialized: true}},
		{name: "on time to the millisecond", misfire: "skip", cursor: &due, observed: "2027-01-01T10:00:00Z",
			want: Decision{Kind: Admit, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:10:00Z")}},
		{name: "exactly the grace late is on time", misfire: "skip", cursor: &due, observed: "2027-01-01T10:05:00Z",
			want: Decision{Kind: Admit, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:10:00Z")}},
		{name: "a millisecond over the grace is skipped", misfire: "skip", cursor: &due, observed: "2027-01-01T10:05:00.001Z",
			want: Decision{Kind: Skip, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:10:00Z")}},
		{name: "fire_once admits however late", misfire: "fire_once", cursor: &due, observed: "2027-01-01T10:05:00.001Z",
			want: Decision{Kind: Admit, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:10:00Z")}},
		{name: "fire_once replays no backlog", misfire: "fire_once", cursor: &due, observed: "2027-01-01T10:35:00Z",
			want: Decision{Kind: Admit, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:40:00Z"),
				Passed: Passed{FirstMS: ms("2027-01-01T10:10:00Z"), LastMS: ms("2027-01-01T10:30:00Z"), Count: 3}}},
		{name: "skip accounts for everything passed over", misfire: "skip", cursor: &due, observed: "2027-01-01T10:35:00Z",
			want: Decision{Kind: Skip, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:40:00Z"),
				Passed: Passed{FirstMS: ms("2027-01-01T10:10:00Z"), LastMS: ms("2027-01-01T10:30:00Z"), Count: 3}}},
		{name: "observed on the next instant: that one is passed over, not admitted twice", misfire: "skip", cursor: &due, observed: "2027-01-01T10:10:00Z",
			want: Decision{Kind: Skip, DueMS: due.UnixMilli(), NextMS: ms("2027-01-01T10:20:00Z"),
				Passed: Passed{FirstMS: ms("2027-01-01T10:10:00Z"), LastMS: ms("2027-01-01T10:10:00Z"), Count: 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := at("2026-12-31T00:00:00Z")
			if tt.base != "" {
				base = at(tt.base)
			}
			got, err := decide(claimOf(t, "*/10 * * * *", "UTC", tt.misfire, base, tt.cursor, at(tt.observed)), 5*time.Minute)
			if err != nil {
				t.Fatalf("decide: %v", err)
			}
			tt.want.ObservedMS, tt.want.Misfire = ms(tt.observed), tt.misfire
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideCountsBoundedly(t *testing.T) {
	due := at("2027-01-01T00:00:00Z")
	got, err := decide(claimOf(t, "* * * * * *", "UTC", "skip", due, &due, at("2027-02-01T00:00:00.5Z")), 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := Passed{FirstMS: ms("2027-01-01T00:00:01Z"), LastMS: ms("2027-02-01T00:00:00Z"), Count: countLimit, AtLeast: true}
	if diff := cmp.Diff(want, got.Passed); diff != "" {
		t.Errorf("a month of seconds passed over (-want +got):\n%s", diff)
	}
}

func TestDecideBlocks(t *testing.T) {
	due := at("2027-01-01T10:00:00Z")
	good := claimOf(t, "*/10 * * * *", "UTC", "skip", due, &due, due)
	reseal := func(content string) Claim {
		c := good
		c.TriggerContent, c.TriggerDigest = content, catalog.Digest(catalog.DomainTrigger, content)
		return c
	}
	tampered := good
	tampered.TriggerContent += " "
	tests := []struct {
		name  string
		claim Claim
	}{
		{"content that does not match its digest", tampered},
		{"content no version wrote", reseal(`{"kind":"qinglong/cron@v9"}`)},
		{"a zone that no longer loads", claimOf(t, "0 0 * * *", "Mars/Olympus", "skip", due, &due, due)},
		{"an expression that no longer parses", claimOf(t, "0 0 L * *", "UTC", "skip", due, &due, due)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d, err := decide(tt.claim, time.Minute); !errors.Is(err, ErrUndecidable) {
				t.Errorf("decide = %+v, %v, want ErrUndecidable", d, err)
			}
		})
	}
}

// Whatever the lateness, the new cursor is after what was observed, and the instants between the old cursor and the
// new one are exactly the one decided and those passed over.
func TestDecideAccountsForEveryInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expression := rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "30 2 * * *", "15,45 1-3 * * *", "*/20 * * * * *"}).Draw(t, "expression")
		zone := rapid.SampledFrom([]string{"UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"}).Draw(t, "zone")
		misfire := rapid.SampledFrom([]string{"skip", "fire_once"}).Draw(t, "misfire")
		schedule, err := cron.Parse(expression, zone)
		if err != nil {
			t.Fatal(err)
		}
		start := at("2027-01-01T00:00:00Z").Add(time.Duration(rapid.IntRange(0, 365*24*60).Draw(t, "minute")) * time.Minute)
		cursor, _ := schedule.Next(start)
		observed := cursor.Add(time.Duration(rapid.IntRange(0, 36*3600*1000).Draw(t, "late")) * time.Millisecond)
		d, err := decide(claimOf(t, expression, zone, misfire, start, &cursor, observed), 5*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if d.NextMS <= d.ObservedMS || d.DueMS != cursor.UnixMilli() {
			t.Fatalf("decide = %+v, want a next instant after observed and the cursor %d", d, cursor.UnixMilli())
		}
		passed := 0
		for next, _ := schedule.Next(cursor); next.UnixMilli() < d.NextMS; next, _ = schedule.Next(next) {
			passed++
		}
		if passed > countLimit != d.Passed.AtLeast || min(passed, countLimit) != d.Passed.Count {
			t.Fatalf("decide passed over %+v, want %d instants", d.Passed, passed)
		}
	})
}
