package web

import (
	"net/http"
	"testing"

	"github.com/qinglong/console/internal/policy"
)

// Nothing that somebody typed into a filter is lost to a mistake in one field of it.
func TestWrongFilterKeepsItsForm(t *testing.T) {
	o := newOperator(t, policy.Admin, "ops")
	page := o.get("/runs?since=nonsense&q=night&task=report&status=failed&origin=retry&project=ops")
	page.says(t, http.StatusBadRequest, `value="nonsense"`, `aria-invalid="true"`, "is no time. Write one like 23:30", "Nothing was looked up.", `name="q" value="night"`, `name="task" value="report"`,
		`name="status" value="failed"`, `value="retry" selected`, `value="ops" selected`)
	hasNot(t, "the page", page, "data-row=", `class="chips"`, "live.js")
	o.get("/runs?status=nope&task=report").says(t, http.StatusBadRequest, "There is no status", `name="task" value="report"`)
	o.get("/audit?since=25:00&run=1234&action=run.retry").says(t, http.StatusBadRequest, `value="25:00"`, `name="run" value="1234"`, `value="run.retry" selected`)
	o.get("/audit?run=1234").says(t, http.StatusBadRequest, "is not an id", `name="run" value="1234"`)
	hasNot(t, "who named no zone", page, "in the zone")
	o.get("/runs?since=nonsense&zone=Asia/Shanghai").says(t, http.StatusBadRequest, "here in the zone Asia/Shanghai")
	o.get("/runs?since=23:30&zone=Mars/Olympus").says(t, http.StatusBadRequest, "There is no time zone")
	if res := get(t, o.handler(), "/runs.json?since=nonsense"); res.StatusCode != http.StatusBadRequest || res.Header.Get("Content-Type") != problemType {
		t.Errorf("as JSON it is %d of %s, want problem details", res.StatusCode, res.Header.Get("Content-Type"))
	}
	has(t, "what a day means", o.get("/runs?since=2026-11-29&zone=Asia/Shanghai"), `datetime="2026-11-28T16:00:00.000Z"`, `name="zone" value="Asia/Shanghai"`)
	has(t, "a list from an instant on", o.get("/runs.json?until=2001-01-01"), `"runs": []`)
	if csv := readCSV(t, o.get("/runs.csv?since=yesterday&zone=Asia/Shanghai")); len(csv) != 2 {
		t.Errorf("the CSV since yesterday has %d Runs, want 1", len(csv)-1)
	}
}
