package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const minuteMS = 60_000

// cells are the rows of a chart's table, without their times.
func cells(c templates.Chart) (list []string) {
	for _, r := range c.Table.Rows {
		list = append(list, text.Join(text.Data(" "), r.Cells...).String())
	}
	return list
}

func TestChartsSayWhatTheirTablesSay(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	m := lastHour{endMS: 60 * minuteMS, nowMS: 60 * minuteMS}
	h := run.Hour{ByStatus: map[run.Status]int{run.Succeeded: 8, run.Failed: 2, run.Lost: 1}}
	h.ByMinute[3], h.ByMinute[59] = 10, 1
	h.Minutes[3] = run.Minute{ByStatus: map[run.Status]int{run.Succeeded: 8, run.Failed: 2}, MedianLateMS: ms(8), P99LateMS: ms(2000)}
	h.Minutes[59] = run.Minute{ByStatus: map[run.Status]int{run.Lost: 1}, MedianLateMS: ms(1000), P99LateMS: ms(1000)}
	h.MedianLateMS, h.P99LateMS = ms(8), ms(2000)
	var waiting scheduler.Backlog
	waiting.ByMinute[3], waiting.KnownFrom = 4, 2
	tests := []struct {
		name       string
		chart      templates.Chart
		summary    string
		minute3    string // the row of minute 3
		rows, bars int
		top        string
	}{
		{"admissions", m.admissions(h), "at most 10, at 00:03 UTC; now 1", "10", 60, 2, "10"},
		{"outcomes", m.outcomes(h), "2 failed, 1 timed out or lost, 8 succeeded", "8 0 0 0 2", 60, 3, "10"},
		{"lateness", m.lateness(h), "median 8 ms, 99th percentile 2 s", "8 ms 2 s", 60, 0, "2 s"},
		{"backlog, not known from the beginning", m.backlog(waiting), "at most 4, at 00:03 UTC; now 0", "4", 58, 1, "4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, bars := cells(tt.chart), 0
			for _, c := range tt.chart.Columns {
				bars += len(c.Blocks)
			}
			if got := tt.chart.Summary.String(); got != tt.summary {
				t.Errorf("it says %q, want %q", got, tt.summary)
			}
			if len(rows) != tt.rows || rows[59-3] != tt.minute3 || bars != tt.bars || tt.chart.Top.String() != tt.top {
				t.Errorf("%d rows, minute 3 %q, %d blocks, up to %s", len(rows), rows[59-3], bars, tt.chart.Top)
			}
		})
	}
}

func TestStairsBreakOffWhereNothingIsKnown(t *testing.T) {
	n := func(ms int64) *int64 { return &ms }
	var ns [minutes]*int64
	ns[0], ns[1], ns[58] = n(10), n(5), n(10)
	if got, want := stairs(ns, 10, false), "M0.00 0.0H1.67V50.0H3.33M96.67 0.0H98.33"; got != want {
		t.Errorf("line = %s, want %s", got, want)
	}
	if got, want := stairs(ns, 10, true), "M0.00 100V0.0H1.67V50.0H3.33V100M96.67 100V0.0H98.33V100"; got != want {
		t.Errorf("area = %s, want %s", got, want)
	}
}

// The minutes of the charts are the clock's, so that a stream has nothing to send while nothing happens.
func TestChartsStandStillWithinAMinute(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	charts := func() string {
		page := get(t, h, "/").body
		_, page, _ = strings.Cut(page, `<div data-part="charts">`)
		page, _, _ = strings.Cut(page, `<div data-part="next">`)
		return page
	}
	for try := 0; ; try++ {
		before := hourEnd(runtest.Clock(t, w.db))
		first, second := charts(), charts()
		if hourEnd(runtest.Clock(t, w.db)) != before && try == 0 {
			continue // the minute turned
		}
		if first != second || !strings.Contains(first, "Outcomes by minute of admission") {
			t.Errorf("two readings within a minute differ:\n%s\n%s", first, second)
		}
		return
	}
}

func TestFailuresLeadToARetry(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	way := `class="btn" href="/runs/` + o.failed.String() + `/retry"`
	if page := o.get("/").body; !strings.Contains(page, way) {
		t.Error("an operator's overview has no way from the failure to its retry")
	}
	if page := get(t, o.world.handler(t, ""), "/").body; strings.Contains(page, "/retry") || !strings.Contains(page, o.failed.String()) {
		t.Error("a viewer's overview leads to a retry, or lacks the failure")
	}
	retry := uuid.New()
	pgtest.Force(t, o.Super(t), `INSERT INTO ql3.runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', $2::text, 'retry_of_run_id', r.id, 'created_at_ms', r.created_at_ms + 1, 'queued_at_ms', r.queued_at_ms + 1, 'idempotency_key', 'ql3:run-manual-retry:v1:k',
		'trigger_type', 'run_manual_retry', 'execution_origin', 'manual', 'triggered_by', 'u', 'step_up_proof_id', gen_random_uuid(), 'trigger_id', NULL, 'trigger_revision', NULL,
		'trigger_content_digest', NULL, 'scheduled_for_ms', NULL, 'status', 'queued', 'started_at_ms', NULL, 'finished_at_ms', NULL, 'error_code', NULL, 'error_summary', NULL))).*
		FROM ql3.runs r WHERE id = $1`, o.failed, retry)
	page := o.get("/").body
	if strings.Contains(page, way) || !strings.Contains(page, `href="/runs/`+retry.String()+`"`) {
		t.Error("the overview does not lead from a failure that was retried to that retry")
	}
	var facts overviewFacts
	body := get(t, o.handler(), "/", "Accept", "application/json").body
	if err := json.Unmarshal([]byte(body), &facts); err != nil || facts.Retries[o.failed].ID != retry {
		t.Errorf("the JSON's retries are %v, %v", facts.Retries, err)
	}
}

// What a chart counts is of the Projects that its reader may see.
func TestChartsAreOfTheReadersProjects(t *testing.T) {
	w := newWorld(t)
	runtest.Publish(t, w.Database, strings.ReplaceAll(minutely("", ", enabled: false"), "ops", "nobodys"))
	h := reader(t, w.Database, "", "nobodys")
	if got := get(t, h, "/", "Accept", "application/json").body; strings.Contains(got, `"queued"`) || strings.Contains(got, `"failed"`) {
		t.Errorf("charts of a reader of another Project: %s", got)
	}
	page := get(t, h, "/").body
	for _, want := range []string{"none in the last hour", "nothing waited at the end of a minute", "no Occurrence was admitted in the last hour"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview of a reader of another Project does not say %q", want)
		}
	}
}

func TestUpcomingHasARowForEachSchedule(t *testing.T) {
	s := newServer(config(t, nil, ""))
	var list []scheduler.Expected
	for i := range int64(40) {
		list = append(list, scheduler.Expected{ProjectID: "ops", TriggerID: "often", AtMS: i * 90_000, Frequent: true})
	}
	list = append(list, scheduler.Expected{ProjectID: "ops", TriggerID: "once", AtMS: 30 * minuteMS})
	a := s.upcoming(list, 0)
	if len(a.Rows) != 2 || a.Rows[0].Count != "40" || a.Rows[1].Count != "1" || a.Rows[1].Schedule.URL != "/schedules/ops/once" {
		t.Errorf("rows = %+v", a.Rows)
	}
	var named []string
	for _, x := range a.Spots {
		if !x.Label.Empty() {
			named = append(named, x.X+" "+x.Label.String()+" "+x.URL)
		}
	}
	if len(named) != 1 || named[0] != "50.00% once in 30 min /schedules/ops/once" {
		t.Errorf("named spots = %v", named)
	}
}

func TestHourEndsWithTheMinute(t *testing.T) {
	at := time.Date(2026, 11, 29, 3, 4, 5, 0, time.UTC).UnixMilli()
	if got := clockOf(hourEnd(at)); got != "03:05 UTC" {
		t.Errorf("hourEnd(03:04:05) = %s", got)
	}
	if got := hourEnd(hourEnd(at)); got != hourEnd(at) {
		t.Errorf("the end of a minute is that of the minute it ends")
	}
}
