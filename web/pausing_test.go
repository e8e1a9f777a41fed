package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
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
	o.get(page).says(t, http.StatusOK, "From now on.", "Nothing was missed.", "Held back while paused: this is when it would fall due.", `<details class="holding"><summary`)
	o.exec(`UPDATE ql3.trigger_schedules SET next_fire_at_ms = next_fire_at_ms - 86400000, base_at_ms = base_at_ms - 86400000 WHERE trigger_id = 'nightly'`)
	o.get(page).says(t, http.StatusOK, "The one that was missed, of ", "One Run, at once, for the one that was missed, of ")
	o.exec(`UPDATE ql3.trigger_schedules SET next_fire_at_ms = next_fire_at_ms - 2 * 86400000, base_at_ms = base_at_ms - 3 * 86400000::bigint WHERE trigger_id = 'nightly'`)
	o.get(page).says(t, http.StatusOK, "Once for what was missed.", "What was missed is passed over")
	stale := o.holds("catchup", "once")
	o.post(resume, o.holds()).says(t, http.StatusBadRequest, "Say from where it goes on", "Last Runs", `<details class="holding" open`)
	if res := o.post(resume, o.holds("catchup", "once")); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != page+"?resume=made" {
		t.Fatalf("POST %s = %d to %s:\n%s", resume, res.StatusCode, res.Header.Get("Location"), res.body)
	}
	o.get(page+"?resume=made").says(t, http.StatusOK, "You resumed this Trigger. One Run is made at once, for the last instant that was missed; it stands for all of them.")
	o.saysNothingOf(page, "You resumed")
	o.get(page).says(t, http.StatusOK, "Earlier pauses", "resumed with one Run for what was missed", "Pause…")
	o.post(resume, stale).says(t, http.StatusSeeOther) // it has ended, as was wanted
	o.post(pause, o.holds("reason", "again")).says(t, http.StatusSeeOther)
	o.saysNothingOf(page+"?resume=made", "You resumed")
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

// saysNothingOf fails if the page says what it must not.
func (o *operator) saysNothingOf(target string, what ...string) {
	o.t.Helper()
	body := o.get(target).body
	for _, w := range what {
		if strings.Contains(body, w) {
			o.t.Errorf("GET %s says %q", target, w)
		}
	}
}

// Whoever opens the link of somebody else's resumption did not resume it.
func TestResumptionIsItsSubmittersOwn(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	o.post("/schedules/ops/nightly/pause", o.holds("reason", "INC-7")).says(t, http.StatusSeeOther)
	o.post("/schedules/ops/nightly/resume", o.holds("catchup", "now")).says(t, http.StatusSeeOther)
	const page = "/schedules/ops/nightly?resume=made"
	o.get(page).says(t, http.StatusOK, "You resumed this Trigger from then on.")
	if body := get(t, o.world.handler(t, ""), page).body; strings.Contains(body, "You resumed") || !strings.Contains(body, "Earlier pauses") {
		t.Errorf("somebody else is told that they resumed it:\n%s", body)
	}
}

// The one Run that catching up makes says what it stands for, and no other does.
func TestAccountSaysWhatACatchUpStandsFor(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	pgtest.Force(t, o.Super(t), `UPDATE ql3.trigger_revisions SET created_at_ms = created_at_ms - 5 * 86400000::bigint`)
	o.post("/schedules/ops/nightly/pause", o.holds("reason", "INC-7")).says(t, http.StatusSeeOther)
	o.exec(`UPDATE ql3.trigger_schedules SET next_fire_at_ms = NULL, base_at_ms = base_at_ms - 4 * 86400000::bigint WHERE trigger_id = 'nightly'`)
	o.post("/schedules/ops/nightly/resume", o.holds("catchup", "once")).says(t, http.StatusSeeOther)
	due := pgtest.Value[int64](t, o.db, `SELECT next_fire_at_ms FROM ql3.trigger_schedules WHERE trigger_id = 'nightly'`)
	runtest.Admit(t, o.Database, "ops", "nightly", due, runtest.Clock(t, o.db)+1)
	runtest.Admit(t, o.Database, "ops", "nightly", due-4*86_400_000, due-4*86_400_000)
	body := o.get("/schedules/ops/nightly?account=week").body
	const words = "the last of those that a pause had held back, and it stands for all of them."
	row, _, _ := strings.Cut(body[strings.Index(body, `id="`+instantAnchor(due)+`"`):], "</tr>")
	if n := strings.Count(body, "<span>Became a Run, "); !strings.Contains(row, words) || strings.Count(body, "<span>"+words) > 1 || n != 2 {
		t.Errorf("of %d Runs, the row of the one that caught up is:\n%s", n, row)
	}
	if csv := get(t, o.handler(), "/schedules/ops/nightly/account.csv?account=week").body; !strings.Contains(csv, strings.TrimSuffix(rfc3339(due), "Z")) || strings.Count(csv, ",true\r\n")+strings.Count(csv, ",true\n") != 1 {
		t.Errorf("the CSV marks not that one alone:\n%s", csv)
	}
	if json := get(t, o.handler(), "/schedules/ops/nightly/account.json?account=week").body; strings.Count(json, `"catchUp": true`) != 1 {
		t.Errorf("the JSON marks not that one alone:\n%s", json)
	}
}

// Nobody waits for what does not come: the instants of a Trigger that is held back are not counted down to.
func TestPausedScheduleCountsDownToNothing(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	const page = "/schedules/ops/nightly"
	next := func() string {
		_, after, _ := strings.Cut(o.get(page).body, `<div data-part="next">`)
		section, _, _ := strings.Cut(after, "</section>")
		return section
	}
	if !strings.Contains(next(), `class="rel"`) {
		t.Fatalf("a Schedule that goes on counts down to nothing either:\n%s", next())
	}
	o.post(page+"/pause", o.holds("reason", "INC-7")).says(t, http.StatusSeeOther)
	if section := next(); strings.Contains(section, `class="rel"`) || !strings.Contains(section, "02:30:00") {
		t.Errorf("a paused Schedule counts down, or does not say when it would fall due:\n%s", section)
	}
}

func TestAccountOfAJustPublishedTrigger(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	plan := instant(pgtest.Value[int64](t, o.db, `SELECT created_at_ms FROM ql3.trigger_revisions WHERE trigger_id = 'nightly'`), 0).Text
	o.get("/schedules/ops/nightly?account=hour").says(t, http.StatusOK, "No instant was expected in this range.", "Revision 1 of the Trigger was published at "+plan+", and its first instant is ")
	o.saysNothingOf("/schedules/ops/nightly?account=hour", "Choose a longer range")
}
