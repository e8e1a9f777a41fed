package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/oidc"
)

// strange are return targets that have led people astray elsewhere.
var strange = []string{"//evil.example", `/\evil.example`, `\\evil.example`, "https:evil.example", "https://evil.example", "/%5cevil.example", "/%2f%2fevil.example", "///evil.example",
	"/.//evil.example", "/..//evil.example", "/runs/..%2f..%2f%2fevil.example", "/runs/%2e%2e", "/runs/..", "/runs/.", "/schedules/../..", "/schedules/%2e%2e/%2e%2e",
	"/schedules/ops/%2F%2Fevil.example", "/schedules/%5c%5cevil.example/x", "/schedules//evil.example", "/runs/%00", "/runs/%0d%0aLocation:%20https:%2f%2fevil.example",
	"/runs?next=//evil.example", "/runs?status=%0d%0ax", "/runs?task=//evil.example", "/runs?task=javascript:alert(1)", "javascript:alert(1)", "/runs/https:%2f%2fevil.example",
	"/@evil.example", "//evil.example/runs", "/\tevil.example", "/runs/\u202eexample", "/x/y//evil.example", "/x/yevil", "/x/y/../runs", "/runs;/evil.example", "/runs#//evil.example"}

// below reports whether a browser that is led to target stays below base.
func below(base, target string) bool {
	u, err := url.Parse("https://console.example" + base + "/auth/callback")
	if err != nil {
		return false
	}
	to, err := u.Parse(target)
	return err == nil && to.Scheme == "https" && to.Host == "console.example" && strings.HasPrefix(to.Path, base+"/") && to.Path == path.Clean(to.Path)+map[bool]string{true: "/"}[to.Path != "/" && strings.HasSuffix(to.Path, "/")] &&
		!strings.ContainsAny(target, "\\\r\n\t\x00") && !strings.HasPrefix(target, "//")
}

// Whatever somebody was lured to, signing in leads to a page of this console that was asked for, or to the first one.
func TestStrangeTargetsAreNotKept(t *testing.T) {
	for _, base := range []string{"", "/x/y"} {
		c := config(t, nil, base)
		s := newServer(c)
		h := s.handler()
		for _, target := range slices.Concat(strange, each(strange, func(t string) string { return base + t })) {
			r := &http.Request{Method: "GET", URL: &url.URL{Path: target}, Header: http.Header{}, Host: "console.example"}
			if u, err := url.ParseRequestURI(target); err == nil {
				r.URL = u
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Header().Get("Location"); got != base+signInPath {
				t.Errorf("GET %q signed out leads to %q, want the sign-in page", target, got)
			}
			for _, cookie := range w.Result().Cookies() {
				there, ok := s.links.route(decodeRoute(cookie.Value))
				if !ok || !below(base, there) {
					t.Errorf("GET %q signed out keeps %q, which leads to %q", target, cookie.Value, there)
				}
			}
		}
		for _, value := range append(strange, "to=runs&i.id=x", "to=run", "to=run&i.id=..", "to=run&i.id=a%2fb", "to=run&i.id=a&i.x=b", "to=overview&q.next=%2f%2fevil", "to=runs&q.status=a&q.status=b",
			"to=nowhere", "to=%2f%2fevil.example", "i.id=x", "q.a=b", "to=run&i.id="+strings.Repeat("a", 101), "to=schedule&i.project=.&i.trigger=..", "%zz") {
			if there, ok := s.links.route(decodeRoute(value)); ok && there != base+"/" {
				t.Errorf("a cookie of %q leads to %q, want nowhere", value, there)
			}
		}
	}
}

func each(list []string, f func(string) string) []string {
	var all []string
	for _, x := range list {
		all = append(all, f(x))
	}
	return all
}

func TestRoutesAreKeptWhole(t *testing.T) {
	s := newServer(config(t, nil, "/x"))
	for _, r := range []oidc.Route{
		{Name: "overview", IDs: map[string]string{}, Query: url.Values{}},
		{Name: "run", IDs: map[string]string{"id": "0198c1a2-0000-7000-8000-000000000001"}, Query: url.Values{}},
		{Name: "schedule", IDs: map[string]string{"project": "ops", "trigger": "nightly.json"}, Query: url.Values{"account": {"week"}}},
		{Name: "runs", IDs: map[string]string{}, Query: url.Values{"task": {"a b&c=d;é//x"}, "since": {"-2h"}}},
	} {
		if diff := cmp.Diff(r, decodeRoute(encodeRoute(r))); diff != "" {
			t.Errorf("decodeRoute(encodeRoute(%+v)) (-want +got):\n%s", r, diff)
		}
		if _, ok := s.links.route(r); !ok {
			t.Errorf("links.route(%+v) leads nowhere", r)
		}
	}
	if there, ok := s.links.route(oidc.Route{}); !ok || there != "/x/" {
		t.Errorf("links.route() of the zero Route = %q, %t, want the first page", there, ok)
	}
}

// The console's cookies stay below 1 KB together: what is too long is not kept, and neither is what was before it.
func TestKeptRoutesAreBounded(t *testing.T) {
	c := config(t, nil, "")
	h := New(c)
	before := &http.Cookie{Name: c.Identity.Cookies.Name(goingCookie), Value: "to=schedules"}
	for length, want := range map[int]bool{1: true, 90: true, 200: false} {
		target := "/runs?" + url.Values{"task": {strings.Repeat("é", length/2)}, "trigger": {strings.Repeat("a", length)}, "project": {strings.Repeat("a", length)}}.Encode()
		res := get(t, person{cookie: before}.as(h), target)
		if cookies := res.Cookies(); len(cookies) != 1 || len(cookies[0].String()) > 800 || (cookies[0].MaxAge > 0) != want || (cookies[0].Value != "") != want {
			t.Errorf("GET of a query of %d bytes signed out sets %v, want it kept: %t", len(target), cookies, want)
		}
	}
}

func FuzzDecodeRoute(f *testing.F) {
	for _, s := range append(strange, "to=runs&q.status=failed", "to=run&i.id=0198c1a2", "to=schedule&i.project=ops&i.trigger=nightly&q.account=day") {
		f.Add(s)
	}
	servers := map[string]*server{"": newServer(config(f, nil, "")), "/x/y": newServer(config(f, nil, "/x/y"))}
	f.Fuzz(func(t *testing.T, value string) {
		for base, s := range servers {
			if there, ok := s.links.route(decodeRoute(value)); ok && !below(base, there) {
				t.Errorf("a cookie of %q leads to %q", value, there)
			}
		}
	})
}
