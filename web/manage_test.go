package web

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
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
	if _, err := o.Super(o.t).Exec(o.t.Context(), sql, args...); err != nil {
		o.t.Fatal(err)
	}
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
		if stepUpKinds[kind].title == "" {
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

func TestRetryIsRefused(t *testing.T) {
	disabled := strings.Replace(manifest, "command: [/bin/report", "enabled: false\n        command: [/bin/report", 1)
	tests := []struct {
		name   string
		role   policy.Role
		before func(o *operator, form url.Values)
		status int
		says   []string
	}{
		{"invalid: no reason", policy.Operator, func(_ *operator, f url.Values) { f.Set("reason", " ") }, 400, []string{"A reason is missing", "Nothing was retried."}},
		{"invalid: not confirmed", policy.Operator, func(_ *operator, f url.Values) { f.Del("sure") }, 400, []string{"second confirmation"}},
		{"invalid: a field twice", policy.Operator, func(_ *operator, f url.Values) { f.Add("plan", "x") }, 400, []string{"more than once"}},
		{"invalid: no text", policy.Operator, func(_ *operator, f url.Values) { f.Set("reason", "a\x00b") }, 400, []string{"not text"}},
		{"step_up_required: none", policy.Operator, func(o *operator, _ url.Values) { o.cookies = nil }, 403, []string{"Verify again", "INC-1</textarea>", "/retry/verify"}},
		{"step_up_required: expired", policy.Operator, func(o *operator, _ url.Values) { o.ages() }, 403, []string{"more than five minutes old", "INC-1</textarea>"}},
		{"step_up_required: revoked", policy.Operator, func(o *operator, _ url.Values) {
			o.exec(`UPDATE ql3.step_up_proofs SET revoked_at_ms = created_at_ms`)
		}, 403, []string{"INC-1</textarea>"}},
		{"authentication_changed", policy.Operator, func(o *operator, _ url.Values) { o.cookies[0].Value += "x" }, 403, []string{"another session or browser", "INC-1</textarea>"}},
		{"forbidden", policy.Viewer, func(*operator, url.Values) {}, 403, []string{"Retrying takes the role owner, admin or operator"}},
		{"source_changed", policy.Operator, func(_ *operator, f url.Values) { f.Set("version", "1") }, 409, []string{"You saw", "It is now", "/retry/verify", "INC-1</textarea>"}},
		{"plan_changed", policy.Operator, func(_ *operator, f url.Values) { f.Set("plan", strings.Repeat("ab", 32)) }, 409, []string{"What would run has changed", "sha256 abababab"}},
		{"task_disabled", policy.Operator, func(o *operator, _ url.Values) { runtest.Publish(o.t, o.Database, disabled) }, 409, []string{"The Task has been disabled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOperator(t, tt.role, "ops")
			f := o.proves(policy.RetryRun, o.failed).form(o.failed)
			tt.before(o, f)
			res := o.post(o.path(retrying), f)
			if res.StatusCode != tt.status || o.retries() != 0 {
				t.Errorf("POST = %d with %d retries, want %d and none:\n%s", res.StatusCode, o.retries(), tt.status, res.body)
			}
			for _, want := range tt.says {
				if !strings.Contains(res.body, want) {
					t.Errorf("the page does not say %q:\n%s", want, res.body)
				}
			}
			if strings.Contains(res.body, "only-in-the-preview") {
				t.Error("the refusal shows what only the preview may")
			}
		})
	}
}

func TestRetriedMeanwhileAndMutationConflict(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	stale := o.proves(policy.RetryRun, o.failed).form(o.failed)
	first := o.form(o.failed)
	if res := o.post(o.path(retrying), first); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST = %d, want 303:\n%s", res.StatusCode, res.body)
	}
	o.proves(policy.RetryRun, o.failed)
	res := o.post(o.path(retrying), stale)
	newest := o.source(o.failed).NewestRetry.String()
	if res.StatusCode != http.StatusConflict || !strings.Contains(res.body, "Retry again anyway") || !strings.Contains(res.body, `name="newest" value="`+newest+`"`) {
		t.Fatalf("POST of a stale preview = %d, want 409 that names %s:\n%s", res.StatusCode, newest, res.body)
	}
	stale.Set("newest", newest)
	if res := o.post(o.path(retrying), stale); res.StatusCode != http.StatusSeeOther || o.retries() != 2 {
		t.Errorf("POST that names the other retry = %d with %d retries, want 303 and 2", res.StatusCode, o.retries())
	}
	first.Set("reason", "another")
	if res := o.post(o.path(retrying), first); res.StatusCode != http.StatusConflict || !strings.Contains(res.body, "sent before with other content") || !strings.Contains(res.body, "That retry") {
		t.Errorf("POST of the same mutation with another reason = %d, want 409 that names the Run:\n%s", res.StatusCode, res.body)
	}
}

// Every reason has its status, its title and a next step.
func TestEveryReasonIsWorded(t *testing.T) {
	s := newServer(config(t, nil, ""))
	for reason, status := range refusalStatus {
		w := httptest.NewRecorder()
		c := echo.New().NewContext(httptest.NewRequest(http.MethodPost, "/", nil), w)
		s.fail(s.mutationProblem(c, managed{deed: retrying}, submitted{}, &runmgmt.Refusal{Reason: reason, Detail: "found", Retry: new(uuid.UUID), RetryAfter: 1500 * time.Millisecond}), c)
		if w.Code != status || w.Header().Get("Retry-After") != "2" && reason == runmgmt.RateLimited {
			t.Errorf("%s is answered %d, Retry-After %q, want %d", reason, w.Code, w.Header().Get("Retry-After"), status)
		}
		if reason != runmgmt.NotFound && refusalTitles[reason] == "" || status < 400 || nextFor(retrying, reason) == "" {
			t.Errorf("%s has no words", reason)
		}
	}
}

// Only this answer does not say whether anything happened. It offers the same form, and a way to find out.
func TestOutcomeUnknownOffersTheSameForm(t *testing.T) {
	s, w, id := newServer(config(t, nil, "/x")), httptest.NewRecorder(), uuid.New()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("mutation="+id.String()+"&reason=INC-1&newest=n"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c := echo.New().NewContext(r, w)
	f, err := readForm(c)
	if err != nil {
		t.Fatal(err)
	}
	s.fail(s.mutationProblem(c, managed{deed: retrying}, f, runmgmt.ErrOutcomeUnknown), c)
	for _, want := range []string{"The outcome is not known", `name="mutation" value="` + id.String() + `"`, `value="INC-1"`, `href="/x/go/mutation/` + id.String() + `"`, "Send again"} {
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || !strings.Contains(w.Body.String(), want) {
			t.Errorf("the answer is %d, Retry-After %q, and does not say %q:\n%s", w.Code, w.Header().Get("Retry-After"), want, w.Body)
		}
	}
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		want string
		args []string
	}{
		{"/bin/report --day 2026-11-28", []string{"/bin/report", "--day", "2026-11-28"}},
		{`sh -c "echo 'it is' >&2"`, []string{"sh", "-c", "echo 'it is' >&2"}},
		{"sh -c 'echo $HOME'", []string{"sh", "-c", "echo $HOME"}},
		{`'' 'it'\''s $1' 'a␊b'`, []string{"", "it's $1", "a\nb"}},
	}
	for _, tt := range tests {
		if got := commandLine(tt.args); got != tt.want {
			t.Errorf("commandLine(%q) = %s, want %s", tt.args, got, tt.want)
		}
	}
}

// A run manager without its database answers with the form as it was.
func TestUnavailableKeepsTheForm(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	f := o.proves(policy.RetryRun, o.failed).form(o.failed)
	dead, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dead.Close)
	o.config.Runs = runmgmt.New(runmgmt.Config{Pool: dead, Metrics: runmgmt.NewMetrics(prometheus.NewRegistry()), Log: o.config.Log})
	broken := o.config
	broken.DB = dead
	broken.Identity = identity(t, broken.PublicURL, dead, dead, oidc.ProxyConfig{}, broken.Log)
	for name, config := range map[string]Config{"the manager's": o.config, "every": broken} {
		o.config = config
		res := o.post(o.path(retrying), f)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("POST without %s database = %d, want 503 with Retry-After", name, res.StatusCode)
		}
		for _, want := range []string{`name="mutation" value="` + f.Get("mutation") + `"`, `name="reason" value="INC-1"`, `action="` + o.path(retrying) + `"`, "Send again"} {
			if !strings.Contains(res.body, want) {
				t.Errorf("without %s database the page does not say %q:\n%s", name, want, res.body)
			}
		}
	}
}

// Only a form of the console's own page, in a browser with a session, does anything.
func TestOnlyFormsOfOnesOwnPageAct(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	f := o.proves(policy.RetryRun, o.failed).form(o.failed)
	for _, d := range []deed{retrying, stopping} {
		for _, path := range []string{o.path(d), o.path(d) + "/verify", stepUpTestPath} {
			for name, tt := range map[string]struct {
				res    answered
				status int
			}{
				"a JSON body":        {o.post(path, f, "Content-Type", "application/json"), 415},
				"a multipart body":   {o.post(path, f, "Content-Type", "multipart/form-data; boundary=x"), 415},
				"another site":       {o.post(path, f, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
				"another origin":     {o.post(path, f, "Sec-Fetch-Site", "same-site", "Origin", "https://other.example"), 403},
				"a bearer token":     {o.postTo(New(o.config), path, f, "Authorization", "Bearer canary", "Accept", "application/json"), 401},
				"nobody's signed in": {o.postTo(New(o.config), path, f), 401},
			} {
				if tt.res.StatusCode != tt.status || o.retries() != 0 {
					t.Errorf("POST %s as %s = %d with %d retries, want %d and none", path, name, tt.res.StatusCode, o.retries(), tt.status)
				}
			}
		}
	}
	for _, target := range []string{o.path(retrying) + "?mutation=" + f.Get("mutation"), o.path(retrying) + "/verify"} {
		if res := o.get(target); res.StatusCode < 400 {
			t.Errorf("GET %s = %d, want an error", target, res.StatusCode)
		}
	}
	if res := get(t, o.handler(), o.path(retrying), "Accept", "application/json"); res.StatusCode != http.StatusUnsupportedMediaType || strings.Contains(res.body, "only-in-the-preview") {
		t.Errorf("GET %s as a client = %d, want 415", o.path(retrying), res.StatusCode)
	}
}

// A Run of another Project is not there, for every page of it.
func TestManagingIsIsolated(t *testing.T) {
	o := newOperator(t, policy.Operator, "growth")
	missing := uuid.New()
	for _, d := range []deed{retrying, stopping} {
		for name, do := range map[string]func(id uuid.UUID) answered{
			"GET":  func(id uuid.UUID) answered { return o.get("/runs/" + id.String() + "/" + d.path) },
			"POST": func(id uuid.UUID) answered { return o.post("/runs/"+id.String()+"/"+d.path, o.form(o.failed)) },
			"verify": func(id uuid.UUID) answered {
				return o.post("/runs/"+id.String()+"/"+d.path+"/verify", o.form(o.failed))
			},
		} {
			a, b := do(o.failed), do(missing)
			without := func(r answered) string { return strings.ReplaceAll(r.body, r.Header.Get("X-Request-Id"), "") }
			if a.StatusCode != http.StatusNotFound || without(a) != without(b) {
				t.Errorf("%s %s of another Project's Run = %d, want 404 like a missing one", name, d.path, a.StatusCode)
			}
		}
	}
}

// What a Task executes is on its proved preview and nowhere else, errors included.
func TestOnlyTheProvedPreviewShowsTheExecution(t *testing.T) {
	o := newOperator(t, policy.Owner, "ops")
	hidden := regexp.MustCompile(`only-in-the-preview|/bin/report`)
	all := append(o.pages(), o.path(retrying), o.path(stopping), "/audit", "/audit.json", "/account", "/runs/"+o.failed.String()+".json", "/go/mutation/"+uuid.NewString())
	for _, target := range all {
		if res := o.get(target); res.StatusCode != http.StatusOK || hidden.MatchString(res.body) {
			t.Errorf("GET %s = %d, or shows what only the preview may", target, res.StatusCode)
		}
	}
	o.proves(policy.RetryRun, o.failed)
	if res := o.get(o.path(retrying)); !strings.Contains(res.body, "/bin/report --only-in-the-preview") || !strings.Contains(res.body, "kept words") {
		t.Errorf("the proved preview does not show what will run:\n%s", res.body)
	}
	if res := o.get("/account"); !strings.Contains(res.body, "retrying Run") {
		t.Error("the account page does not show the proof")
	}
	o.ages()
	res := o.get(o.path(retrying))
	if hidden.MatchString(res.body) || !strings.Contains(res.body, "more than five minutes old") || !strings.Contains(res.body, "kept words") {
		t.Errorf("an expired proof shows the execution, or loses the reason:\n%s", res.body)
	}
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
