package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

func TestProblems(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	long := strings.Repeat("a", maxValue+1)
	tests := []struct {
		name, method, target string
		status               int
		says                 string
	}{
		{"no such path", "GET", "/nowhere", 404, "There is no page at this address."},
		{"no such asset", "GET", "/static/console.css", 404, "There is no page at this address."},
		{"no such Run", "GET", "/runs/" + uuid.NewString(), 404, "There is no Run with this id"},
		{"an id that is none", "GET", "/runs/1", 404, "There is no Run with this id"},
		{"an id spelled otherwise", "GET", "/runs/" + strings.ToUpper(w.failed.String()), 404, "There is no Run with this id"},
		{"no such Schedule", "GET", "/schedules/ops/none", 404, "There is no Trigger with this name"},
		{"another Project's Schedule", "GET", "/schedules/ops/daily", 404, "There is no Trigger with this name"},
		{"an escaped slash", "GET", "/schedules/ops/a%2Fb", 404, "There is no Trigger with this name"},
		{"POST to a page", "POST", "/runs", 405, "does not take this kind of request"},
		{"DELETE of a Run", "DELETE", "/runs/" + w.failed.String(), 405, "does not take this kind of request"},
		{"unknown status", "GET", "/runs?status=done", 400, "There is no status &#34;done&#34;"},
		{"unknown state", "GET", "/schedules?state=open", 400, "There is no state &#34;open&#34;"},
		{"unknown parameter", "GET", "/runs?stauts=failed", 400, "There is no parameter &#34;stauts&#34; here; there are: project, status"},
		{"a parameter twice", "GET", "/runs?task=a&task=b", 400, "task is given more than once"},
		{"a parameter on a detail page", "GET", "/runs/" + w.failed.String() + "?x=1", 400, "There is no parameter"},
		{"bad cursor", "GET", "/runs?after=7", 400, "not a place in the list"},
		{"bad cursor of Schedules", "GET", "/schedules?after=7", 400, "not a place in the list"},
		{"an unknown range", "GET", "/schedules/ops/nightly?account=year", 400, "There is no account &#34;year&#34;; there are: hour, day, week, month."},
		{"a range twice", "GET", "/schedules/ops/nightly?account=day&from=-2h", 400, "Give either account, or from and to."},
		{"a range that ends before it begins", "GET", "/schedules/ops/nightly?from=-1h&to=-2h", 400, "The range ends before it begins"},
		{"a range of the future", "GET", "/schedules/ops/nightly?from=2999-01-01T00:00:00Z", 400, "The range begins after now."},
		{"a range beyond the horizon", "GET", "/schedules/ops/nightly?from=-100d&to=-95d", 400, "The account is kept for 90 days. The range ends before that."},
		{"bad time", "GET", "/runs?since=someday", 400, "a time"},
		{"oversized value", "GET", "/runs?task=" + long, 400, "longer than 200 bytes"},
		{"oversized query", "GET", "/runs?" + strings.Repeat("a", maxQuery+1), 400, "too long"},
		{"a NUL", "GET", "/runs?task=%00", 400, "is not text"},
		{"not UTF-8", "GET", "/runs?task=%ff", 400, "is not text"},
		{"bad escape", "GET", "/runs?task=%zz", 400, "not well formed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := do(t, h, tt.method, tt.target, "Accept", "text/html")
			id := res.Header.Get("X-Request-Id")
			if res.StatusCode != tt.status || !strings.Contains(res.body, tt.says) || id == "" || !strings.Contains(res.body, id) {
				t.Errorf("%s %s = %d, want %d, saying %q and its request id %q:\n%s", tt.method, tt.target, res.StatusCode, tt.status, tt.says, id, res.body)
			}
			problem := do(t, h, tt.method, tt.target, "Accept", "application/json")
			var details problemDetails
			if err := json.Unmarshal([]byte(problem.body), &details); err != nil || details.Status != tt.status ||
				problem.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s as JSON = %s %s, %v", tt.method, tt.target, problem.Header.Get("Content-Type"), problem.body, err)
			}
		})
	}
	if allow := do(t, h, "POST", "/runs").Header.Get("Allow"); !strings.Contains(allow, "GET") {
		t.Errorf("POST /runs: Allow = %q, want GET in it", allow)
	}
}

// What a token holds is shown, whatever it is, and rearranges nothing.
func TestRefusedShowsWhatATokenHolds(t *testing.T) {
	p := refused(&oidc.Refusal{Kind: oidc.BadToken, Found: text.Of("It sent %s, %s.", "a\u202eb", text.Of("acr is %s", "\x00"))})
	if got, want := p.what.String(), "It sent a\ufffdb, acr is \u2400."; got != want {
		t.Errorf("refused() says %q, want %q", got, want)
	}
}

func TestEither(t *testing.T) {
	for want, list := range map[string][]policy.Role{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := either(list).String(); got != want {
			t.Errorf("either(%q) = %q, want %q", list, got, want)
		}
	}
}

func TestLargeBodyIsRefused(t *testing.T) {
	h := newWorld(t).handler(t, "")
	r := httptest.NewRequest(http.MethodPost, "/runs", strings.NewReader(strings.Repeat("x", bodyLimit+1)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("POST of %d bytes = %d, want 413", bodyLimit+1, w.Code)
	}
	r = httptest.NewRequest(http.MethodPost, preferencesPath, io.MultiReader(strings.NewReader("theme=dark&x="+strings.Repeat("x", bodyLimit)))) // it does not say how long it is
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if r.ContentLength >= 0 || w.Code < 400 {
		t.Errorf("POST of a form of more than %d bytes that does not say so (%d) = %d, want a refusal", bodyLimit, r.ContentLength, w.Code)
	}
}

func TestDatabaseUnavailable(t *testing.T) {
	h := unreachable(t)
	for _, target := range []string{"/", "/runs", "/schedules", "/runs/" + uuid.NewString(), "/schedules/a/b"} {
		res := get(t, h, target, "Accept", "text/html")
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "cannot reach its database") || res.Header.Get("Retry-After") == "" {
			t.Errorf("GET %s without a database = %d, want a 503 page that says so", target, res.StatusCode)
		}
		if strings.Contains(res.body, "127.0.0.1") || strings.Contains(res.body, "refused") {
			t.Errorf("GET %s without a database tells the browser the error", target)
		}
	}
	if res := get(t, h, "/livez"); res.StatusCode != http.StatusOK {
		t.Errorf("GET /livez without a database = %d, want 200", res.StatusCode)
	}
}

func TestPanicIsAPage(t *testing.T) {
	d := newWorld(t).Database
	c := config(t, d, "")
	c.DB = nil
	res := get(t, signIn(t, c, "reader").as(New(c)), "/runs", "Accept", "text/html")
	if res.StatusCode != http.StatusInternalServerError || !strings.Contains(res.body, "Something went wrong") || strings.Contains(res.body, "nil pointer") {
		t.Errorf("GET /runs that panics = %d %s, want a bare 500 page", res.StatusCode, res.body)
	}
}

func TestReadiness(t *testing.T) {
	ready := true
	c := config(t, nil, "")
	c.Ready = func() bool { return ready }
	h := New(c)
	for _, want := range []int{200, 503} {
		ready = want == 200
		for target, status := range map[string]int{"/livez": 200, "/readyz": want} {
			if res := get(t, h, target); res.StatusCode != status || res.body != "" {
				t.Errorf("GET %s when ready is %t = %d %q, want %d and no reason", target, ready, res.StatusCode, res.body, status)
			}
		}
	}
}

func TestOnlyAllowedHosts(t *testing.T) {
	c := config(t, nil, "")
	c.AllowedHosts = []string{"localhost"}
	h := New(c)
	for host, want := range map[string]int{"localhost": 200, "localhost:8080": 200, "LOCALHOST:1": 200, "127.0.0.1:8080": 421, "evil.example": 421,
		"localhost.evil.example": 421, "[::1]:8080": 421, "localhost.": 421, "": 421} {
		r := httptest.NewRequest(http.MethodGet, "/livez", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("GET /livez with Host %q = %d, want %d", host, w.Code, want)
		}
	}
}

func TestHEAD(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.handler(t, ""))
	defer server.Close()
	for _, target := range append(w.pages(), "/livez") {
		res, err := http.Head(server.URL + target)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s = %v, %v, want 200", target, res, err)
		}
	}
}
