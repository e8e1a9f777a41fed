//go:build walks

package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// proxyWalks are about an SSO proxy that says who is at the browser.
var proxyWalks = []walk{
	{"a deep link leads through the proxy's sign-in, the only one, and back to its query", func(t *testing.T, s *site) {
		p := s.browser(t).tab()
		s.signIn(p, s.url+"/runs?status=failed&project=ops", "ada")
		if got, want := p.query(s.provider.issuer+"/auth?").Get("redirect_uri"), s.url+"/oauth2/callback"; got != want {
			t.Errorf("redirect_uri = %s, want %s", got, want)
		}
		for _, address := range p.asked() {
			if strings.HasPrefix(address, s.url+"/auth/") {
				t.Errorf("the tab came by %s", address)
			}
		}
		p.open(s.url + "/account")
		p.sees(s.people["ada"].Name, s.provider.issuer, "the sign-in proxy, by its signed word")
	}},
	{"a script without the proxy's session is told 401, and a form reaches nothing", func(t *testing.T, s *site) {
		if got := s.ask(t, http.MethodGet, s.url+"/runs.json", http.Header{"Accept": {"application/json"}}); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("GET /runs.json = %d, want 401", got.StatusCode)
		}
		for _, path := range []string{"/auth/sign-out", "/auth/sign-out-everywhere", "/nothing"} {
			got := s.ask(t, http.MethodPost, s.url+path, nil)
			if got.StatusCode != http.StatusUnauthorized && !strings.HasPrefix(got.Header.Get("Location"), s.provider.issuer) {
				t.Errorf("POST %s = %d to %q, want 401 or the provider", path, got.StatusCode, got.Header.Get("Location"))
			}
		}
	}},
	{"another user at the proxy ends the session of the first", walkUserSwitch},
	{"the session's cookie is nothing without the proxy's word", walkCookieAlone},
	{"signing out says that the proxy signs in again", func(t *testing.T, s *site) {
		p := s.member(t, "bob")
		before := s.revoked(t, "bob", "signed_out")
		p.press(signOutButton)
		p.sees("You are signed out", "proxy")
		if got := s.revoked(t, "bob", "signed_out"); got != before+1 {
			t.Errorf("%d sessions were signed out, want 1", got-before)
		}
		p.press(`main a[href="` + s.mount + `/"]`)
		p.sees("Overview", s.people["bob"].Name)
	}},
	{"probes and the provider's logout pass without a sign-in, and nothing else does", walkPassages},
}

func walkUserSwitch(t *testing.T, s *site) {
	p := s.member(t, "bob")
	before := s.revoked(t, "bob", "user_switched")
	p.open(s.provider.issuer + "/session/end")
	p.press(`button[name=logout]`)
	p.sees("Signed out at the provider")
	p.open(s.url + "/oauth2/sign_out?rd=" + url.QueryEscape(s.mount+"/account"))
	p.prove(s.world, "ada")
	if v := p.sees("another user"); v.has(s.people["bob"].Name) {
		t.Errorf("the switch shows %s", v)
	}
	p.open(s.url + "/account")
	p.sees(s.people["ada"].Name)
	if got := s.revoked(t, "bob", "user_switched"); got != before+1 {
		t.Errorf("%d sessions ended by the switch, want 1", got-before)
	}
}

func walkCookieAlone(t *testing.T, s *site) {
	p := s.member(t, "bob")
	session := p.cookies(s.url + "/")[s.cookie("session")]
	if session == nil {
		t.Fatal("there is no session cookie")
	}
	headers := http.Header{"Cookie": {session.Name + "=" + session.Value}}
	for _, path := range []string{"/", "/runs.json", "/account"} {
		got := s.ask(t, http.MethodGet, "http://"+s.listen+s.mount+path, headers)
		if got.StatusCode != http.StatusUnauthorized || strings.Contains(got.body, s.people["bob"].Name) {
			t.Errorf("GET %s with the cookie alone = %d:\n%s", path, got.StatusCode, got.body)
		}
	}
}

func walkPassages(t *testing.T, s *site) {
	tests := []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/livez", http.StatusOK},
		{http.MethodGet, "/readyz", http.StatusOK},
		{http.MethodGet, "/livez/", http.StatusFound},
		{http.MethodGet, "/schedules", http.StatusFound},
		{http.MethodGet, "/auth/backchannel-logout/x", http.StatusFound},
	}
	for _, test := range tests {
		if got := s.ask(t, test.method, s.url+test.path, nil); got.StatusCode != test.want {
			t.Errorf("%s %s = %d, want %d", test.method, test.path, got.StatusCode, test.want)
		}
	}
}
