package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web/static"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const hostile = `<script>alert(1)</script>"'&`

const manifest = `
projects:
  - id: ops
    name: "Ops <b>bold</b>"
    tasks:
      - id: report
        name: "Report ` + `<script>alert(1)</script>` + `"
        command: [/bin/report, --only-in-the-preview]
        env: { REGION: only-in-the-preview-too }
        workingDirectory: /srv/only-in-the-preview
        timeout: 1m
        retry: { safe: "no", note: sends mail to everybody }
        runbook: https://wiki.example/{task}
        logs: https://logs.example/?run={run}
        triggers:
          - {id: nightly, cron: "30 2 * * *", timezone: Europe/Berlin}
          - {id: nightly.json, cron: "0 3 * * *", timezone: UTC}
  - id: growth
    name: Growth
    tasks:
      - id: digest
        name: Mail digest
        command: [/bin/digest]
        timeout: 1m
        triggers:
          - {id: daily, cron: "15 9 * * *", timezone: Asia/Shanghai}
`

// world is a console over a database with a Run that failed.
type world struct {
	*pgtest.Database
	db     *pgxpool.Pool
	failed uuid.UUID
	nowMS  int64
}

func newWorld(t *testing.T) world {
	t.Helper()
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	w := world{Database: d, db: d.Pool(t, migrations.RoleConsole)}
	w.nowMS = runtest.Clock(t, w.db)
	w.failed = runtest.Admit(t, d, "ops", "nightly", w.nowMS-9, w.nowMS)
	runtest.Execute(t, d, run.Outcome{Status: run.Failed, ExitCode: new(3), Code: "exit_status", Summary: hostile + "\u202e\x07" + strings.Repeat("x", 900)})
	return w
}

// handler serves the console below base, to somebody who may read everything.
func (w world) handler(t *testing.T, base string) http.Handler { return reader(t, w.Database, base) }

// unreachable is a handler whose database cannot be reached, asked by somebody with a session's cookie.
func unreachable(t *testing.T) http.Handler {
	t.Helper()
	db, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	c := config(t, nil, "")
	c.DB, c.Identity = db, identity(t, c.PublicURL, db, db, oidc.ProxyConfig{}, c.Log)
	return person{cookie: &http.Cookie{Name: c.Identity.Cookies.Name("session"), Value: "some-token"}}.as(New(c))
}

type answered struct {
	*http.Response
	body string
}

func get(t *testing.T, h http.Handler, target string, headers ...string) answered {
	t.Helper()
	return do(t, h, http.MethodGet, target, headers...)
}

func do(t *testing.T, h http.Handler, method, target string, headers ...string) answered {
	t.Helper()
	target, _, _ = strings.Cut(target, "#") // as browsers do
	r := httptest.NewRequest(method, "https://console.example"+target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res, string(body)}
}

func (w world) pages() []string {
	return []string{"/", "/schedules", "/schedules/ops/nightly", "/runs", "/runs/" + w.failed.String()}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	wants := map[string][]string{
		"/":                           {"No replica is running.", "1 Run"},
		"/schedules":                  {"at 02:30 every day", "Europe/Berlin", "never run"},
		"/schedules/ops/nightly":      {"02:30:00 CE", "Trigger revision", "sha256 ", "All Runs of this Trigger"},
		"/runs":                       {"failed", "exit 3", "9 ms", `href="/runs/` + w.failed.String()},
		"/runs/" + w.failed.String():  {"Exit 3", "run.dispatching", "9 ms late", `href="https://wiki.example/report"`, "https://logs.example/?run=" + w.failed.String()},
		"/runs?status=queued":         {"No Run matches."},
		"/runs?project=nowhere":       {"No Run matches."},
		"/runs?since=-1h&status=":     {"exit 3"},
		"/schedules?q=zzz":            {"No Schedule matches."},
		"/schedules/ops/nightly.json": {"nightly.json"}, // the Trigger of that name
	}
	for target, texts := range wants {
		res := get(t, h, target, "Accept", "text/html,*/*")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/html; charset=UTF-8" {
			t.Errorf("GET %s = %d %s, want a page", target, res.StatusCode, res.Header.Get("Content-Type"))
		}
		for _, want := range texts {
			if !strings.Contains(res.body, want) {
				t.Errorf("GET %s does not say %q", target, want)
			}
		}
	}
}

// Commands, arguments, environment and directory appear in the proved preview and nowhere else.
func TestPagesKeepTheExecutionToThemselves(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	for _, target := range w.pages() {
		for _, accept := range []string{"text/html", "application/json"} {
			if res := get(t, h, target, "Accept", accept); strings.Contains(res.body, "only-in-the-preview") || strings.Contains(res.body, "/bin/report") {
				t.Errorf("GET %s (%s) shows what only the preview may", target, accept)
			}
		}
	}
}

func TestStringsAreNeverMarkup(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	for _, target := range append(w.pages(), "/runs?task="+url.QueryEscape(hostile), "/schedules?q="+url.QueryEscape(hostile), "/runs?status="+url.QueryEscape(hostile)) {
		res := get(t, h, target)
		if strings.Contains(res.body, "<script>alert") || strings.Contains(res.body, "<b>bold") || strings.ContainsAny(res.body, "\u202e\x07") {
			t.Errorf("GET %s lets a string through as markup or as invisible controls", target)
		}
	}
	if res := get(t, h, "/runs"); strings.Contains(res.body, strings.Repeat("x", 200)) {
		t.Error("GET /runs shows a long summary whole, want it shortened")
	}
	if res := get(t, h, "/runs/"+w.failed.String()); !strings.Contains(res.body, strings.Repeat("x", 900)) {
		t.Error("GET /runs/{id} shortens the summary, want it whole")
	}
}

var (
	address = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	style   = regexp.MustCompile(`<style|<script(?: [^>]*)?>[^<]|\son[a-z]+="|\sstyle="|javascript:`)
)

func TestEveryLinkIsBelowTheBasePath(t *testing.T) {
	w := newWorld(t)
	for _, base := range []string{"", "/x", "/x/y"} {
		h := w.handler(t, base+"/")
		for _, page := range append(w.pages(), "/nowhere") {
			for _, m := range address.FindAllStringSubmatch(get(t, h, base+page).body, -1) {
				target := strings.ReplaceAll(m[1], "&amp;", "&")
				if strings.HasPrefix(target, "https://wiki.example/") || strings.HasPrefix(target, "https://logs.example/") || strings.HasPrefix(target, "#") {
					continue
				}
				if !strings.HasPrefix(target, base+"/") || strings.Contains(target, "//") {
					t.Errorf("base %q: %s links to %q", base, page, target)
				} else if res := get(t, h, target); res.StatusCode != http.StatusOK && target != base+signOutPath && target != base+preferencesPath {
					t.Errorf("base %q: %s links to %q, which answers %d", base, page, target, res.StatusCode)
				}
			}
		}
	}
}

func TestBasePathIsExact(t *testing.T) {
	h := newWorld(t).handler(t, "/x/y")
	for target, want := range map[string]int{"/x/y": 200, "/x/y/": 200, "/x/y/livez": 200, "/": 404, "/x": 404, "/runs": 404, "/x/yy": 404, "/x/y/x/y/": 404} {
		if res := get(t, h, target); res.StatusCode != want {
			t.Errorf("GET %s below /x/y = %d, want %d", target, res.StatusCode, want)
		}
	}
}

func TestPagesObeyTheirOwnPolicy(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	for _, target := range append(w.pages(), "/nowhere", "/runs?status=nope") {
		res := get(t, h, target)
		for name, want := range map[string]string{
			"Content-Security-Policy": contentPolicy(nil, nil), "Strict-Transport-Security": "max-age=31536000", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("GET %s: %s = %q, want %q", target, name, got, want)
			}
		}
		if m := style.FindString(res.body); m != "" {
			t.Errorf("GET %s has inline script or style: %q", target, m)
		}
	}
}

var back = regexp.MustCompile(`name="to" value="[^"]*"`)

// said is a page without what it repeats of its request: the request's id, and the way back to its address.
func said(r answered) string {
	return back.ReplaceAllString(strings.ReplaceAll(r.body, r.Header.Get("X-Request-Id"), ""), "")
}

// What lies outside a viewer's Projects appears nowhere, and is answered byte for byte like what does not exist.
func TestOtherProjectsAreNotThere(t *testing.T) {
	w := newWorld(t)
	h := reader(t, w.Database, "", "growth")
	for _, target := range []string{"/", "/runs", "/schedules", "/runs?project=ops", "/schedules?project=ops", "/runs?task=report", "/schedules?q=night"} {
		for _, accept := range []string{"text/html", "application/json"} {
			res := get(t, h, target, "Accept", accept)
			if res.StatusCode != http.StatusOK || strings.Contains(res.body, "nightly") || strings.Contains(res.body, "bold") || strings.Contains(res.body, w.failed.String()) {
				t.Errorf("GET %s (%s) = %d, showing a Project out of sight", target, accept, res.StatusCode)
			}
		}
	}
	for hidden, missing := range map[string]string{
		"/runs/" + w.failed.String(): "/runs/" + uuid.NewString(),
		"/schedules/ops/nightly":     "/schedules/ops/none",

		"/schedules/ops/nightly/account":      "/schedules/ops/none/account",
		"/schedules/ops/nightly/account.json": "/schedules/ops/none/account.json",
	} {
		a, b := get(t, h, hidden), get(t, h, missing)
		if a.StatusCode != http.StatusNotFound || said(a) != said(b) {
			t.Errorf("GET %s = %d, want the same answer as %s:\n%s\n%s", hidden, a.StatusCode, missing, a.body, b.body)
		}
	}
}

// SQL takes a nil list for NULL, so a viewer of nothing has an empty one.
func TestViewerOfNothingSeesNothing(t *testing.T) {
	if got := (viewer{}).sees(""); got == nil || len(got) != 0 {
		t.Errorf("viewer{}.sees() = %#v, want an empty list", got)
	}
}

func TestJSON(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "/x")
	id := w.failed.String()
	for target, want := range map[string]string{
		"/x/runs.json":                   `"exitCode": 3`,
		"/x/runs.json?status=queued":     `"runs": []`,
		"/x/runs/" + id + ".json":        `"type": "run.dispatching"`,
		"/x/schedules.json":              `"words": "at 02:30 every day"`,
		"/x/schedules/growth/daily.json": `"timezone": "Asia/Shanghai"`,
	} {
		res := get(t, h, target)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" || !json.Valid([]byte(res.body)) || !strings.Contains(res.body, want) {
			t.Errorf("GET %s = %d %s, want JSON with %s", target, res.StatusCode, res.body, want)
		}
		plain := strings.Replace(target, ".json", "", 1)
		if same := get(t, h, plain, "Accept", "application/json"); !json.Valid([]byte(same.body)) || !strings.Contains(same.body, want) {
			t.Errorf("GET %s, Accept: application/json = %s, want JSON with %s", plain, same.body, want)
		}
	}
}

func TestRunsPageThroughToTheEnd(t *testing.T) {
	w := newWorld(t)
	for i := range int64(pageSize + 1) {
		runtest.Admit(t, w.Database, "growth", "daily", w.nowMS+i, w.nowMS+i)
	}
	h := w.handler(t, "")
	seen, next := 0, "/runs.json?project=growth"
	for pages := 0; next != "" && pages < 5; pages++ {
		var body runsJSON
		if err := json.Unmarshal([]byte(get(t, h, next).body), &body); err != nil {
			t.Fatal(err)
		}
		seen, next = seen+len(body.Runs), body.Next
	}
	if seen != pageSize+1 || next != "" {
		t.Errorf("the pages show %d Runs and end with %q, want %d", seen, next, pageSize+1)
	}
	first := get(t, h, "/runs?project=growth")
	if older := regexp.MustCompile(`href="(/runs\?after=[^"]*)"`).FindStringSubmatch(first.body); older == nil ||
		!strings.Contains(get(t, h, strings.ReplaceAll(older[1], "&amp;", "&")).body, "These are the oldest.") {
		t.Errorf("GET /runs?project=growth: its Older link %v does not lead to the end", older)
	}
}

// The first view of any page, with its style, script and icon, takes at most 60 KB over the wire. A full list of Runs
// with long names is the largest.
func TestFirstViewIsSmall(t *testing.T) {
	w := newWorld(t)
	for i := range int64(pageSize) {
		runtest.Admit(t, w.Database, "growth", "daily", w.nowMS+i, w.nowMS+i)
	}
	h := w.handler(t, "")
	assets := 0
	for _, name := range []string{"console.css", "console.js", "favicon.svg"} {
		assets += len(get(t, h, "/"+static.URL(name), "Accept-Encoding", "gzip").body)
	}
	for _, target := range w.pages() {
		res := get(t, h, target, "Accept-Encoding", "gzip, br")
		if size := assets + len(res.body); size > 25_000 || res.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("GET %s is %d bytes with its assets, want at most 25000", target, size)
		}
	}
}
