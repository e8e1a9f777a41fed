package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

var retryMade = regexp.MustCompile(`^(/runs/[0-9a-f-]{36})\?retry=made$`)

// retriesRun makes a retry of the Run at page and returns the page of the new Run, which has failed too.
func (o *operator) retriesRun(page string) string {
	o.t.Helper()
	id := uuid.MustParse(strings.TrimPrefix(page, "/runs/"))
	o.proves(policy.RetryRun, id)
	res := o.post(page+"/retry", o.form(id))
	m := retryMade.FindStringSubmatch(res.Header.Get("Location"))
	if m == nil {
		o.t.Fatalf("POST %s/retry = %d to %q:\n%s", page, res.StatusCode, res.Header.Get("Location"), res.body)
	}
	runtest.Execute(o.t, o.Database, run.Outcome{Status: run.Failed, ExitCode: new(1)})
	return m[1]
}

// A retry is of no Trigger itself; where its family comes from is said all the same.
func TestRetrySaysWhichOccurrenceItComesFrom(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	source := "/runs/" + o.failed.String()
	instant := instant(o.nowMS-9, o.nowMS).Machine
	first := o.retriesRun(source)
	o.get(first).says(t, http.StatusOK, "Its occurrence</dt><dd><time datetime=\""+instant+"\"", "Europe/Berlin", `Its Trigger</dt><dd><a href="/schedules/ops/nightly">nightly</a>`)
	if body := o.get(first).body; strings.Contains(body, "First Run</dt>") {
		t.Error("a retry names its source twice")
	}
	second := o.retriesRun(first)
	o.get(second).says(t, http.StatusOK, `First Run</dt><dd><a href="`+source+`"`, "Its occurrence</dt><dd><time datetime=\""+instant+"\"", `href="/schedules/ops/nightly"`)
	if body := o.get(source).body; strings.Contains(body, "Its occurrence</dt>") {
		t.Error("a Run of an occurrence speaks of it as another's")
	}
	if body := get(t, o.handler(), second+".json").body; !strings.Contains(body, `"triggerId": "nightly"`) || !strings.Contains(body, `"timezone": "Europe/Berlin"`) {
		t.Errorf("the JSON of a retry does not name the Trigger of its family:\n%s", body)
	}
}

// Whoever looks at a Run of a Trigger that is held back is told, on the pages of its retries too.
func TestRunSaysThatItsTriggerIsPaused(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	source := "/runs/" + o.failed.String()
	retry := o.retriesRun(source)
	const pause, resume = "/schedules/ops/nightly/pause", "/schedules/ops/nightly/resume"
	o.post(pause, o.holds("reason", "INC-7 <b>down</b>, see https://wiki.example/7")).says(t, http.StatusSeeOther)
	for _, page := range []string{source, retry} {
		o.get(page).says(t, http.StatusOK, "Its Trigger is paused:</b>", `href="/schedules/ops/nightly"`, "Name of operator", "INC-7 &lt;b&gt;down&lt;/b&gt;", `href="https://wiki.example/7"`)
	}
	o.post(resume, o.holds("catchup", "now")).says(t, http.StatusSeeOther)
	for _, page := range []string{source, retry} {
		if strings.Contains(o.get(page).body, "Its Trigger is paused") {
			t.Errorf("%s says that the Trigger is paused, and it goes on", page)
		}
	}
}

// Whether it is safe to run a Task again is said before the button, also to who may not press it, and not where it is no
// question. It and the button are one live part: they come together, or wait together. The rest of the Task's content stays hidden.
func TestRunSaysWhatTheAuthorSaysOfRunningItAgain(t *testing.T) {
	w := newWorld(t)
	page := "/runs/" + w.failed.String()
	body := get(t, w.handler(t, ""), page).body
	part, note, deeds := strings.Index(body, `data-part="deeds"`), strings.Index(body, "sends mail to everybody"), strings.Index(body, `class="deeds"`)
	if note < part || deeds < note || !strings.Contains(body, "not safe, says the Task’s author.") {
		t.Errorf("the page does not say before what may be done what the author says of it:\n%s", body)
	}
	if json := get(t, w.handler(t, ""), page+".json").body; !strings.Contains(json, `"retrySafe": "no"`) || !strings.Contains(json, `"retryNote": "sends mail to everybody"`) {
		t.Error("the JSON does not say it")
	}
	queued := runtest.Admit(t, w.Database, "ops", "nightly", w.nowMS+1, w.nowMS+1)
	has(t, "a Run that may yet fail", get(t, w.handler(t, ""), "/runs/"+queued.String()), "sends mail to everybody")
	if author := authorOf(run.Detail{Summary: run.Summary{Status: run.Succeeded}, RetryNote: new("sends mail")}); author.Note != "" {
		t.Errorf("of a Run that succeeded its page says %+v", author)
	}
	if elsewhere := get(t, elsewhere(t, w.Database), page); strings.Contains(elsewhere.body, "sends mail") {
		t.Error("who may not see the Run reads it")
	}
}
