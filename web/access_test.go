package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

// A route that nobody said the need of must not be built.
func TestEveryRouteDeclaresItsNeed(t *testing.T) {
	known := []need{machine, anyone, signedIn}
	for _, rule := range policy.Matrix() {
		known = append(known, need(rule.Permission))
	}
	for _, base := range []string{"", "/x"} {
		s := newServer(config(t, nil, base))
		router, ok := s.handler().(*echo.Echo)
		if !ok {
			t.Fatal("the handler is no router to walk")
		}
		if len(router.Routes()) < 20 {
			t.Errorf("the router has %d routes, want all of them", len(router.Routes()))
		}
		for _, r := range router.Routes() {
			if d, ok := s.declared[r.Method+" "+r.Path]; !ok || !slices.Contains(known, d.need) {
				t.Errorf("%s %s declares %q, want one of %q", r.Method, r.Path, d.need, known)
			} else if (d.need == machine || d.need == anyone) && !strings.HasPrefix(d.path, "/auth/") && !slices.Contains([]string{"/livez", "/readyz", "/static/*", preferencesPath}, d.path) {
				t.Errorf("%s %s is open", r.Method, r.Path)
			}
		}
	}
}

// Signed out, an address says nothing about whether it exists.
func TestAuthenticationPrecedesRouting(t *testing.T) {
	w := newWorld(t)
	h := New(config(t, w.Database, "/x"))
	existing := []string{"/x", "/x/", "/x/runs", "/x/runs/" + w.failed.String(), "/x/schedules/ops/nightly", "/x/account", "/x/runs?status=failed", "/x/runs?status=nope", "/x/runs?nope=1"}
	missing := []string{"/", "/x/nowhere", "/x/runs/" + uuid.NewString(), "/x/schedules/none/none", "/x/auth/nothing", "/x/static2", "/runs", "/x/runs/1/2/3"}
	for _, target := range slices.Concat(existing, missing) {
		for _, headers := range [][]string{nil, {"Accept", "text/html"}, {"Accept", "text/html", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "cross-site"}} {
			res := get(t, h, target, headers...)
			if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/x/auth/sign-in" || res.body != "" {
				t.Errorf("GET %s signed out = %d to %q, want 303 to the sign-in page", target, res.StatusCode, res.Header.Get("Location"))
			}
		}
		told := map[string]answered{
			"a client":      get(t, h, target, "Accept", "application/json"),
			"a form":        do(t, h, "POST", target, "Accept", "text/html", "Content-Type", "application/x-www-form-urlencoded"),
			"a JSON POST":   do(t, h, "POST", target, "Content-Type", "application/json"),
			"DELETE":        do(t, h, "DELETE", target),
			"OPTIONS":       do(t, h, "OPTIONS", target),
			"a script":      get(t, h, target, "Sec-Fetch-Dest", "empty", "Accept", "*/*"),
			"an image":      get(t, h, target, "Sec-Fetch-Dest", "image"),
			"a bearer's":    get(t, h, target, "Accept", "application/json", "Authorization", "Bearer canary"),
			"a .json":       get(t, h, strings.SplitN(target, "?", 2)[0]+".json"),
			"a HEAD of one": do(t, h, "HEAD", target, "Accept", "application/json"),
		}
		for name, res := range told {
			if res.StatusCode != http.StatusUnauthorized || res.Header.Get("Location") != "" || res.Header.Get("Allow") != "" || len(res.Cookies()) > 0 {
				t.Errorf("%s at %s signed out = %d, cookies %v, want 401 and nothing else", name, target, res.StatusCode, res.Cookies())
			}
		}
		for _, accept := range []string{"", "text/html,*/*;q=0.8"} {
			if res := get(t, h, strings.SplitN(target, "?", 2)[0]+".json", "Accept", accept, "Sec-Fetch-Dest", "document"); res.StatusCode != http.StatusUnauthorized || res.Header.Get("Content-Type") != problemType {
				t.Errorf("%s.json signed out in a window that takes %q = %d of %s, want problem details", target, accept, res.StatusCode, res.Header.Get("Content-Type"))
			}
		}
		var details problemDetails
		if err := json.Unmarshal([]byte(told["a script"].body), &details); err != nil || details.Kind != "none" || told["a script"].Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("a script at %s signed out = %s, want problem details", target, told["a script"].body)
		}
	}
	for target, want := range map[string]int{"/x/livez": 200, "/x/readyz": 200, "/x/auth/sign-in": 200, "/x/auth/signed-out": 200, "/x/static/nothing": 404, "/x/auth/callback": 400} {
		if res := get(t, h, target); res.StatusCode != want {
			t.Errorf("GET %s signed out = %d, want %d", target, res.StatusCode, want)
		}
	}
}

// What takes access away counts with the next request, on every replica.
func TestAccessEndsWithTheNextRequest(t *testing.T) {
	tests := []struct {
		name   string
		change func(*testing.T, world, Config, person)
		status int
		says   string
	}{
		{"nothing", func(*testing.T, world, Config, person) {}, http.StatusOK, "exit 3"},
		{"a role revoked", func(t *testing.T, w world, _ Config, p person) {
			_, err := policy.Revoke(t.Context(), w.Pool(t, migrations.RoleAdmin), policy.RevokeRequest{Project: "ops", User: p.id, MutationID: uuid.New(),
				Actor: policy.Actor{Type: policy.ByCommand, Name: "test"}})
			if err != nil {
				t.Fatal(err)
			}
		}, http.StatusForbidden, "No role"},
		{"the user disabled", func(t *testing.T, w world, _ Config, p person) {
			if err := policy.DisableUser(t.Context(), w.Pool(t, migrations.RoleAdmin), p.id, policy.Actor{Type: policy.ByCommand, Name: "test"}, "test"); err != nil {
				t.Fatal(err)
			}
		}, http.StatusUnauthorized, "Your account is disabled."},
		{"signed out everywhere", func(t *testing.T, w world, c Config, p person) {
			other := signIn(t, c, p.subject)
			if res := do(t, other.as(New(c)), "POST", signOutEverywherePath, "Content-Type", "application/x-www-form-urlencoded"); res.StatusCode != http.StatusOK {
				t.Fatalf("POST %s = %d %s", signOutEverywherePath, res.StatusCode, res.body)
			}
		}, http.StatusUnauthorized, "You signed out everywhere."},
		{"the Project archived", func(t *testing.T, w world, _ Config, _ person) {
			runtest.Publish(t, w.Database, "projects:\n  - id: ops\n    name: Ops\n    state: archived\n")
		}, http.StatusOK, "(archived)"},
		{"too long idle", func(t *testing.T, w world, _ Config, p person) {
			if _, err := w.Super(t).Exec(t.Context(), `UPDATE ql3.console_sessions SET created_at_ms = 0, last_seen_at_ms = 0`); err != nil {
				t.Fatal(err)
			}
		}, http.StatusUnauthorized, "nothing was done in it for a while"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			c := config(t, w.Database, "")
			p := signIn(t, c, "reader")
			grant(t, w.Database, p, policy.Viewer, "ops")
			replica := p.as(New(config(t, w.Database, "")))
			if res := get(t, replica, "/runs", "Accept", "text/html"); res.StatusCode != http.StatusOK {
				t.Fatalf("GET /runs = %d %s", res.StatusCode, res.body)
			}
			tt.change(t, w, c, p)
			for _, accept := range []string{"text/html", "application/json"} {
				res := get(t, replica, "/runs", "Accept", accept, "Sec-Fetch-Dest", "document")
				if res.StatusCode == http.StatusSeeOther { // the sign-in page says why
					if res = get(t, replica, signInPath); !strings.Contains(res.body, tt.says) || tt.status != http.StatusUnauthorized {
						t.Errorf("after %s GET /runs leads to the sign-in page, which does not say %q", tt.name, tt.says)
					}
				} else if accept == "text/html" && (res.StatusCode != tt.status || !strings.Contains(res.body, tt.says)) {
					t.Errorf("after %s GET /runs = %d, want %d saying %q:\n%s", tt.name, res.StatusCode, tt.status, tt.says, res.body)
				} else if res.StatusCode != tt.status {
					t.Errorf("after %s GET /runs (%s) = %d, want %d", tt.name, accept, res.StatusCode, tt.status)
				}
			}
		})
	}
}

// A request that is under way while its session ends does not bring the session back.
func TestRequestInFlightDoesNotReviveItsSession(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	p := signIn(t, c, "reader")
	grant(t, w.Database, p, policy.Viewer, "ops")
	h, super := p.as(New(c)), w.Super(t)

	release := w.locked(t, "projects")
	inFlight := make(chan answered)
	go func() { inFlight <- get(t, h, "/runs") }()
	waitUntil(t, "the request waits for the Projects", func() bool {
		var n int
		err := super.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'ql3.projects'::regclass`).Scan(&n)
		return err == nil && n > 0
	})
	if res := do(t, h, "POST", signOutPath, "Content-Type", "application/x-www-form-urlencoded"); res.StatusCode != http.StatusOK {
		t.Fatalf("POST %s = %d %s", signOutPath, res.StatusCode, res.body)
	}
	release()
	if res := <-inFlight; len(res.Cookies()) > 0 {
		t.Errorf("the request in flight sets cookies: %v", res.Cookies())
	}
	if res := get(t, h, "/runs"); res.StatusCode != http.StatusSeeOther {
		t.Errorf("after signing out GET /runs with the old cookie = %d, want 303", res.StatusCode)
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

func TestRoleNamesAPermissionsHolders(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	p := signIn(t, c, "o'reader\u202e")
	s := newServer(c)
	for i, tt := range []struct {
		roles []string
		says  string
	}{
		{nil, "console grant --project PROJECT --role viewer --user " + p.id.String()}, // its subject cannot be shown as it is
		{[]string{"ops"}, "It takes the role owner or admin."},
	} {
		grant(t, w.Database, p, policy.Viewer, tt.roles...)
		e := echo.New()
		r := httptest.NewRequest("GET", "/audit", nil)
		r.AddCookie(p.cookie)
		rec := httptest.NewRecorder()
		ec := e.NewContext(r, rec)
		ec.SetPath("/audit")
		s.declared["GET /audit"] = route{need: need(policy.ReadAudit)}
		err := s.loadSession(func(c echo.Context) error { _, err := s.viewer(c); return err })(ec)
		if s.fail(err, ec); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), tt.says) {
			t.Errorf("%d: a route that takes audit.read = %d, want 403 saying %q:\n%s", i, rec.Code, tt.says, rec.Body)
		}
	}
}

func TestFraming(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	c.FrameAncestors, c.FormAction = []string{"https://wiki.example", "https://dash.example"}, []string{"https://sso.example"}
	h := readerOf(t, w.Database, c)
	framed := contentPolicy(c.FormAction, c.FrameAncestors)
	if !strings.Contains(framed, "form-action 'self' https://sso.example;") || !strings.HasSuffix(framed, "frame-ancestors https://wiki.example https://dash.example") {
		t.Errorf("contentPolicy() = %q", framed)
	}
	pages := map[string]bool{"/nowhere": false, "/account": false, signInPath: false, SignedOutPath: false, CallbackPath: false}
	for _, page := range w.pages() {
		pages[page], pages[page+"?view=embed"] = false, true // as it is, it has forms: to sign out, to pause a Trigger
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		res := get(t, h, page)
		want, frames := contentPolicy(c.FormAction, nil), "DENY"
		if pages[page] {
			want, frames = framed, ""
		}
		if got := res.Header.Get("Content-Security-Policy"); got != want || res.Header.Get("X-Frame-Options") != frames {
			t.Errorf("GET %s: policy %q and X-Frame-Options %q, want %q and %q", page, got, res.Header.Get("X-Frame-Options"), want, frames)
		}
	}
	if got := do(t, h, "POST", signOutPath, "Content-Type", "application/x-www-form-urlencoded").Header.Get("Content-Security-Policy"); strings.Contains(got, "wiki") {
		t.Errorf("POST %s may be framed: %q", signOutPath, got)
	}

	out := New(c)
	res := get(t, out, "/runs?project=ops", "Sec-Fetch-Dest", "iframe", "Accept", "text/html")
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(res.body, `href="/runs?project=ops" target="_top"`) || !strings.Contains(res.body, "Open the console") || len(res.Cookies()) > 0 {
		t.Errorf("signed out in a frame GET /runs = %d, cookies %v, want the way out of the frame:\n%s", res.StatusCode, res.Cookies(), res.body)
	}
	for page, top := range map[string]string{"/nowhere": "/", "/runs?nope=1": "/"} {
		if res := get(t, out, page, "Sec-Fetch-Dest", "iframe"); !strings.Contains(res.body, `href="`+top+`" target="_top"`) {
			t.Errorf("signed out in a frame GET %s does not lead to %s", page, top)
		}
	}
}
