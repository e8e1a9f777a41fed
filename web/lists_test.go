package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

var rowKeys = regexp.MustCompile(`data-row="([^"]*)"`)

// rows are the keys of a list's rows, in order.
func rows(body string) []string {
	var keys []string
	for _, m := range rowKeys.FindAllStringSubmatch(body, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

// follow asks for what the link with these words leads to.
func follow(t *testing.T, h http.Handler, page answered, words string) answered {
	t.Helper()
	m := regexp.MustCompile(`href="([^"]*)"[^>]*>` + regexp.QuoteMeta(words) + `</a>`).FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("the page has no link %q", words)
	}
	return get(t, h, strings.ReplaceAll(m[1], "&amp;", "&"))
}

func has(t *testing.T, what string, page answered, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(page.body, want) {
			t.Errorf("%s = %d, which does not say %q", what, page.StatusCode, want)
		}
	}
}

func hasNot(t *testing.T, what string, page answered, texts ...string) {
	t.Helper()
	for _, unwanted := range texts {
		if strings.Contains(page.body, unwanted) {
			t.Errorf("%s = %d, which says %q", what, page.StatusCode, unwanted)
		}
	}
}

// elsewhere is the console as somebody sees it who may read in growth alone.
func elsewhere(t *testing.T, d *pgtest.Database) http.Handler {
	t.Helper()
	c := config(t, d, "")
	p := signIn(t, c, "somebody else")
	grant(t, d, p, policy.Viewer, "growth")
	return p.as(New(c))
}

func TestRunsList(t *testing.T) {
	w := newWorld(t)
	const more = pageSize + 10
	for i := range int64(more) {
		runtest.Admit(t, w.Database, "growth", "daily", w.nowMS+i, w.nowMS+i)
	}
	h := w.handler(t, "/x")

	t.Run("counts by status are choices", func(t *testing.T) {
		page := get(t, h, "/x/runs?q=daily&view=embed&after=1_"+uuid.NewString())
		has(t, "its chips", page, `href="/x/runs?q=daily&amp;status=queued&amp;view=embed"`, `href="/x/runs?q=daily&amp;view=embed" target="_self" class="" aria-current="true"`)
		page = get(t, h, "/x/runs?status=queued")
		has(t, "with one chosen", page, `href="/x/runs" target="_self" class="" aria-current="true"`, `href="/x/runs?status=queued%2Cfailed"`, fmt.Sprintf("<b>%d</b>", more), `name="status" value="queued"`)
		if n := len(rows(page.body)); n != pageSize {
			t.Errorf("it has %d rows, want %d", n, pageSize)
		}
		if both := get(t, h, "/x/runs.json?status=failed,cancelled"); !strings.Contains(both.body, `"n": 60`) || strings.Count(both.body, `"taskName"`) != 1 {
			t.Errorf("of two statuses = %s, want the failed Run and the counts of all", both.body)
		}
	})

	t.Run("pages lead both ways", func(t *testing.T) {
		newest := get(t, h, "/x/runs?project=growth")
		older := follow(t, h, newest, "Older")
		if n := len(rows(older.body)); n != more-pageSize {
			t.Errorf("the older page has %d rows, want %d", n, more-pageSize)
		}
		for _, words := range []string{"Newer", "Newest"} {
			if back := follow(t, h, older, words); strings.Join(rows(back.body), " ") != strings.Join(rows(newest.body), " ") {
				t.Errorf("%s leads to other rows than one came from", words)
			}
		}
		hasNot(t, "the newest page", newest, ">Newer<", ">Newest<")
		var body runsJSON
		if err := json.Unmarshal([]byte(get(t, h, "/x/runs.json?project=growth").body), &body); err != nil || body.Prev != "" || body.Next == "" {
			t.Fatalf("its JSON leads back to %q and on to %q, %v", body.Prev, body.Next, err)
		}
		if err := json.Unmarshal([]byte(get(t, h, body.Next).body), &body); err != nil || body.Prev == "" {
			t.Errorf("the next JSON leads nowhere back, %v", err)
		}
	})

	t.Run("filters", func(t *testing.T) {
		id := w.failed.String()
		for query, want := range map[string]int{"origin=retry": 0, "origin=scheduled&project=ops": 1, "q=" + id[:13]: 1, "q=nightly": 1, "trigger=nightly": 1, "since=-2h&until=-1h": 0, "until=2020-01-01T00:00:00Z": 0} {
			if n := len(rows(get(t, h, "/x/runs?"+query).body)); query != "q="+id[:13] && n != want || n == 0 && want > 0 {
				t.Errorf("GET /runs?%s has %d rows, want %d", query, n, want)
			}
		}
		for _, query := range []string{"status=failed,nope", "origin=nope", "since=someday", "after=1_x", "before=x", "after=1_" + id + "&before=1_" + id} {
			if res := get(t, h, "/x/runs?"+query); res.StatusCode != http.StatusBadRequest {
				t.Errorf("GET /runs?%s = %d, want 400", query, res.StatusCode)
			}
		}
		if csv := get(t, h, "/x/runs.csv?status=failed"); strings.Count(csv.body, "\r\n") != 2 || !strings.Contains(csv.body, id) {
			t.Errorf("the CSV of failed Runs = %s", csv.body)
		}
	})

	t.Run("of another Project", func(t *testing.T) {
		others := elsewhere(t, w.Database)
		for _, target := range []string{"/runs", "/runs.json", "/runs.csv", "/runs?q=nightly", "/runs?q=" + w.failed.String()[:8], "/runs?project=ops", "/runs?status=failed"} {
			hasNot(t, target, get(t, others, target), w.failed.String(), `"failed": {`, "report")
		}
	})

	t.Run("a Run that has not ended says for how long", func(t *testing.T) {
		pgtest.Force(t, w.Super(t), `UPDATE ql3.runs SET status = 'running', started_at_ms = created_at_ms, finished_at_ms = NULL, error_code = NULL, error_summary = NULL WHERE id = $1`, w.failed)
		has(t, "its row", get(t, h, "/x/runs?status=running"), `data-as="%s so far">`, " so far</span>")
	})
}

func TestSchedulesList(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	mei := signIn(t, c, "mei")
	super := w.Super(t)
	pgtest.Force(t, super, `INSERT INTO ql3.trigger_pauses (id, project_id, trigger_id, reason, paused_by, paused_at_ms) VALUES ($1, 'ops', 'nightly', $2, $3, $4)`,
		mei.id, "the vendor "+hostile, mei.id, w.nowMS-7_200_000)
	pgtest.Force(t, super, `UPDATE ql3.trigger_schedules SET pause_id = $1, enabled = false WHERE trigger_id = 'nightly'`, mei.id)
	pgtest.Force(t, super, `UPDATE ql3.trigger_schedules SET next_fire_at_ms = 4070913300000 WHERE trigger_id = 'daily'`)
	h := w.handler(t, "")
	page := get(t, h, "/schedules?state=paused")
	has(t, "the paused Schedule", page, `data-row="ops/nightly"`, "by Name of mei: the vendor &lt;script&gt;", `data-as="for %s">for 2 h</span>`, `<span class="soft">paused</span>`, `href="/schedules" target="_self" class="" aria-current="true"`, `href="/schedules?state=disabled"`)
	has(t, "one that waits", get(t, h, "/schedules?state=never_run"), `datetime="2099-01-01T01:15:00.000Z"`, "Thu 09:15 CST ·", `title="2099-01-01 Thu 09:15:00 CST"`)
	if n := len(rows(page.body)); n != 1 {
		t.Errorf("there are %d paused Schedules, want 1", n)
	}
	if csv := get(t, h, "/schedules.csv?state=paused"); !strings.Contains(csv.body, "Name of mei") {
		t.Errorf("the CSV of paused Schedules = %s", csv.body)
	}
	has(t, "its JSON", get(t, h, "/schedules.json?state=waiting"), `"counts"`, `"paused": {`)
	hasNot(t, "the counts of another Project's viewer", get(t, elsewhere(t, w.Database), "/schedules.json"), `"paused": {`)
}

func TestClaimsPage(t *testing.T) {
	w := newWorld(t)
	now := w.nowMS
	pgtest.Force(t, w.Super(t), `UPDATE ql3.trigger_schedules SET next_fire_at_ms = $1::bigint, claim_owner = $2, claim_token = gen_random_uuid(), claim_version = 7,
		updated_at_ms = $1::bigint, claim_expires_at_ms = $1::bigint + 3600000 WHERE trigger_id = 'nightly'`, now-1000, "host/1/abc")
	pgtest.Force(t, w.Super(t), `INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, claim_owner, claim_version, reason, created_at_ms)
		VALUES ('ops', 'nightly', 1, 'taken_over', $1, $1, 1, 'host/2/def', 6, $2, $1), ('ops', 'nightly', 1, 'raced', $3, $3, 1, 'host/2/def', 5, 'long ago', $3)`,
		now-1000, "it was host/0 "+hostile, now-7_200_000)
	pgtest.Force(t, w.Super(t), `INSERT INTO ql3.replicas VALUES ('host/1/abc', 'v1', 0, $1, 3)`, now)
	page := get(t, w.handler(t, ""), "/claims")
	has(t, "the page", page, `data-row="ops/nightly/7"`, `data-of="3600"`, `width="99.`, "59 min left", "taken over", "it was host/0 &lt;script&gt;", "version 7", "host/1/abc", `data-key="c"`, "1 claim of your Projects")
	hasNot(t, "the page", page, "long ago", "<script>alert")
	has(t, "the CSV", get(t, w.handler(t, ""), "/claims.csv"), "project,trigger,owner", "ops,nightly,host/1/abc")
	others := elsewhere(t, w.Database)
	for _, target := range []string{"/claims", "/claims.json", "/claims.csv"} {
		hasNot(t, target+" of another Project's viewer", get(t, others, target), "nightly", "host/2")
	}
}

func TestSearchPage(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "/x")
	id := w.failed.String()
	tests := []struct {
		query string
		says  []string
	}{
		{"", []string{"Nothing is looked for yet.", "autofocus"}},
		{"?q=+n+", []string{"That is too short to look for.", "at least two characters"}},
		{"?q=zzz", []string{"Nothing matches in the Projects you may see.", "It does not look into errors", `href="/x/runs?group=task"`}},
		{"?q=night", []string{`<h2 id="triggers">`, `href="/x/schedules/ops/nightly"`, `href="/x/runs?project=ops&amp;trigger=nightly"`, `href="/x/runs?q=night"`, `href="/x/search.json?q=night"`}},
		{"?q=REPORT", []string{`<h2 id="tasks">`, "report in ops", `href="/x/runs?project=ops&amp;task=report"`}},
		{"?q=growth", []string{`<h2 id="projects">`, `href="/x/schedules?project=growth"`}},
		{"?q=" + id, []string{`<h2 id="runs">`, `href="/x/runs/` + id, "failed"}},
		{"?q=" + strings.Repeat("n", 100), []string{"Nothing matches"}},
	}
	for _, tt := range tests {
		has(t, "GET /search"+tt.query, get(t, h, "/x/search"+tt.query), tt.says...)
		if res := get(t, h, "/x/search.json"+tt.query); res.StatusCode != http.StatusOK || !json.Valid([]byte(res.body)) || strings.Contains(res.body, ": null,\n  \"") {
			t.Errorf("GET /search%s as JSON = %d %s", tt.query, res.StatusCode, res.body)
		}
	}
	others := elsewhere(t, w.Database)
	for _, query := range []string{"night", "ops", "report", id, id[:8]} {
		for _, accept := range []string{"text/html", "application/json"} {
			hasNot(t, "search of another Project's viewer", get(t, others, "/search?q="+query, "Accept", accept), "nightly", "bold", `"failed"`, "/runs/"+id)
		}
	}
}

func TestGoRun(t *testing.T) {
	l := newLife(t)
	runtest.Publish(t, l.Database, strings.ReplaceAll(minutely("", ""), "minutely", "fresh"))
	h := reader(t, l.Database, "/x")
	door := "/x/go/run?project=ops&trigger=minutely&at="
	at := func(minute float64) string { return rfc3339(l.ms(minute)) }
	for at, minute := range map[string]float64{at(3): 3, "latest": 10} {
		var id uuid.UUID
		if err := l.Super(t).QueryRow(t.Context(), `SELECT id FROM ql3.runs WHERE scheduled_for_ms = $1`, l.ms(minute)).Scan(&id); err != nil {
			t.Fatal(err)
		}
		if res := get(t, h, door+at); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/x/runs/"+id.String() {
			t.Errorf("at=%s = %d to %q, want 303 to the Run", at, res.StatusCode, res.Header.Get("Location"))
		}
	}
	tests := []struct {
		target string
		status int
		says   []string
	}{
		{door + at(11), 200, []string{"The Trigger was expected to fire, and there is no Run.", "skipped", "too late to run", "No replica was running then", "JST", "#account"}},
		{door + at(3.5), 200, []string{"not expected to fire at that instant"}},
		{strings.Replace(door, "minutely", "fresh", 1) + at(3), 200, []string{"not expected to fire at that instant", "It was published only after that.", "<dt>Published</dt>"}},
		{door + "2099-01-01T00:00:00Z", 200, []string{"still to come"}},
		{door + "2001-01-01T00:00:00Z", 200, []string{"No Run is kept for that instant."}},
		{door + "latest-failed", 200, []string{"No Run of this Trigger has failed."}},
		{door + "yesterday", 400, []string{"which names no Run", "Correct the runbook", "at=03:00"}},
		{door, 400, []string{"does not say which"}},
		{"/x/go/run?project=ops&at=latest", 400, []string{"no Trigger"}},
		{"/x/go/run?project=ops&trigger=renamed&at=latest", 404, []string{"may have been renamed", `href="/x/schedules?q=renamed"`}},
		{"/x/go/run?trigger=minutely&at=latest&nope=1", 400, []string{"no parameter"}},
	}
	for _, tt := range tests {
		res := get(t, h, tt.target)
		if res.StatusCode != tt.status {
			t.Errorf("GET %s = %d, want %d", tt.target, res.StatusCode, tt.status)
		}
		has(t, "GET "+tt.target, res, tt.says...)
	}
	hasNot(t, "who asks for what an earlier revision did not expect", get(t, h, door+at(3.5)), "published only after", "See below")
	if res := get(t, h, door+at(11), "Accept", "application/json"); !strings.Contains(res.body, `"verdict": "skipped"`) {
		t.Errorf("for a client it is %s", res.body)
	}
	runtest.Publish(t, l.Database, strings.ReplaceAll(strings.ReplaceAll(minutely("", ""), "ops", "growth"), "minutely", "other"))
	others := elsewhere(t, l.Database)
	hidden, missing := get(t, others, "/go/run?project=ops&trigger=minutely&at=latest"), get(t, others, "/go/run?project=nope&trigger=minutely&at=latest")
	if hidden.StatusCode != http.StatusNotFound || said(hidden) != said(missing) {
		t.Errorf("the door of another Project = %d, want what one that does not exist gets:\n%s\n%s", hidden.StatusCode, hidden.body, missing.body)
	}
}

// The way to the audit is shown to those who may go it, on every page, and the audit to nobody else.
func TestAuditIsForThoseWhoMayReadIt(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	admin, viewer := signIn(t, c, "admin"), signIn(t, c, "viewer")
	grant(t, w.Database, admin, policy.Admin, "ops")
	grant(t, w.Database, admin, policy.Viewer, "growth")
	grant(t, w.Database, viewer, policy.Viewer, "ops", "growth")
	h := New(c)
	for _, target := range []string{"/", "/runs", "/claims", "/account", "/runs/" + w.failed.String(), "/runs/" + uuid.NewString(), "/runs?status=" + string(run.Failed)} {
		has(t, "the navigation of an admin at "+target, get(t, admin.as(h), target), `href="/audit"`)
		hasNot(t, "the navigation of a viewer at "+target, get(t, viewer.as(h), target), `href="/audit"`)
	}
	if res := get(t, viewer.as(h), "/audit"); res.StatusCode != http.StatusForbidden {
		t.Errorf("GET /audit of a viewer = %d, want 403", res.StatusCode)
	}

	for _, project := range []string{"ops", "growth"} {
		if err := policy.WriteAudit(t.Context(), w.db, policy.AuditEvent{Action: "run.retry", Outcome: policy.Denied, Reason: "forbidden", ProjectID: project, Words: "in " + project,
			Actor: policy.Actor{Type: policy.ByUser, UserID: &viewer.id, Issuer: testIssuer, Subject: viewer.subject, Name: "Name of viewer"}}); err != nil {
			t.Fatal(err)
		}
	}
	page := get(t, admin.as(h), "/audit")
	has(t, "the audit", page, `>Name of viewer</a><span class="sub">is viewer</span>`, `>Name of admin</a><span class="sub">is admin</span>`, "belong to no Project",
		`href="/audit?user=`+viewer.id.String()+`"`, "in ops", "binding.grant", `href="/audit.csv?bom=1"`)
	hasNot(t, "the audit", page, "in growth")
	page = get(t, admin.as(h), "/audit?action=run.retry&user="+viewer.id.String())
	has(t, "the audit of one user", page, "Only what Name of viewer did", `href="/audit?action=run.retry"`, `name="user" value="`+viewer.id.String())
	has(t, "the audit of who was given a role", get(t, admin.as(h), "/audit?action=binding.grant&user="+admin.id.String()), "Only what Name of admin did")
	has(t, "the audit of nobody", get(t, admin.as(h), "/audit?user="+uuid.NewString()), "Nothing is on record here.")
}
