package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
)

var holdField = regexp.MustCompile(`name="mutation" value="([^"]+)"`)

// holds is the form of the Schedule's page that pauses it, or lets it go on.
func (o *operator) holds(values ...string) url.Values {
	o.t.Helper()
	m := holdField.FindStringSubmatch(o.get("/schedules/ops/nightly").body)
	if m == nil {
		o.t.Fatal("the Schedule's page offers neither to pause nor to resume")
	}
	f := url.Values{"mutation": {m[1]}}
	for i := 0; i+1 < len(values); i += 2 {
		f.Set(values[i], values[i+1])
	}
	return f
}

func TestPauseAndResume(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	const page, pause, resume = "/schedules/ops/nightly", "/schedules/ops/nightly/pause", "/schedules/ops/nightly/resume"
	o.post(pause, o.holds("reason", " ")).says(t, http.StatusBadRequest, "A reason is missing", "The Trigger was not paused.", `action="`+pause+`"`, "<details class=\"holding\" open", "Last Runs")
	form := o.holds("reason", "INC-7 <b>down</b>")
	for range 2 { // the same form again changes nothing
		if res := o.post(pause, form); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != page {
			t.Fatalf("POST %s = %d to %s:\n%s", pause, res.StatusCode, res.Header.Get("Location"), res.body)
		}
	}
	for _, target := range []string{page, "/schedules", "/"} {
		o.get(target).says(t, http.StatusOK, "Name of operator", "INC-7 &lt;b&gt;down&lt;/b&gt;", "paused")
	}
	o.get(page).says(t, http.StatusOK, "From now on.", "Nothing was missed.", "Held back while paused.", `<details class="holding"><summary`)
	o.exec(`UPDATE ql3.trigger_schedules SET next_fire_at_ms = next_fire_at_ms - 3 * 86400000, base_at_ms = base_at_ms - 4 * 86400000::bigint WHERE trigger_id = 'nightly'`)
	o.get(page).says(t, http.StatusOK, "Once for what was missed.", "What was missed is passed over")
	stale := o.holds("catchup", "once")
	o.post(resume, o.holds()).says(t, http.StatusBadRequest, "Say from where it goes on", "Last Runs", `<details class="holding" open`)
	o.post(resume, o.holds("catchup", "once")).says(t, http.StatusSeeOther)
	o.get(page).says(t, http.StatusOK, "Earlier pauses", "resumed with one Run for what was missed", "Pause…")
	o.post(resume, stale).says(t, http.StatusSeeOther) // it has ended, as was wanted
	o.post(pause, o.holds("reason", "again")).says(t, http.StatusSeeOther)
	o.post(resume, stale).says(t, http.StatusConflict, "Another pause holds the Trigger", "The Trigger was not resumed.")
	o.post(resume, url.Values{"mutation": {uuid.NewString()}, "catchup": {"now"}}).says(t, http.StatusConflict, "not one of this Trigger")
}

func TestAuditNamesThePausedTrigger(t *testing.T) {
	o := newOperator(t, policy.Owner, "ops")
	o.post("/schedules/ops/nightly/pause", o.holds("reason", "INC-7")).says(t, http.StatusSeeOther)
	o.get("/audit?action=trigger.pause").says(t, http.StatusOK, `<td data-label="To what"><span><a href="/schedules/ops/nightly">nightly</a>`,
		`<option value="trigger.pause" selected>`, `<option value="trigger.resume">`)
}

func TestPausingTakesTheRole(t *testing.T) {
	o := newOperator(t, policy.Viewer, "ops")
	form := url.Values{"mutation": {uuid.NewString()}, "reason": {"x"}}
	if res := o.get("/schedules/ops/nightly"); strings.Contains(res.body, "/pause") {
		t.Error("a viewer is offered to pause")
	}
	o.post("/schedules/ops/nightly/pause", form).says(t, http.StatusForbidden, "Pausing and resuming take the role owner, admin or operator")
	a, b := o.post("/schedules/growth/daily/pause", form), o.post("/schedules/growth/none/pause", form)
	if a.StatusCode != http.StatusNotFound || said(a) != said(b) {
		t.Errorf("POST of another Project's Trigger = %d, want 404 like a missing one", a.StatusCode)
	}
}
