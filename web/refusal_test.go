package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
)

func TestRetryIsRefused(t *testing.T) {
	disabled := strings.Replace(manifest, "command: [/bin/report", "enabled: false\n        command: [/bin/report", 1)
	tests := []struct {
		name   string
		role   policy.Role
		before func(o *operator, form url.Values)
		status int
		says   []string
	}{
		{"invalid: no reason", policy.Operator, func(_ *operator, f url.Values) { f.Set("reason", " ") }, 400, []string{"A reason is missing", "Nothing was retried.", `aria-invalid="true"`, "Verified as", "Retry this Run"}},
		{"invalid: not confirmed", policy.Operator, func(_ *operator, f url.Values) { f.Del("sure") }, 400, []string{"second confirmation", "INC-1</textarea>", "Verified as"}},
		{"invalid: too much of a reason", policy.Operator, func(_ *operator, f url.Values) { f.Set("reason", strings.Repeat("青", 501)) }, 400, []string{"501 characters, at most 500", "青</textarea>", "Verified as"}},
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
			if strings.Contains(res.body, "only-in-the-preview") != strings.Contains(res.body, "Verified as") {
				t.Error("a refusal that is no proved preview shows what only that may")
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
		s.fail(s.mutationProblem(c, managed{acting: acting{deed: retrying}}, submitted{}, &runmgmt.Refusal{Reason: reason, Detail: text.Of("Found."), Retry: new(uuid.UUID), RetryAfter: 1500 * time.Millisecond}), c)
		if w.Code != status || w.Header().Get("Retry-After") != "2" && reason == runmgmt.RateLimited {
			t.Errorf("%s is answered %d, Retry-After %q, want %d", reason, w.Code, w.Header().Get("Retry-After"), status)
		}
		if reason != runmgmt.NotFound && refusalTitles[reason].Empty() || status < 400 || nextFor(retryWords, reason).Empty() {
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
	s.fail(s.mutationProblem(c, managed{acting: acting{deed: retrying}}, f, runmgmt.ErrOutcomeUnknown), c)
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
		for _, path := range []string{o.path(d), o.path(d) + "/verify", stepUpTestPath, selectPath, freezePath, "/schedules/ops/nightly/pause", "/batches/" + o.failed.String() + "/submit"} {
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
			if a.StatusCode != http.StatusNotFound || said(a) != said(b) {
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

// A session that ends while somebody writes takes nothing they wrote with it: it stands on the page, as text.
func TestASessionThatEndsKeepsTheReason(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	f := o.form(o.failed)
	f.Set("reason", "billing is back <b>INC-17</b>")
	res := o.postTo(New(o.config), o.path(retrying), f)
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(res.body, "billing is back &lt;b&gt;INC-17&lt;/b&gt;") || o.retries() != 0 {
		t.Errorf("POST signed out = %d with %d retries, want 401 and the reason on the page:\n%s", res.StatusCode, o.retries(), res.body)
	}
}
