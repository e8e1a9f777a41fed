package web

import (
	"crypto/sha256"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/migrations"
)

// outage is n Runs of ops that have failed: the world's own, and copies of it that came a millisecond after one another.
func (w world) outage(t *testing.T, n int) []uuid.UUID {
	t.Helper()
	db := w.Super(t)
	const later = `'created_at_ms', created_at_ms + n, 'started_at_ms', started_at_ms + n, 'finished_at_ms', finished_at_ms + n`
	pgtest.Exec(t, db, `CREATE TABLE public.copies AS SELECT n, CASE n WHEN 0 THEN $1::uuid ELSE gen_random_uuid() END AS id FROM generate_series(0, $2::int - 1) n`, w.failed, n)
	pgtest.Exec(t, db, `INSERT INTO ql3.runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', c.id, 'queued_at_ms', queued_at_ms + n, `+later+`,
		'scheduled_for_ms', scheduled_for_ms + n, 'idempotency_key', 'ql3:cron:v1:nightly:' || trigger_revision || ':' || scheduled_for_ms + n))).*
		FROM ql3.runs r, public.copies c WHERE r.id = $1 AND n > 0`, w.failed)
	pgtest.Exec(t, db, `INSERT INTO ql3.run_attempts SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'run_id', c.id, `+later+`))).*
		FROM ql3.run_attempts a, public.copies c WHERE a.run_id = $1 AND n > 0`, w.failed)
	return pgtest.Value[[]uuid.UUID](t, db, `SELECT array_agg(id ORDER BY n) FROM public.copies`)
}

var ticked = regexp.MustCompile(`name="(run|unsafe)" value="([^"]+)"( checked)?`)

// boxes are the boxes of a page that are ticked, as its form would send them.
func boxes(page string) url.Values {
	f := url.Values{}
	for _, m := range ticked.FindAllStringSubmatch(page, -1) {
		if m[3] != "" {
			f.Add(m[1], html.UnescapeString(m[2]))
		}
	}
	return f
}

// freezes makes a batch of the operator's and gives the browser a fresh proof for it. It returns its submission's address and
// the form that the preview offers.
func (o *operator) freezes(action policy.Permission, ids ...uuid.UUID) (path string, form url.Values) {
	o.t.Helper()
	who := runmgmt.Who{SessionID: o.session, Actor: policy.Actor{Type: policy.ByUser, UserID: &o.person.id, Issuer: testIssuer, Subject: "operator", Name: "operator", SessionID: &o.session}}
	b, err := o.config.Runs.Freeze(o.t.Context(), runmgmt.Selection{Who: who, Action: action, ProjectID: "ops", Runs: ids, Words: "after the outage"})
	if err != nil {
		o.t.Fatalf("Freeze: %v", err)
	}
	o.provesBatch(b)
	path = "/batches/" + b.ID.String() + "/submit"
	form = boxes(o.get(path).body)
	form.Set("sure", "yes")
	return path, form
}

func (o *operator) provesBatch(b runmgmt.Batch) {
	o.t.Helper()
	secret := "some-secret"
	sum := sha256.Sum256([]byte(secret))
	p := policy.Proof{ID: uuid.New(), TransactionID: uuid.New(), SessionID: o.session, UserID: o.person.id, Words: b.Words, CookieHash: sum[:], Purpose: b.Purpose(),
		Assurance: policy.Assurance{Level: "multi_factor", Issuer: testIssuer, Subject: "operator", ClientID: "console", ACR: "gold", AMR: []string{"mfa"},
			AuthTimeS: runtest.Clock(o.t, o.db) / 1000, SecondFactor: "always"}}
	if err := policy.InsertProof(o.t.Context(), o.Pool(o.t, migrations.RoleAuthn), &p); err != nil {
		o.t.Fatal(err)
	}
	name := o.config.Identity.Cookies.Name("proof_" + strings.TrimPrefix(string(b.Action), "run.") + "_" + b.ID.String()[24:])
	o.cookies = []*http.Cookie{{Name: name, Value: p.ID.String() + "." + secret}}
}

func (r answered) says(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("the answer is %d, want %d:\n%s", r.StatusCode, status, r.body)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("the answer does not say %q:\n%s", text, r.body)
		}
	}
}

// From the list of Runs, signed out, to a batch of forty, with one step-up.
func TestWalkToABatch(t *testing.T) {
	v := newTown(t, "/x")
	ids := v.outage(t, 40)
	b := v.browser(t)
	b.open("/x/runs?project=ops&status=failed").signIn("operator")
	grant(t, v.Database, v.account(t, "operator"), policy.Operator, "ops")
	b.open("/x/runs?project=ops&status=failed&select=failed").shows(http.StatusOK, "select the 40 not retried yet", "Retry all of this filter…")
	chosen := boxes(b.page)
	if len(chosen["run"]) != 40 {
		t.Fatalf("%d Runs are ticked, want 40", len(chosen["run"]))
	}
	chosen.Set("action", "retry")
	b.send(http.MethodPost, v.origin+"/x/batches/new", chosen).shows(http.StatusOK, "Retry 40 Runs", "Every retry runs the same command again", "sends mail to everybody")
	ask := boxes(b.page)
	ask.Set("action", "retry")
	b.send(http.MethodPost, v.origin+"/x/batches/freeze", ask).shows(http.StatusBadRequest, "A reason is missing", "Retry 40 Runs")
	ask.Set("reason", "INC-7 <billing> is back")
	b.send(http.MethodPost, v.origin+"/x/batches/freeze", ask).stepUp("operator")
	review := strings.TrimPrefix(b.at, v.origin)
	b.shows(http.StatusOK, "Verified as", "retrying 40 Runs", "/bin/report --only-in-the-preview", "40 Runs are not safe to run again", "would be executed 40 times", "1 Task is in the set more than once", "64 of 64", "INC-7 &lt;billing&gt; is back")
	form := boxes(b.page)
	if len(form["unsafe"]) != 40 {
		t.Fatalf("the preview ticks %d Runs, want 40", len(form["unsafe"]))
	}
	b.send(http.MethodPost, v.origin+review, form).shows(http.StatusBadRequest, "The second confirmation is missing", "Verified as", "Nothing was retried.")
	form.Set("sure", "yes")
	first := *b
	b.send(http.MethodPost, v.origin+review, form).shows(http.StatusOK, "Retry of 40 Runs", "made by your submission", "40 Runs remain", "INC-7 &lt;billing&gt; is back")
	made := pgtest.Value[int](t, v.Super(t), `SELECT count(*)::int FROM ql3.runs WHERE retry_of_run_id = ANY($1)`, ids)
	if made != 40 || strings.Contains(b.page, "only-in-the-preview") {
		t.Errorf("%d Runs were made, want 40, or the batch's page shows what only the preview may", made)
	}
	first.send(http.MethodPost, v.origin+review, form).shows(http.StatusOK, "when you sent the form the first time")
	b.open(review).shows(http.StatusOK, "40 Runs remain") // it is submitted, so it leads to the batch
	one := pgtest.Value[string](t, v.Super(t), `SELECT id::text FROM ql3.runs WHERE retry_of_run_id = ANY($1) LIMIT 1`, ids)
	b.open("/x/runs/"+one).shows(http.StatusOK, strings.TrimSuffix(review, "/submit")+`"`, "made with others")
	b.open("/x/batches/new?action=retry&project=ops&status=failed").shows(http.StatusOK, "There is none:")
}

func TestBatchIsRefused(t *testing.T) {
	disabled := strings.Replace(manifest, "command: [/bin/report", "enabled: false\n        command: [/bin/report", 1)
	tests := []struct {
		name   string
		before func(*operator, url.Values, []uuid.UUID)
		status int
		says   []string
	}{
		{"not confirmed", func(_ *operator, f url.Values, _ []uuid.UUID) { f.Del("sure") }, 400, []string{"second confirmation", "Verified as"}},
		{"no Run", func(_ *operator, f url.Values, _ []uuid.UUID) { f.Del("unsafe") }, 400, []string{"No Run is selected.", "Verified as"}},
		{"no id", func(_ *operator, f url.Values, _ []uuid.UUID) { f.Add("run", "../x") }, 400, []string{"no id"}},
		{"a Run that was not frozen", func(_ *operator, f url.Values, _ []uuid.UUID) { f.Add("run", uuid.NewString()) }, 400, []string{"not one of those that were frozen", "Verified as"}},
		{"retried meanwhile", func(o *operator, _ url.Values, ids []uuid.UUID) {
			cookies := o.cookies
			path, form := o.freezes(policy.RetryRun, ids[1])
			o.post(path, form).says(o.t, http.StatusSeeOther)
			o.cookies = cookies
		}, 409, []string{"1 of 3 Runs were refused, so nothing was done.", "Nothing was retried.", "Verified as", "retried already, 1 time"}},
		{"the Task is disabled", func(o *operator, _ url.Values, _ []uuid.UUID) { runtest.Publish(o.t, o.Database, disabled) }, 409,
			[]string{"3 of 3 Runs were refused", "The Task has been disabled"}},
		{"expired", func(o *operator, f url.Values, ids []uuid.UUID) {
			f["unsafe"] = []string{ids[0].String(), ids[2].String()}
			o.ages()
		}, 403, []string{"more than five minutes old", `name="only" value="1,3"`, "/submit/verify", "after the outage"}},
		{"no verification", func(o *operator, _ url.Values, _ []uuid.UUID) { o.cookies = nil }, 403, []string{"no verification for this", "/submit/verify"}},
		{"another browser's", func(o *operator, _ url.Values, _ []uuid.UUID) { o.cookies[0].Value += "x" }, 403, []string{"another session or browser"}},
		{"the role is gone", func(o *operator, _ url.Values, _ []uuid.UUID) {
			grant(o.t, o.Database, o.person, policy.Viewer, "ops")
		}, 403, []string{"Retrying takes the role"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOperator(t, policy.Operator, "ops")
			ids := o.outage(t, 3)
			path, form := o.freezes(policy.RetryRun, ids...)
			tt.before(o, form, ids)
			before := o.retries()
			res := o.post(path, form)
			res.says(t, tt.status, tt.says...)
			if n := o.retries(); n != before {
				t.Errorf("POST made %d retries, want none", n-before)
			}
			if strings.Contains(res.body, "only-in-the-preview") && !strings.Contains(res.body, "Verified as") {
				t.Error("a refusal that is no proved preview shows what only that may")
			}
		})
	}
}

// After a refusal the others can be submitted under the same proof, and nothing can be submitted after that.
func TestTheRestOfABatch(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	ids := o.outage(t, 4)
	other, one := o.freezes(policy.RetryRun, ids[1])
	otherCookies := o.cookies
	path, form := o.freezes(policy.RetryRun, ids...)
	cookies := o.cookies
	o.cookies = otherCookies
	o.post(other, one).says(t, http.StatusSeeOther)
	o.cookies = cookies
	refused := o.post(path, form)
	refused.says(t, http.StatusConflict, "1 of 4 Runs were refused")
	rest := boxes(refused.body)
	if got := rest["unsafe"]; len(got) != 3 || slices.Contains(got, ids[1].String()) {
		t.Fatalf("the page ticks %v after the refusal, want all but %s", got, ids[1])
	}
	rest.Set("sure", "yes")
	two := o.post(path, rest) // two tabs
	again := o.post(path, rest)
	if batch := strings.TrimSuffix(path, "/submit"); two.Header.Get("Location") != batch+"?retry=made" || again.Header.Get("Location") != batch+"?retry=before" {
		t.Errorf("the rest leads to %s, and again to %s", two.Header.Get("Location"), again.Header.Get("Location"))
	}
	if n := o.retries(); n != 4 {
		t.Errorf("there are %d retries, want 1 and 3", n)
	}
	second := url.Values{"unsafe": {ids[0].String()}, "sure": {"yes"}}
	o.post(path, second).says(t, http.StatusConflict, "submitted before, with other Runs chosen", "Look at the batch.")
	page := o.get(strings.TrimSuffix(path, "/submit"))
	page.says(t, http.StatusOK, "Retry of 3 Runs", "left out", "1 Run was left out when it was submitted.", "after the outage", "Copy as Markdown", "**Retry of 3 Runs** (ops), by Name of operator: 3 queued")
	var body batchJSON
	if err := json.Unmarshal([]byte(o.get(strings.TrimSuffix(path, "/submit")+".json").body), &body); err != nil || body.Remaining != 3 || len(body.Members) != 4 || body.Members[1].Outcome != nil {
		t.Errorf("the batch as JSON is %+v, %v", body, err)
	}
	if res := o.get(strings.TrimSuffix(path, "/submit") + "?view=embed"); res.StatusCode != http.StatusOK || strings.Contains(res.body, `class="side"`) {
		t.Errorf("the batch in a frame is %d, or has what surrounds a page", res.StatusCode)
	}
}

// The quota holds for a batch as for single retries: what there is no room for can be left out, under the same proof.
func TestQuotaOfABatch(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	ids := o.outage(t, 65)
	path, form := o.freezes(policy.RetryRun, ids[:50]...)
	o.post(path, form).says(t, http.StatusSeeOther)
	path, form = o.freezes(policy.RetryRun, ids[50:]...)
	o.get(path).says(t, http.StatusOK, "There is no room for all of them now.")
	res := o.post(path, form)
	res.says(t, http.StatusTooManyRequests, "64 are allowed", "Nothing was retried.", "Verified as")
	if rest := boxes(res.body); res.Header.Get("Retry-After") == "" || len(rest["unsafe"]) != 15 {
		t.Errorf("Retry-After is %q and %d Runs are ticked, want seconds and 15", res.Header.Get("Retry-After"), len(rest["unsafe"]))
	}
	form["unsafe"] = form["unsafe"][:14]
	o.post(path, form).says(t, http.StatusSeeOther)
	if n := o.retries(); n != 64 {
		t.Errorf("there are %d retries, want 64", n)
	}
}

func TestBulkStop(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	var ids []uuid.UUID
	for i := range int64(3) {
		ids = append(ids, runtest.Admit(t, o.Database, "ops", "nightly", o.nowMS+1000+i, o.nowMS+1000+i))
	}
	mixed := url.Values{"action": {"stop"}, "run": {ids[0].String(), o.failed.String(), ids[2].String()}}
	o.post(selectPath, mixed).says(t, http.StatusOK, "Stop 2 Runs", "Left out", "Stopping asks whoever executes these Runs")
	o.get("/batches/new?action=stop&project=ops").says(t, http.StatusOK, "Stop 3 Runs")
	path, form := o.freezes(policy.StopRun, ids...)
	if res := o.get(path); strings.Contains(res.body, "only-in-the-preview") || !strings.Contains(res.body, "Stop the selected Runs") {
		t.Errorf("the preview of a stop = %d:\n%s", res.StatusCode, res.body)
	}
	o.post(path, form).says(t, http.StatusSeeOther)
	o.get(strings.TrimSuffix(path, "/submit")).says(t, http.StatusOK, "Stop of 3 Runs", "3 Runs remain")
	if n := pgtest.Value[int](t, o.Super(t), `SELECT count(*)::int FROM ql3.runs WHERE cancel_requested_at_ms IS NOT NULL`); n != 3 {
		t.Errorf("%d Runs were asked to stop, want 3", n)
	}
}

// A batch, and a Run that a form names, of another Project are not there; nor is somebody else's batch to submit.
func TestBatchesAreIsolated(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	path, form := o.freezes(policy.RetryRun, o.failed)
	batch, missing := strings.TrimSuffix(path, "/submit"), "/batches/"+uuid.NewString()
	outsider := signIn(t, o.config, "outsider")
	grant(t, o.Database, outsider, policy.Operator, "growth")
	h := outsider.as(New(o.config))
	for _, tail := range []string{"", ".json", "/submit", "?view=embed"} {
		a, b := get(t, h, batch+tail, "Accept", "text/html"), get(t, h, missing+tail, "Accept", "text/html")
		if a.StatusCode != http.StatusNotFound || strings.ReplaceAll(said(a), batch, missing) != said(b) { // a frame's page says its own address
			t.Errorf("GET %s of another Project = %d, want 404 like a missing one:\n%s", tail, a.StatusCode, a.body)
		}
	}
	for _, target := range []string{"/submit", "/submit/verify"} {
		if a, b := o.postTo(h, batch+target, form), o.postTo(h, missing+target, form); a.StatusCode != http.StatusNotFound || said(a) != said(b) {
			t.Errorf("POST %s of another Project = %d, want 404 like a missing one", target, a.StatusCode)
		}
	}
	for _, target := range []string{selectPath, freezePath} {
		f := url.Values{"action": {"retry"}, "run": {o.failed.String()}, "reason": {"x"}}
		nobody := url.Values{"action": {"retry"}, "run": {uuid.NewString()}, "reason": {"x"}}
		if a, b := o.postTo(h, target, f), o.postTo(h, target, nobody); a.StatusCode != http.StatusNotFound || said(a) != said(b) {
			t.Errorf("POST %s = %d, want 404 like a missing one:\n%s", target, a.StatusCode, a.body)
		}
	}
	if res := get(t, h, "/batches/new?action=retry&project=ops", "Accept", "text/html"); res.StatusCode != http.StatusNotFound {
		t.Errorf("GET of a selection of another Project = %d, want 404", res.StatusCode)
	}
	colleague := signIn(t, o.config, "colleague")
	grant(t, o.Database, colleague, policy.Operator, "ops")
	h = colleague.as(New(o.config))
	for _, tail := range []string{"", ".json", "/submit"} {
		if a, b := get(t, h, batch+tail, "Accept", "text/html"), get(t, h, missing+tail, "Accept", "text/html"); a.StatusCode != http.StatusNotFound || said(a) != said(b) {
			t.Errorf("GET %s of a colleague's that is not submitted = %d, want 404 like a missing one:\n%s", tail, a.StatusCode, a.body)
		}
	}
	o.postTo(h, path, form).says(t, http.StatusNotFound, "No such batch")
	if o.retries() != 0 {
		t.Error("somebody else submitted the batch")
	}
	o.post(path, form).says(t, http.StatusSeeOther)
	get(t, h, batch, "Accept", "text/html").says(t, http.StatusOK, "1 Run remains")
	get(t, h, path, "Accept", "text/html").says(t, http.StatusNotFound, "No such batch")
}

// A selection of Runs of several Projects is of the first one's; a viewer may select none.
func TestSelection(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops", "growth")
	elsewhere := runtest.Admit(t, o.Database, "growth", "daily", o.nowMS+1000, o.nowMS+1000)
	o.post(selectPath, url.Values{"action": {"retry"}, "run": {o.failed.String(), elsewhere.String()}}).says(t, http.StatusOK, "Retry 1 Run", "1 of the selected Runs is left out:")
	o.post(selectPath, url.Values{"action": {"retry"}}).says(t, http.StatusBadRequest, "No Run is selected.")
	o.post(selectPath, url.Values{"action": {"delete"}, "run": {o.failed.String()}}).says(t, http.StatusBadRequest, "nobody can do here")
	o.post(selectPath, url.Values{"action": {"retry"}, "run": {elsewhere.String()}}).says(t, http.StatusOK, "None of these Runs can be retried.", "Left out")
	o.get("/batches/new?action=retry").says(t, http.StatusBadRequest, "A batch is of one Project")
	o.get("/batches/new?action=x&project=ops").says(t, http.StatusBadRequest)
	many := url.Values{"action": {"retry"}, "run": {o.failed.String()}}
	for range runmgmt.MaxBatch {
		many.Add("run", uuid.NewString())
	}
	o.post(selectPath, many).says(t, http.StatusBadRequest, "51 Runs are selected; a batch has at most 50.")
	viewer := signIn(t, o.config, "viewer")
	grant(t, o.Database, viewer, policy.Viewer, "ops")
	h := viewer.as(New(o.config))
	o.postTo(h, selectPath, url.Values{"action": {"retry"}, "run": {o.failed.String()}}).says(t, http.StatusForbidden, "Retrying takes the role")
	if res := get(t, h, "/runs", "Accept", "text/html"); strings.Contains(res.body, `name="run"`) || strings.Contains(res.body, "pickbar") {
		t.Error("a viewer is offered a choice of Runs")
	}
}

// A run manager without its database answers with the form as it was, every Run of it.
func TestUnavailableKeepsTheChoice(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	ids := o.outage(t, 3)
	path, form := o.freezes(policy.RetryRun, ids...)
	dead, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dead.Close)
	o.config.Runs = runmgmt.New(runmgmt.Config{Pool: dead, Metrics: runmgmt.NewMetrics(prometheus.NewRegistry()), Log: o.config.Log})
	res := o.post(path, form)
	res.says(t, http.StatusServiceUnavailable, `action="`+path+`"`, `name="sure" value="yes"`, "Send again", "Nothing was retried.")
	for _, id := range ids {
		res.says(t, http.StatusServiceUnavailable, `name="unsafe" value="`+id.String()+`"`)
	}
}

func TestIncidentView(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	o.outage(t, 5)
	res := o.get("/runs?group=task&since=-1h")
	res.says(t, http.StatusOK, "5 failures", "of 1 Task.", "5 failed", "&lt;script&gt;", "Retry these", `href="/batches/new?action=retry&amp;project=ops&amp;since=-1h&amp;task=report"`)
	var body incidentJSON
	if err := json.Unmarshal([]byte(o.get("/runs.json?group=task").body), &body); err != nil || len(body.Tasks) != 1 || body.Tasks[0].Failed != 5 {
		t.Errorf("the incident as JSON is %+v, %v", body, err)
	}
	o.get("/runs?group=colour").says(t, http.StatusBadRequest)
	o.get("/batches/new?action=retry&project=ops&task=report").says(t, http.StatusOK, "Retry 5 Runs", "Of each retry family only the newest Run is here")
	outsider := signIn(t, o.config, "outsider")
	grant(t, o.Database, outsider, policy.Viewer, "growth")
	get(t, outsider.as(New(o.config)), "/runs?group=task", "Accept", "text/html").says(t, http.StatusOK, "Nothing has failed.")
}

// Where no Run is, there is none to retry.
func TestNothingToRetryIsNotOffered(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	has(t, "a list with Runs", o.get("/runs?project=ops&status=failed"), "Retry all of this filter…")
	none := o.get("/runs?project=ops&status=failed&q=no-such-name")
	has(t, "an empty list", none, "No Run matches.")
	hasNot(t, "an empty list", none, "Retry all of this filter…")
}

// Whoever has a role has not none: what is missing is another.
func TestRoleThatIsNotEnough(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	page := o.get("/audit")
	page.says(t, http.StatusForbidden, "Your role is not enough", "It takes the role")
	hasNot(t, "the page", page, "No role")
}
