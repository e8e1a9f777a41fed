package run_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const manifest = `
projects:
  - id: ops
    name: Operations
    tasks:
      - id: report
        name: Nightly report
        command: [/bin/report, --secret-looking-argument]
        timeout: 1m
        runbook: https://wiki.example/{project}/{task}
        logs: https://logs.example/?run={run}&attempt={attempt}
        triggers:
          - {id: nightly, cron: "30 2 * * *", timezone: Europe/Berlin}
          - {id: hourly, cron: "0 * * * *", timezone: UTC}
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

const hour = 3_600_000

func TestListIsNewestFirstAndFiltered(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	nightly := runtest.Admit(t, d, "ops", "nightly", now-5*hour, now-5*hour+7)
	runtest.Execute(t, d, run.Outcome{Status: run.Failed, ExitCode: new(3), Code: "exit_status", Summary: "no billing"})
	hourly := runtest.Admit(t, d, "ops", "hourly", now-2*hour, now-2*hour)
	daily := runtest.Admit(t, d, "growth", "daily", now-hour, now-hour)

	both := []string{"ops", "growth"}
	tests := []struct {
		name   string
		filter run.Filter
		want   []uuid.UUID
	}{
		{"all", run.Filter{Projects: both}, []uuid.UUID{daily, hourly, nightly}},
		{"one project", run.Filter{Projects: []string{"ops"}}, []uuid.UUID{hourly, nightly}},
		{"no project", run.Filter{}, nil},
		{"a project that is not there", run.Filter{Projects: []string{"nowhere"}}, nil},
		{"one status", run.Filter{Projects: both, Statuses: []run.Status{run.Failed}}, []uuid.UUID{nightly}},
		{"two statuses", run.Filter{Projects: both, Statuses: []run.Status{run.Failed, run.Queued}}, []uuid.UUID{daily, hourly, nightly}},
		{"a task", run.Filter{Projects: both, TaskID: "digest"}, []uuid.UUID{daily}},
		{"a trigger", run.Filter{Projects: both, TriggerID: "hourly"}, []uuid.UUID{hourly}},
		{"a trigger and a status it has not", run.Filter{Projects: both, TriggerID: "hourly", Statuses: []run.Status{run.Failed}}, nil},
		{"since is inclusive", run.Filter{Projects: both, SinceMS: now - 2*hour}, []uuid.UUID{daily, hourly}},
		{"until is exclusive", run.Filter{Projects: both, UntilMS: now - 2*hour}, []uuid.UUID{nightly}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page, err := run.List(t.Context(), q, tt.filter, nil, 50)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, ids(page.Runs)); diff != "" || page.Next != nil {
				t.Errorf("List(%+v): next %v, (-want +got)\n%s", tt.filter, page.Next, diff)
			}
		})
	}
}

func ids(list []run.Summary) []uuid.UUID {
	var out []uuid.UUID
	for _, r := range list {
		out = append(out, r.ID)
	}
	return out
}

// Pages must be right while Runs are admitted, and among Runs of one millisecond.
func TestListPagesStayRightWhileRunsArrive(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	there := map[uuid.UUID]bool{}
	for i := range int64(7) {
		there[runtest.Admit(t, d, "ops", "hourly", now-i*hour, now)] = true // all in the same millisecond
	}
	filter := run.Filter{Projects: []string{"ops", "growth"}}
	var after *pg.Cursor
	seen := map[uuid.UUID]bool{}
	for pages := 0; ; pages++ {
		page, err := run.List(t.Context(), q, filter, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			if seen[r.ID] {
				t.Errorf("page %d shows %s again", pages, r.ID)
			}
			seen[r.ID] = true
		}
		if page.Next == nil {
			break
		}
		after = page.Next
		runtest.Admit(t, d, "growth", "daily", now+int64(pages)*hour, now+1) // newer than every page
	}
	if diff := cmp.Diff(there, seen); diff != "" {
		t.Errorf("pages together (-want +got)\n%s", diff)
	}
}

func TestGetReadsOneRunWhole(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	id := runtest.Admit(t, d, "ops", "nightly", now-9, now)
	runtest.Execute(t, d, run.Outcome{Status: run.Failed, ExitCode: new(3), Code: "exit_status", Summary: "connection refused"})

	got, err := run.Get(t.Context(), q, []string{"growth", "ops"}, id)
	if err != nil {
		t.Fatal(err)
	}
	attempt := got.Attempts[0]
	summary := fmt.Sprintf("%s %s %s exit %d, %d attempts, %d events, %s, %s", got.ProjectID, got.TaskID, got.Status, *got.ExitCode,
		len(got.Attempts), len(got.Events), got.Events[len(got.Events)-1].Type, *got.Timezone)
	if want := "ops report failed exit 3, 1 attempts, 5 events, run.failed, Europe/Berlin"; summary != want {
		t.Errorf("Get() = %s, want %s", summary, want)
	}
	if late, ok := got.Late(); late != 9 || !ok {
		t.Errorf("Late() = %d, %t, want 9", late, ok)
	}
	if want := "https://wiki.example/ops/report"; got.RunbookURL != want {
		t.Errorf("RunbookURL = %q, want %q", got.RunbookURL, want)
	}
	if want := fmt.Sprintf("https://logs.example/?run=%s&attempt=%s", id, attempt.ID); got.LogsURL != want {
		t.Errorf("LogsURL = %q, want %q", got.LogsURL, want)
	}
}

func TestGetHidesOtherProjects(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	id := runtest.Admit(t, d, "ops", "nightly", now, now)
	for name, projects := range map[string][]string{"another": {"growth"}, "none": nil, "empty": {}} {
		if _, err := run.Get(t.Context(), q, projects, id); !errors.Is(err, run.ErrNotFound) {
			t.Errorf("Get(%s project) = %v, want ErrNotFound", name, err)
		}
	}
	if _, err := run.Get(t.Context(), q, []string{"ops"}, uuid.New()); !errors.Is(err, run.ErrNotFound) {
		t.Errorf("Get(unknown id) = %v, want ErrNotFound", err)
	}
}

func TestLastHour(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	runtest.Admit(t, d, "ops", "hourly", now-hour-60_000, now-hour) // a moment too old
	runtest.Admit(t, d, "ops", "hourly", now-hour, now-hour+1)      // 1 ms late, the oldest minute
	runtest.Admit(t, d, "ops", "hourly", now-500, now)              // 500 ms late, the newest minute
	runtest.Admit(t, d, "growth", "daily", now, now)

	h, err := run.LastHour(t.Context(), q, []string{"ops"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if h.Admitted != 2 || h.Capped || h.ByStatus[run.Queued] != 2 || h.ByMinute[0] != 1 || h.ByMinute[59] != 1 {
		t.Errorf("LastHour() = %+v, want two queued Runs, in the first minute and the last", h)
	}
	if *h.MedianLateMS != 1 || *h.P99LateMS != 500 {
		t.Errorf("lateness = %d, %d, want 1 and 500", *h.MedianLateMS, *h.P99LateMS)
	}
	first, last := h.Minutes[0], h.Minutes[59]
	if first.ByStatus[run.Queued] != 1 || *first.MedianLateMS != 1 || *last.P99LateMS != 500 || h.Minutes[30].ByStatus != nil || h.Minutes[30].MedianLateMS != nil {
		t.Errorf("LastHour().Minutes = %+v, want 1 ms late in the first and 500 ms in the last", h.Minutes)
	}
	none, err := run.LastHour(t.Context(), q, []string{"nowhere"}, now)
	if err != nil || none.Admitted != 0 || none.MedianLateMS != nil {
		t.Errorf("LastHour(nowhere) = %+v, %v, want nothing", none, err)
	}
}

// Of more Runs than are looked at, the newest are, and of the minute in which looking stopped not all is known.
func TestLastHourKnowsTheNewest(t *testing.T) {
	w := newWorld(t)
	runtest.Admit(t, w.Database, "ops", "hourly", w.nowMS-50*60_000, w.nowMS-50*60_000)
	w.exec(`INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
			trigger_content_digest, scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
		SELECT gen_random_uuid(), project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
			n, 'cron', 'scheduled', 'queued', 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || n, at, at
		FROM runs, generate_series(1, $2::int) n, LATERAL (SELECT $1::bigint - n % 3 * 60000 AS at) x`, w.nowMS, run.CountCap)
	h, err := run.LastHour(t.Context(), w.super, []string{"ops"}, w.nowMS)
	if err != nil || h.Capped == false || h.Admitted != run.CountCap || h.KnownFrom != 10 {
		t.Errorf("LastHour() = %d admitted, capped %t, known from %d, %v, want %d, capped, from 10", h.Admitted, h.Capped, h.KnownFrom, err, run.CountCap)
	}
}

func TestReadsSayWhatWasRead(t *testing.T) {
	q := pgtest.New(t).Pool(t, migrations.RoleConsole)
	q.Close()
	_, err := run.List(t.Context(), q, run.Filter{Projects: []string{"ops"}}, nil, 50)
	if err == nil || !strings.HasPrefix(err.Error(), "run.List(1 projects): ") {
		t.Errorf("List() over a closed pool = %v, want it to begin with run.List(1 projects)", err)
	}
}

// The page of a Run and the list of those that need attention say the same.
func TestGetSaysWhyARunNeedsAttention(t *testing.T) {
	tests := []struct {
		name     string
		progress int
		drift    string
	}{
		{"ordinary work needs none", 0, ""},
		{"nor does work in hand", 2, ""},
		{"its lease has lapsed", 2, lapse},
		{"touched while queued", 0, `UPDATE run_attempts SET worker_id = 'w'`},
		{"no Attempt", 0, `DELETE FROM run_attempts`},
		{"over without an Attempt", 0, `WITH gone AS (DELETE FROM run_attempts) UPDATE runs SET status = 'cancelled', finished_at_ms = queued_at_ms`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecovery(t)
			r.advance(tt.progress)
			if tt.drift != "" {
				r.exec("SET session_replication_role = replica; " + tt.drift)
			}
			d, err := run.Get(t.Context(), r.console, []string{"p"}, r.id)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if d.Attention != nil {
				got = append(got, *d.Attention)
			}
			if diff := cmp.Diff(r.attention(), got); diff != "" {
				t.Errorf("Get().Attention, NeedAttention (-list +page):\n%s", diff)
			}
		})
	}
}
