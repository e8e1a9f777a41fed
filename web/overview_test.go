package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

func TestOverviewSaysWhatNeedsAPerson(t *testing.T) {
	l := newLife(t)
	l.exec(t, `INSERT INTO ql3.replicas SELECT id, 'v1', 0, $1, skew FROM (VALUES ('right', 2000), ('wrong', -2001)) r (id, skew)`, runtest.Clock(t, l.db))
	h := reader(t, l.Database, "/x")
	page := get(t, h, "/x/").body
	if strings.Contains(page, "Needs attention") || strings.Contains(page, "need attention") {
		t.Error("the overview speaks of attention although no Run needs any")
	}
	for _, want := range []string{`href="/x/schedules?state=blocked"`, "1 Schedule", "cannot be decided.", "No replica was running", "(7 min)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview does not say %q", want)
		}
	}
	row := func(replica string) string {
		_, after, _ := strings.Cut(page, "<span>"+replica)
		row, _, _ := strings.Cut(after, "</tr>")
		return row
	}
	if strings.Contains(row("right"), "diamond") || strings.Contains(row("right"), " off") || !strings.Contains(row("wrong"), " off") {
		t.Errorf("replicas 2000 ms and 2001 ms off are marked as:\n%s\n%s", row("right"), row("wrong"))
	}

	l.exec(t, `UPDATE ql3.runs SET status = 'lost', error_code = 'lease_lapsed'`)
	page = get(t, h, "/x/").body
	for _, want := range []string{"10 Runs", "need attention.", `href="#attention"`, "Needs attention: nobody moves these Runs", "look at the worker"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview with ten lost Runs does not say %q", want)
		}
	}
	if strings.Contains(page, "And more") {
		t.Error("the overview says there are more than it shows, and there are not")
	}
	runtest.Admit(t, l.Database, "ops", "minutely", l.ms(18), l.ms(18)+5)
	l.exec(t, `UPDATE ql3.runs SET status = 'lost', error_code = 'lease_lapsed'`)
	if page = get(t, h, "/x/").body; !strings.Contains(page, "10+ Runs") || !strings.Contains(page, "And more: these are the 10 that wait longest.") {
		t.Error("the overview does not say that more Runs need attention than it shows")
	}
}

func TestAttentionOfOthersIsNotThere(t *testing.T) {
	l := newLife(t)
	l.exec(t, `UPDATE ql3.runs SET status = 'lost', error_code = 'lease_lapsed'`)
	runtest.Publish(t, l.Database, strings.ReplaceAll(minutely("", ""), "ops", "growth"))
	h := reader(t, l.Database, "", "growth")
	for _, accept := range []string{"text/html", "application/json"} {
		if body := get(t, h, "/", "Accept", accept).body; strings.Contains(body, "minutely") || strings.Contains(body, "need attention") {
			t.Errorf("the overview (%s) of one who may not see them speaks of Runs that need attention", accept)
		}
	}
}

func TestLostRunSaysWhatToDo(t *testing.T) {
	l := newLife(t)
	l.exec(t, `UPDATE ql3.runs SET status = 'lost', error_code = 'lease_lapsed'`)
	l.exec(t, `UPDATE ql3.run_attempts SET worker_id = $1`, hostile)
	id := runtest.Admit(t, l.Database, "ops", "minutely", l.ms(18), l.ms(18)+5)
	h := reader(t, l.Database, "")
	if page := get(t, h, fmt.Sprintf("/runs/%s", id)).body; strings.Contains(page, "Needs attention") {
		t.Error("the page of ordinary work speaks of attention")
	}
	l.exec(t, `UPDATE ql3.runs SET status = 'lost', error_code = 'lease_lapsed'`)
	l.exec(t, `UPDATE ql3.run_attempts SET worker_id = $1`, hostile)
	page := get(t, h, fmt.Sprintf("/runs/%s", id)).body
	for _, want := range []string{"Needs attention:", "Lost is no failure", "Look at its worker, &lt;script&gt;", "It cannot be retried"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a lost Run does not say %q", want)
		}
	}
	if strings.Contains(page, "<script>alert") {
		t.Error("a worker's name comes through as markup")
	}
}

// What failed of late is grouped by Task, says how much of it was answered, and leads to the view of that Task.
func TestOverviewGroupsFailuresByTask(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	row := func() string {
		_, after, _ := strings.Cut(o.get("/").body, `<tr data-row="ops/report"`)
		row, _, _ := strings.Cut(after, "</tr>")
		return row
	}
	has := func(what string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if r := row(); !strings.Contains(r, want) {
				t.Errorf("%s: the row does not have %s:\n%s", what, want, r)
			}
		}
	}
	source := "/runs/" + o.failed.String()
	has("one failure", "1 failure</b>", `href="/runs?group=task&amp;project=ops&amp;task=report"`, "&lt;script&gt;alert(1)", `href="`+source+`"`, "not retried", `class="btn" href="`+source+`/retry"`)
	first := o.retriesRun(source)
	has("a retry that failed too", "2 failures</b>", "1 of 2 retried", `href="`+first+`"`, `class="btn" href="`+first+`/retry"`)
	runtest.Admit(t, o.Database, "ops", "nightly", o.nowMS+1, o.nowMS+1)
	runtest.Execute(t, o.Database, run.Outcome{Status: run.Failed, ExitCode: new(1)})
	has("two that nobody answered", "3 failures</b>", "1 of 3 retried", `href="/batches/new?action=retry&amp;project=ops&amp;since=`)
	for _, body := range []string{get(t, elsewhere(t, o.Database), "/").body, get(t, elsewhere(t, o.Database), "/", "Accept", "application/json").body} {
		if strings.Contains(body, "report") {
			t.Errorf("who may not see the Task is told of its failures:\n%s", body)
		}
	}
	if body := get(t, o.handler(), "/", "Accept", "application/json").body; !strings.Contains(body, `"failuresByTask"`) || !strings.Contains(body, `"retried": 1`) {
		t.Errorf("the JSON does not count what was retried:\n%s", body)
	}
}
