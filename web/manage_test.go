package web

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/migrations"
)

// managing is c with a run manager and a step-up at the issuers.
func managing(t testing.TB, d *pgtest.Database, c Config, issuers ...oidc.StepUpIssuer) Config {
	t.Helper()
	c.Runs = runmgmt.New(runmgmt.Config{Pool: d.Pool(t, migrations.RoleRunManager), Metrics: runmgmt.NewMetrics(prometheus.NewRegistry()), Log: c.Log})
	var err error
	c.StepUp, err = oidc.NewStepUp(oidc.StepUpConfig{Issuers: issuers, Authn: d.Pool(t, migrations.RoleAuthn), Cookies: c.Identity.Cookies,
		RedirectURL: c.PublicURL.JoinPath(StepUpPath).String(), Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An operator is somebody who may retry in ops, and the proofs that their browser shows.
type operator struct {
	world
	t       *testing.T
	config  Config
	person  person
	session uuid.UUID
	cookies []*http.Cookie
}

func newOperator(t *testing.T, role policy.Role, projects ...string) *operator {
	t.Helper()
	w := newWorld(t)
	o := &operator{world: w, t: t, config: managing(t, w.Database, config(t, w.Database, ""))}
	o.person = signIn(t, o.config, "operator")
	grant(t, w.Database, o.person, role, projects...)
	if err := w.Super(t).QueryRow(t.Context(), `SELECT id FROM ql3.console_sessions WHERE user_id = $1`, o.person.id).Scan(&o.session); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *operator) source(id uuid.UUID) run.Source {
	o.t.Helper()
	var project string
	if err := o.db.QueryRow(o.t.Context(), `SELECT project_id FROM ql3.runs WHERE id = $1`, id).Scan(&project); err != nil {
		o.t.Fatal(err)
	}
	s, err := run.ReadSource(o.t.Context(), o.Pool(o.t, migrations.RoleRunManager), project, id)
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

// proves gives the browser a fresh proof.
func (o *operator) proves(action policy.Permission, id uuid.UUID) *operator {
	o.t.Helper()
	s, secret := o.source(id), "some-secret"
	sum := sha256.Sum256([]byte(secret))
	p := policy.Proof{ID: uuid.New(), TransactionID: uuid.New(), SessionID: o.session, UserID: o.person.id, Words: "kept words", CookieHash: sum[:],
		Purpose: policy.Purpose{Action: action, ProjectID: s.ProjectID, Items: []policy.Item{{Run: id, Version: s.Version, Digest: s.ExecutionDigest}}},
		Assurance: policy.Assurance{Level: "multi_factor", Issuer: testIssuer, Subject: "operator", ClientID: "console", ACR: "gold", AMR: []string{"mfa"},
			AuthTimeS: runtest.Clock(o.t, o.db) / 1000, SecondFactor: "always"}}
	if err := policy.InsertProof(o.t.Context(), o.Pool(o.t, migrations.RoleAuthn), &p); err != nil {
		o.t.Fatal(err)
	}
	name := o.config.Identity.Cookies.Name("proof_" + strings.TrimPrefix(string(action), "run.") + "_" + id.String()[24:])
	o.cookies = []*http.Cookie{{Name: name, Value: p.ID.String() + "." + secret}}
	return o
}

func (o *operator) exec(sql string, args ...any) {
	o.t.Helper()
	pgtest.Exec(o.t, o.Super(o.t), sql, args...)
}

// ages makes every proof an hour older.
func (o *operator) ages() *operator {
	o.t.Helper()
	o.exec(`UPDATE ql3.step_up_proofs SET auth_time_s = auth_time_s - 3600, created_at_ms = created_at_ms - 3600000, expires_at_ms = expires_at_ms - 3600000`)
	return o
}

func (o *operator) handler() http.Handler {
	h := o.person.as(New(o.config))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range o.cookies {
			r.AddCookie(c)
		}
		h.ServeHTTP(w, r)
	})
}

func (o *operator) get(target string) answered {
	o.t.Helper()
	return get(o.t, o.handler(), target, "Accept", "text/html")
}

func (o *operator) post(target string, form url.Values, headers ...string) answered {
	o.t.Helper()
	return o.postTo(o.handler(), target, form, headers...)
}

func (o *operator) postTo(h http.Handler, target string, form url.Values, headers ...string) answered {
	o.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "https://console.example"+target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answered{w.Result(), w.Body.String()}
}

// form is the submission that the preview of the Run offers now.
func (o *operator) form(id uuid.UUID) url.Values {
	s := o.source(id)
	f := url.Values{"mutation": {uuid.NewString()}, "status": {string(s.Status)}, "version": {strconv.FormatInt(s.Version, 10)}, "plan": {s.ExecutionDigest},
		"reason": {"INC-1"}, "asked": {"yes"}, "sure": {"yes"}}
	if s.NewestRetry != nil {
		f.Set("newest", s.NewestRetry.String())
	}
	return f
}

// retries is how many retries there are.
func (o *operator) retries() (n int) {
	o.t.Helper()
	if err := o.db.QueryRow(o.t.Context(), `SELECT count(*) FROM ql3.runs WHERE trigger_type = 'run_manual_retry'`).Scan(&n); err != nil {
		o.t.Fatal(err)
	}
	return n
}

func (o *operator) path(d deed) string { return "/runs/" + o.failed.String() + "/" + d.path }

// stepUp verifies with password and code, from a page that goes on to the provider.
func (b *browser) stepUp(account string) *browser {
	b.Helper()
	b.open(b.goesOn())
	for _, a := range b.town.idp.Accounts() {
		if a.Username != account {
			continue
		}
		b.press("/login", "username", account, "password", a.Password)
		code, err := totp.GenerateCode(a.TOTPSecret, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		b.press("/login/code", "code", code)
	}
	return b
}

// Every refusal that only a step-up meets is worded for it.
func TestStepUpKindsAreWorded(t *testing.T) {
	for _, kind := range []oidc.Kind{oidc.SessionEnded, oidc.WrongSubject, oidc.TooWeak, oidc.Unreadable, oidc.NoAuthTime, oidc.TooOld, oidc.NotNew} {
		if stepUpKinds[kind].title.Empty() {
			t.Errorf("%s has no title", kind)
		}
	}
}

// From a link in a runbook, signed out, to a retried Run.
func TestWalkToARetry(t *testing.T) {
	for _, base := range []string{"", "/x"} {
		t.Run("below "+base, func(t *testing.T) {
			v := newTown(t, base)
			page := base + "/runs/" + v.failed.String() + "/retry"
			b := v.browser(t)
			b.open(v.origin + page).signIn("operator")
			grant(t, v.Database, v.account(t, "operator"), policy.Operator, "ops")
			b.open(v.origin + page)
			b.shows(http.StatusOK, "A retry runs the same command again", "sends mail to everybody", "Verify, then look at it")
			if strings.Contains(b.page, "only-in-the-preview") {
				t.Error("the page before the verification shows what only the preview may")
			}
			b.press(page+"/verify", "reason", "INC-2291 <billing> is back").stepUp("operator")
			if b.at != v.origin+page {
				t.Fatalf("after the step-up the browser is at %s, want %s:\n%s", b.at, page, b.page)
			}
			b.shows(http.StatusOK, "/bin/report --only-in-the-preview", "REGION", "/srv/only-in-the-preview", "Verified as", "by two factors", "INC-2291 &lt;billing&gt; is back", "left")
			if strings.Contains(b.page, "only-in-the-preview-too") {
				t.Error("the preview shows the value of a variable")
			}
			preview := *b
			b.press(page, "reason", "INC-2291 <billing> is back")
			b.shows(http.StatusOK, "made by your retry", "Retry family", "INC-2291")
			made := b.at
			if again := preview.press(page, "reason", "INC-2291 <billing> is back"); strings.Split(again.at, "?")[0] != strings.Split(made, "?")[0] {
				t.Errorf("the same form sent again leads to %s, want %s", again.at, made)
			}
			preview.shows(http.StatusOK, "when you sent the form the first time")
			b.open(v.origin + page)
			b.shows(http.StatusOK, "Retries so far", "Verify, then look at it")
			b.open(strings.Split(made, "?")[0])
			if strings.Contains(b.page, "only-in-the-preview") {
				t.Error("the new Run's page shows what only the preview may")
			}
		})
	}
}

func TestStepUpRefusedLeadsBackWithTheReason(t *testing.T) {
	v := newTown(t, "")
	b := v.browser(t)
	page := "/runs/" + v.failed.String() + "/retry"
	b.open(page).signIn("operator")
	grant(t, v.Database, v.account(t, "operator"), policy.Operator, "ops")
	b.open(page).press(page+"/verify", "reason", "kept through it")
	b.open(b.goesOn()).press("/login/cancel")
	b.shows(http.StatusForbidden, "The verification was cancelled", "Nothing was run", "Verify again", "kept through it", "Diagnostic")
	b.press(page+"/verify", "reason", "kept through it")
	b.open(b.goesOn())
	for _, a := range v.idp.Accounts() {
		if a.Username == "operator" {
			b.press("/login", "username", "operator", "password", a.Password).press("/login/enough")
		}
	}
	b.shows(http.StatusForbidden, "The verification was too weak", "Nothing was run", "kept through it")
}

// Somebody else's verification changes nothing, and an answer of the provider is good once.
func TestStepUpOfSomebodyElseAndTwice(t *testing.T) {
	v := newTown(t, "")
	b := v.browser(t)
	var callback string
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == StepUpPath {
			callback = r.URL.String()
		}
		return nil
	}
	page := "/runs/" + v.failed.String() + "/retry"
	b.open(page).signIn("operator")
	grant(t, v.Database, v.account(t, "operator"), policy.Operator, "ops")
	b.open(page).press(page+"/verify", "reason", "kept through it").stepUp("admin")
	b.shows(http.StatusForbidden, "Somebody else verified", "Nothing was run", "kept through it", "Omar")
	b.open(page).shows(http.StatusOK, "Verify, then look at it")
	b.press(page+"/verify", "reason", "again").stepUp("operator")
	b.shows(http.StatusOK, "Verified as")
	b.open(callback).shows(http.StatusBadRequest, "This answer was used before", "Go on", `href="`+page+`"`)
	b.open(strings.Replace(callback, "state=", "state=x", 1)).shows(http.StatusBadRequest, "This verification is not known here")
	b.open(page).shows(http.StatusOK, "Verified as")
	other := v.browser(t)
	other.open("/account").signIn("operator")
	other.open(page)
	if strings.Contains(other.page, "only-in-the-preview") {
		t.Error("another browser of the same person sees the preview")
	}
	b.press("/auth/sign-out").open("/account").signIn("operator")
	b.open(page)
	if strings.Contains(b.page, "only-in-the-preview") {
		t.Error("the proof outlives its session")
	}
}

func TestStepUpTest(t *testing.T) {
	v := newTown(t, "")
	b := v.browser(t)
	b.open("/account").signIn("owner")
	b.open(stepUpTestPath).shows(http.StatusForbidden, "No role")
	grant(t, v.Database, v.account(t, "owner"), policy.Owner, "ops")
	b.open(stepUpTestPath).press(stepUpTestPath).stepUp("owner")
	b.shows(http.StatusOK, "This would have been a proof", "met", "urn:qinglong:dev:mfa")
	b.open("/account").shows(http.StatusOK, "None is good at present", `href="/audit"`)
}

func TestStop(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	running := runtest.Admit(t, o.Database, "ops", "nightly", o.nowMS+1000, o.nowMS+1000)
	page := "/runs/" + running.String() + "/stop"
	if res := o.get(page); !strings.Contains(res.body, "Stopping asks whoever executes this Run") {
		t.Errorf("GET %s = %d:\n%s", page, res.StatusCode, res.body)
	}
	f := o.proves(policy.StopRun, running).form(running)
	if res := o.get(page); !strings.Contains(res.body, "Stop this Run") || strings.Contains(res.body, "only-in-the-preview") {
		t.Errorf("GET %s with a proof = %d:\n%s", page, res.StatusCode, res.body)
	}
	for _, how := range []string{"made", "before"} {
		if res := o.post(page, f); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/runs/"+running.String()+"?stop="+how {
			t.Errorf("POST %s = %d to %q, want 303 with %s:\n%s", page, res.StatusCode, res.Header.Get("Location"), how, res.body)
		}
	}
	if res := o.get("/go/mutation/" + f.Get("mutation")); !strings.Contains(res.body, "the Run was asked to stop") {
		t.Errorf("GET /go/mutation = %d:\n%s", res.StatusCode, res.body)
	}
	res := o.get("/runs/" + running.String())
	_, stopped, _ := strings.Cut(res.body, "Asked by")
	for _, want := range []string{"Name of operator", "INC-1", "user Name of operator"} { // the last is the Event's
		if !strings.Contains(stopped, want) {
			t.Errorf("the Run does not say by whom and why it was stopped, want %q:\n%s", want, res.body)
		}
	}
	if res := o.get("/runs/" + o.failed.String() + "/stop"); !strings.Contains(res.body, "cannot be asked to stop") {
		t.Errorf("GET stop of an ended Run = %d:\n%s", res.StatusCode, res.body)
	}
}

func TestSubmissionIsFound(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	f := o.proves(policy.RetryRun, o.failed).form(o.failed)
	if res := o.get("/go/mutation/" + f.Get("mutation")); !strings.Contains(res.body, "nothing has come of this submission") {
		t.Errorf("GET /go/mutation before = %d:\n%s", res.StatusCode, res.body)
	}
	if res := o.post(o.path(retrying), f); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST = %d:\n%s", res.StatusCode, res.body)
	}
	if res := o.get("/go/mutation/" + f.Get("mutation")); !strings.Contains(res.body, "it made a new Run") || !strings.Contains(res.body, o.failed.String()) {
		t.Errorf("GET /go/mutation after = %d:\n%s", res.StatusCode, res.body)
	}
	outsider := signIn(t, o.config, "outsider")
	grant(t, o.Database, outsider, policy.Viewer, "growth")
	if res := get(t, outsider.as(New(o.config)), "/go/mutation/"+f.Get("mutation")); !strings.Contains(res.body, "nothing has come") {
		t.Errorf("GET /go/mutation of another Project = %d:\n%s", res.StatusCode, res.body)
	}
}

func TestAudit(t *testing.T) {
	o := newOperator(t, policy.Owner, "ops")
	f := o.proves(policy.RetryRun, o.failed).form(o.failed)
	f.Set("reason", "see https://incidents.example/1?a=b&c. not http://plain.example or javascript:alert(1) <b>")
	o.post(o.path(retrying), f)
	res := o.get("/audit?action=run.retry")
	for _, want := range []string{"allowed", "by two factors", `href="https://incidents.example/1?a=b&amp;c"`, "&lt;b&gt;", "Name of operator"} {
		if !strings.Contains(res.body, want) {
			t.Errorf("GET /audit does not say %q:\n%s", want, res.body)
		}
	}
	if strings.Contains(res.body, `href="http://`) || strings.Contains(res.body, `href="javascript`) {
		t.Error("GET /audit makes a link of what is not https")
	}
	if res := o.get("/runs/" + o.failed.String()); !strings.Contains(res.body, `id="audit"`) {
		t.Error("the Run's page does not show its audit to an owner")
	}
	for target, status := range map[string]int{"/audit?run=x": 400, "/audit?outcome=x": 400, "/audit?after=x": 400, "/audit?nope=1": 400, "/audit?run=" + o.failed.String(): 200} {
		if res := o.get(target); res.StatusCode != status {
			t.Errorf("GET %s = %d, want %d", target, res.StatusCode, status)
		}
	}
	viewer := signIn(t, o.config, "viewer")
	grant(t, o.Database, viewer, policy.Operator, "ops")
	h := viewer.as(New(o.config))
	if res := get(t, h, "/audit", "Accept", "text/html"); res.StatusCode != http.StatusForbidden || !strings.Contains(res.body, "owner or admin") {
		t.Errorf("GET /audit as an operator = %d, want 403", res.StatusCode)
	}
	if res := get(t, h, "/runs/"+o.failed.String()); strings.Contains(res.body, `id="audit"`) || !strings.Contains(res.body, "Retry…") {
		t.Error("the Run's page shows its audit to an operator, or no way to a retry")
	}
}

// A batch that nobody submitted is its author's alone: the audit leads to one only from what was done by it.
func TestAuditLeadsToBatchesThatWereSubmitted(t *testing.T) {
	for want, e := range map[bool]policy.AuditEvent{true: {Action: "run.retry", Outcome: policy.Allowed}, false: {Action: "run.retry_preview", Outcome: policy.Allowed}} {
		for _, outcome := range []policy.Outcome{policy.Allowed, policy.Denied} {
			e.Outcome, e.Detail = outcome, map[string]any{"batch": uuid.NewString()}
			row := (&server{}).auditRow(policy.AuditRecord{AuditEvent: e}, 0)
			if got := row.Batch.URL != ""; got != (want && outcome == policy.Allowed) {
				t.Errorf("%s, %s: leads to its batch: %t", e.Action, outcome, got)
			}
		}
	}
}

func TestReadOnlyReplicaSaysSo(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	f := o.proves(policy.RetryRun, o.failed).form(o.failed)
	o.config.Runs = nil
	if res := o.get("/runs/" + o.failed.String()); !strings.Contains(res.body, "can be neither retried nor stopped here") {
		t.Error("the Run's page does not say that the replica is read-only")
	}
	for name, res := range map[string]answered{"GET": o.get(o.path(retrying)), "POST": o.post(o.path(retrying), f), "verify": o.post(o.path(retrying)+"/verify", f)} {
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "read-only") {
			t.Errorf("%s = %d, want 503 that says read-only", name, res.StatusCode)
		}
	}
}
