package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/migrations"
)

// manyTriggers publishes n Triggers in each of three Projects, whose names sort differently by bytes and by language.
func manyTriggers(t *testing.T, d *pgtest.Database, n int) []string {
	t.Helper()
	projects := []string{"a-b", "a.c", "ab"}
	manifest := "projects:\n"
	for _, p := range projects {
		manifest += fmt.Sprintf("  - id: %s\n    name: %[1]s\n    tasks:\n      - {id: work, name: Work of %[1]s, command: [/bin/true], timeout: 1m, triggers: [", p)
		for i := range n {
			manifest += fmt.Sprintf("{id: t-%02d, cron: \"0 3 * * *\", timezone: UTC}, ", i)
		}
		manifest = strings.TrimSuffix(manifest, ", ") + "]}\n"
	}
	runtest.Publish(t, d, manifest)
	return projects
}

func TestPagesOfSchedulesAreTheList(t *testing.T) {
	d := pgtest.New(t)
	projects := manyTriggers(t, d, 12)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, super)
	// Of every state some, and many at the same instant.
	pgtest.Force(t, super, `UPDATE trigger_schedules SET enabled = n % 6 > 0, pause_id = CASE WHEN n % 12 = 0 THEN gen_random_uuid() END, next_fire_at_ms = CASE WHEN n % 5 = 0 THEN NULL ELSE $1 + (n % 4 - 1) * 100000000 END,
			last_scheduled_at_ms = CASE WHEN n % 2 = 0 THEN 1 END, blocked_reason = CASE WHEN n % 7 = 0 THEN 'zone' END,
			claim_owner = CASE WHEN c THEN 'r' END, claim_token = CASE WHEN c THEN gen_random_uuid() END, claim_expires_at_ms = CASE WHEN c THEN $1 + 100000000 END
		FROM (SELECT project_id AS p, trigger_id AS t, row_number() OVER (ORDER BY trigger_id, project_id) AS n, trigger_id > 't-08' AND row_number() OVER (ORDER BY trigger_id, project_id) % 6 > 0 AS c FROM trigger_schedules) x
		WHERE project_id = p AND trigger_id = t`, now)
	want := pgtest.Texts(t, super, `SELECT project_id, trigger_id FROM trigger_schedules
		ORDER BY CASE WHEN enabled THEN coalesce(next_fire_at_ms, -1) ELSE 9007199254740991 END, project_id, trigger_id`)
	if got := schedulePages(t, q, scheduler.Filter{Projects: projects}, scheduler.MaxPage); cmp.Diff(want, got) != "" {
		t.Fatalf("List() in one page (-want +got)\n%s", cmp.Diff(want, got))
	}
	rapid.Check(t, func(t *rapid.T) {
		f := scheduler.Filter{
			Projects: rapid.SampledFrom([][]string{projects, projects[:1], {"ab", "a.c", "ab"}}).Draw(t, "projects"),
			State:    rapid.SampledFrom(append(scheduler.States(), "")).Draw(t, "state"),
			Text:     rapid.SampledFrom([]string{"", "t-0", "work of a.c", "9"}).Draw(t, "text"),
		}
		n := rapid.IntRange(1, 7).Draw(t, "n")
		whole := schedulePages(t, q, f, scheduler.MaxPage)
		if diff := cmp.Diff(whole, schedulePages(t, q, f, n)); diff != "" {
			t.Errorf("pages of %d of %+v (-whole +pages)\n%s", n, f, diff)
		}
		if i := slices.IndexFunc(whole, func(s string) bool { return !inProjects(s, f.Projects) }); i >= 0 {
			t.Errorf("%+v shows %s", f, whole[i])
		}
		counts, err := scheduler.CountByState(t.Context(), q, f)
		if f.State != "" && (err != nil || counts[f.State] != run.Count{N: len(whole)}) {
			t.Errorf("CountByState(%+v)[%s] = %+v, %v, want %d", f, f.State, counts[f.State], err, len(whole))
		}
	})
}

// One Project's Schedules come before another's, among a third's that are all of one instant, and as many are disabled: of
// which lane a page is made, and how far, differs from page to page.
func TestPagesOfUnevenProjectsAreTheList(t *testing.T) {
	d := pgtest.New(t)
	projects := manyTriggers(t, d, 20)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	pgtest.Force(t, super, `UPDATE trigger_schedules SET enabled = n < 10, next_fire_at_ms = $1::bigint + CASE project_id WHEN 'ab' THEN n WHEN 'a-b' THEN 5 ELSE 5 + n END
		FROM (SELECT project_id AS p, trigger_id AS t, right(trigger_id, 2)::int AS n FROM trigger_schedules) x WHERE project_id = p AND trigger_id = t`,
		runtest.Clock(t, super)+100_000_000)
	want := pgtest.Texts(t, super, `SELECT project_id, trigger_id FROM trigger_schedules
		ORDER BY CASE WHEN enabled THEN next_fire_at_ms ELSE 9007199254740991 END, project_id, trigger_id`)
	for n := 1; n <= 40; n++ {
		if diff := cmp.Diff(want, schedulePages(t, q, scheduler.Filter{Projects: projects}, n)); diff != "" {
			t.Errorf("List() in pages of %d (-want +got)\n%s", n, diff)
		}
	}
}

func inProjects(schedule string, projects []string) bool {
	return slices.ContainsFunc(projects, func(p string) bool { return strings.HasPrefix(schedule, "("+p+",") })
}

// schedulePages collects the list in pages of n.
func schedulePages(t pgtest.T, q pg.Querier, f scheduler.Filter, n int) (list []string) {
	t.Helper()
	var after *scheduler.Cursor
	for {
		page, err := scheduler.List(context.Background(), q, f, after, n)
		if err != nil {
			t.Fatalf("List(%+v) = %v", f, err)
		}
		for _, s := range page.Schedules {
			list = append(list, fmt.Sprintf("(%s,%s)", s.ProjectID, s.TriggerID))
		}
		if after = page.Next; after == nil {
			return list
		}
	}
}

func TestCountOfSchedulesStopsAtTheCap(t *testing.T) {
	d := pgtest.New(t)
	manyTriggers(t, d, 1)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	more := func(n int) {
		pgtest.Force(t, super, `INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms)
			SELECT 'ab', gen_random_uuid()::text, 1, true, 0, 9000000000000, 0 FROM generate_series(1, $1::int)`, n)
	}
	more(run.CountCap - 1)
	pgtest.Force(t, super, `UPDATE trigger_schedules SET next_fire_at_ms = 9000000000000`)
	f := scheduler.Filter{Projects: []string{"ab"}}
	for _, want := range []map[scheduler.State]run.Count{
		{scheduler.NeverRun: {N: run.CountCap}},
		{scheduler.NeverRun: {N: run.CountCap, More: true}, scheduler.Blocked: {More: true}, scheduler.Claimed: {More: true}, scheduler.Waiting: {More: true}},
	} {
		got, err := scheduler.CountByState(t.Context(), q, f)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("CountByState() = %v (-want +got)\n%s", err, diff)
		}
		more(1)
	}
	pgtest.Force(t, super, `UPDATE trigger_schedules SET enabled = false, pause_id = CASE WHEN nth <= 3 THEN gen_random_uuid() END
		FROM (SELECT project_id AS p, trigger_id AS t, row_number() OVER (ORDER BY trigger_id) AS nth FROM trigger_schedules WHERE project_id = 'ab') x
		WHERE project_id = p AND trigger_id = t`)
	got, err := scheduler.CountByState(t.Context(), q, f)
	want := map[scheduler.State]run.Count{scheduler.Disabled: {N: run.CountCap + 1 - 3, More: true}, scheduler.Paused: {N: 3}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("CountByState(idle) = %v (-want +got)\n%s", err, diff)
	}
}

// A text may name more Tasks than are looked for. Then neither a page nor a count looks like all that there is.
func TestTextThatNamesMoreTasksThanAreLookedFor(t *testing.T) {
	d := pgtest.New(t)
	runtest.PublishMany(t, d, search.Most+1)
	q := d.Pool(t, migrations.RoleConsole)
	for text, want := range map[string]bool{"job-": true, "job-0": false, "at-": false} {
		f := scheduler.Filter{Projects: []string{"ops"}, Text: text}
		page, err := scheduler.List(t.Context(), q, f, nil, 50)
		if err != nil || page.Partial != want {
			t.Errorf("List(%s) = partial %t, %v, want %t", text, page.Partial, err, want)
		}
		counts, err := scheduler.CountByState(t.Context(), q, f)
		if err != nil || counts[scheduler.Due].More != want {
			t.Errorf("CountByState(%s) = %v, %v, want more %t", text, counts, err, want)
		}
	}
}
