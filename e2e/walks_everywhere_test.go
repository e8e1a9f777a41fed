//go:build walks

package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// everywhereWalks must be so whoever signs people in, and wherever the console is.
var everywhereWalks = []walk{
	{"a role that is revoked is gone with the next request", func(t *testing.T, s *site) {
		p := s.member(t, "dan")
		p.open(s.url + "/schedules")
		p.sees("beat")
		s.revoke(t, "dan")
		t.Cleanup(func() { s.grant(s, "dan") })
		p.reload()
		if v := p.sees("no Project has given you a role"); v.has("beat") {
			t.Errorf("without a role the page shows %s", v)
		}
	}},
	{"a user who is disabled is out with the next request", func(t *testing.T, s *site) {
		p := s.member(t, "eve")
		s.disable(t, "eve")
		p.open(s.url + "/schedules")
		if v := p.sees("disabled"); v.has("beat") {
			t.Errorf("a disabled user sees %s", v)
		}
	}},
	{"the console's cookies are few, small and closed, even for somebody in 200 groups", walkCookies},
	{"every address is right, whatever the request's headers say", walkHostileHeaders},
	{"a name that is not the console's leads nowhere else", walkHostileHost},
	{"an update arrives within seconds of its commit", walkUpdate},
}

func walkCookies(t *testing.T, s *site) {
	p := s.browser(t).tab()
	p.open(s.url + "/runs?status=failed&since=2026-01-01T00:00:00Z&task=" + strings.Repeat("t", 60))
	s.checkCookies(p, p.cookies(s.url+"/"))
	s.signIn(p, s.url+"/", "gus")
	p.sees(s.people["gus"].Name)
	cookies := p.cookies(s.url + "/")
	s.checkCookies(p, cookies)
	if cookies[s.cookie("session")] == nil {
		t.Errorf("there is no %s among %v", s.cookie("session"), cookies)
	}
}

// cookie is the whole name of one of the console's.
func (s *site) cookie(name string) string {
	if s.mount == "" {
		return "__Host-ql3_" + name
	}
	return "__Secure-ql3_" + name
}

func (s *site) checkCookies(p *tab, cookies map[string]*network.Cookie) {
	p.Helper()
	size, path := 0, s.mount
	if path == "" {
		path = "/"
	}
	for name, c := range cookies {
		if !strings.Contains(name, "ql3_") {
			continue // the proxy's own
		}
		size += len(name) + len(c.Value)
		if !strings.HasPrefix(name, s.cookie("")) || !c.Secure || !c.HTTPOnly || c.SameSite != network.CookieSameSiteLax || c.Path != path || c.Domain != consoleHost {
			p.Errorf("cookie %s: secure %v, HTTP only %v, same site %s, path %q, domain %q", name, c.Secure, c.HTTPOnly, c.SameSite, c.Path, c.Domain)
		}
	}
	if size > 1024 {
		p.Errorf("the console's cookies have %d bytes together, want 1024 at most", size)
	}
}

// hostile are headers that say the console is elsewhere, or that somebody is signed in.
var hostile = map[string]string{
	"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/evil", "X-Forwarded-Port": "6666", "X-Forwarded-Uri": "/evil",
	"X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6;host=evil.example;proto=http", "X-Original-Url": "/evil", "X-Rewrite-Url": "/evil", "X-Real-Ip": "6.6.6.6",
	"X-Forwarded-User": "evil", "X-Forwarded-Email": "evil@evil.example", "X-Auth-Request-User": "evil", "X-Auth-Request-Redirect": "https://evil.example/", "Remote-User": "evil",
	"Authorization": "Bearer evil",
}

func walkHostileHeaders(t *testing.T, s *site) {
	p := s.browser(t).tab()
	headers := map[string]any{}
	for name, value := range hostile {
		headers[name] = value
	}
	p.sends(headers)
	s.signIn(p, s.url+"/schedules?project=ops", "bob")
	p.sees(s.people["bob"].Name)
	for _, address := range p.asked() {
		if !strings.HasPrefix(address, s.url+"/") && !strings.HasPrefix(address, s.provider.issuer+"/") {
			t.Errorf("the tab was led to %s", address)
		}
	}
	s.checkCookies(p, p.cookies(s.url+"/"))
	s.checkAddresses(p)
	p.open(s.url + "/account")
	p.sees(s.people["bob"].Name)
	s.checkAddresses(p)
}

// checkAddresses holds every address on the page to the site.
func (s *site) checkAddresses(p *tab) {
	p.Helper()
	addresses, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("[href],[src],[action]")].map(e => new URL(e.getAttribute("href") ?? e.getAttribute("src") ?? e.getAttribute("action"), document.baseURI).href)`))
	if err != nil {
		p.Fatal(err)
	}
	if len(addresses) < 5 {
		p.Errorf("the page has only the addresses %v", addresses)
	}
	for _, address := range addresses {
		if !strings.HasPrefix(address, s.url+"/") {
			p.Errorf("%s has the address %s", p.glance().URL, address)
		}
	}
}

// walkHostileHost goes past what is in front, to the console's own listener and with its own words.
func walkHostileHost(t *testing.T, s *site) {
	headers := http.Header{"Host": {"evil.example"}}
	for name, value := range hostile {
		headers.Set(name, value)
	}
	headers.Del("Authorization")
	for _, path := range []string{"/", "/runs?status=failed", "/auth/sign-in", "/auth/signed-out", "/auth/callback?state=x", "/account"} {
		got := s.ask(t, http.MethodGet, "http://"+s.listen+s.mount+path, headers)
		if strings.Contains(got.body, "evil") {
			t.Errorf("GET %s: the answer has the word of its headers:\n%s", path, got.body)
		}
		for name, values := range got.Header {
			if strings.Contains(strings.Join(values, " "), "evil") {
				t.Errorf("GET %s: %s: %v", path, name, values)
			}
		}
		if where, err := url.Parse(got.Header.Get("Location")); err != nil || where.String() != "" && (where.Host != "" || !strings.HasPrefix(where.Path, s.mount+"/")) {
			t.Errorf("GET %s leads to %q", path, got.Header.Get("Location"))
		}
	}
}

// quoted is text as JavaScript spells it.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always can be
	}
	return string(b)
}
