package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
)

// retriedTo puts a retry of source into the database, a while after it, as it is once it has ended so.
func (o *operator) retriedTo(source uuid.UUID, laterMS int64, status string) uuid.UUID {
	o.t.Helper()
	id := uuid.New()
	pgtest.Force(o.t, o.Super(o.t), `INSERT INTO ql3.runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', $2::text, 'retry_of_run_id', r.id, 'idempotency_key', 'ql3:run-manual-retry:v1:' || $2,
		'trigger_type', 'run_manual_retry', 'execution_origin', 'manual', 'triggered_by', $2, 'step_up_proof_id', $2, 'trigger_id', NULL, 'trigger_revision', NULL, 'trigger_content_digest', NULL,
		'scheduled_for_ms', NULL, 'status', $4::text, 'error_code', NULL, 'error_summary', NULL, 'created_at_ms', r.created_at_ms + $3::bigint,
		'queued_at_ms', r.finished_at_ms + $3, 'started_at_ms', r.finished_at_ms + $3, 'finished_at_ms', r.finished_at_ms + $3))).* FROM ql3.runs r WHERE r.id = $1`, source, id.String(), laterMS, status)
	return id
}

// What was retried says what stands for it now, is no part of what waits for a retry, and is not selected beside its retry.
func TestRetriedFailures(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	first := o.retriedTo(o.failed, 10, "failed")
	second := o.retriedTo(o.failed, 20, "failed")
	page := o.get("/runs?project=ops&select=failed")
	has(t, "the list", page, `title="Retried since; the newest Run of its family is `+second.String(), "select the 1 not retried yet", `href="/runs?project=ops&amp;retried=no"`)
	if n := strings.Count(page.body, `class="sub answer" href="/runs/`+second.String()); n != 2 {
		t.Errorf("%d Runs lead to the newest of their family, want the 2 others", n)
	}
	if got := boxesTicked(page); len(got) != 1 || got[0] != second.String() {
		t.Errorf("%v are ticked, want the newest Run alone", got)
	}
	waiting := o.get("/runs?retried=no")
	if got := rows(waiting.body); len(got) != 1 || got[0] != second.String() {
		t.Errorf("%v wait for a retry, want the newest Run of the family", got)
	}
	ask := o.get("/batches/new?action=retry&project=ops")
	has(t, "the selection of all failures", ask, second.String())
	hasNot(t, "the selection of all failures", ask, first.String(), o.failed.String())

	o.retriedTo(first, 30, "succeeded")
	has(t, "when the family's newest succeeded", o.get("/runs?retried=no"), "No failure waits for a retry.")
	has(t, "and then a selection", o.get("/batches/new?action=retry&project=ops"), "There is none:")
	if csv := readCSV(t, o.get("/runs.csv?retried=no")); len(csv) != 1 {
		t.Errorf("the CSV of what waits has %d Runs, want none", len(csv)-1)
	}
	o.get("/runs?retried=maybe").says(t, http.StatusBadRequest, "there are: no")
}

// boxesTicked are the Runs whose boxes are ticked.
func boxesTicked(page answered) (ids []string) {
	for _, part := range strings.Split(page.body, `name="run" value="`)[1:] {
		if box, _, _ := strings.Cut(part, ">"); strings.Contains(box, " checked") {
			ids = append(ids, box[:36])
		}
	}
	return ids
}

// The view by Task is of failures alone, in every medium, and says so of a filter that asks for others alone.
func TestIncidentIsOfFailuresAlone(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	o.retriedTo(o.failed, 10, "succeeded")
	has(t, "the view beside other statuses", o.get("/runs?group=task&status=succeeded,failed"), "1 failure", "of 1 Task.")
	table := readCSV(t, o.get("/runs.csv?group=task"))
	if len(table) != 2 || table[0][3] != "failed" || table[1][1] != "report" || table[1][3] != "1" || table[1][6] != "1" {
		t.Errorf("the CSV of the view is %v, want one row of the Task", table)
	}
	for _, target := range []string{"/runs?group=task&status=succeeded", "/runs.csv?group=task&status=succeeded", "/runs.json?group=task&status=succeeded", "/runs?retried=no&status=queued"} {
		o.get(target).says(t, http.StatusBadRequest, "is of failures alone")
	}
	has(t, "the list of others", o.get("/runs?status=succeeded"), `href="/runs?group=task"`, `href="/runs?retried=no"`, `href="/runs.csv?bom=1&amp;status=succeeded"`)
	page := o.get("/runs?group=task")
	has(t, "the view", page, `href="/runs.csv?bom=1&amp;group=task"`)
	hasNot(t, "the view", page, "status=succeeded", "status=queued")
}

// A Run says that its Trigger is held back, and so does what a search finds.
func TestPausedTriggersAreMarked(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	hasNot(t, "the list before", o.get("/runs"), "</svg> paused</span>")
	pgtest.Force(t, o.Super(t), `UPDATE ql3.trigger_schedules SET pause_id = gen_random_uuid(), enabled = false WHERE trigger_id = 'nightly'`)
	for _, target := range []string{"/runs", "/search?q=nightly", "/search?q=" + o.failed.String()} {
		has(t, target, o.get(target), "</svg> paused</span>")
	}
}
