package oidc

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/migrations"
)

func trusted(t testing.TB, prefixes ...string) TrustedProxies {
	t.Helper()
	var parsed []netip.Prefix
	for _, p := range prefixes {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return must(NewTrustedProxies(parsed))
}

func (w *world) proxy(t testing.TB, c ProxyConfig) *ProxyIdentity {
	t.Helper()
	c.AllowHTTP = true
	if err := c.Check(); err != nil {
		t.Fatalf("Check() = %v", err)
	}
	return NewProxyIdentity(c, w.db.Pool(t, migrations.RoleConsole), slog.New(slog.NewTextHandler(w.log, nil)))
}

func proxied(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", testPublic+"/", nil)
	r.RemoteAddr = peer + ":4321"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// Mode none ignores every header by which a proxy could name somebody, and hides it from whoever else would read it.
func TestProxyNone(t *testing.T) {
	p := NewProxyIdentity(ProxyConfig{}, nil, slog.Default())
	r := proxied("10.0.0.1")
	for _, h := range []string{"X-Forwarded-User", "X_Forwarded_User", "x-forwarded-email", "X-Auth-Request-User", "Remote-User", "X-Pomerium-Jwt-Assertion",
		"X-Goog-Iap-Jwt-Assertion", "Cf-Access-Jwt-Assertion", "X-Amzn-Oidc-Data", "X-Amzn_Oidc-Identity"} {
		r.Header[h] = []string{"admin"}
	}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	i, err := p.Identify(r)
	if i != (Identity{}) || err != nil || p.Enforced() {
		t.Errorf("Identify() = %+v, %v, want nobody", i, err)
	}
	if diff := cmp.Diff(http.Header{"X-Forwarded-For": {"192.0.2.1"}}, r.Header); diff != "" {
		t.Errorf("headers left (-want +got):\n%s", diff)
	}
}

func TestProxyHeaders(t *testing.T) {
	w := newWorld(t)
	p := w.proxy(t, ProxyConfig{Mode: "headers", Name: "sso", UserHeader: "X-Forwarded-User", EmailHeader: "X-Forwarded-Email", NameHeader: "X-Name", Trusted: trusted(t, "10.0.0.0/24")})
	if !strings.Contains(w.log.String(), "proxy identity by headers") {
		t.Error("mode headers gives no warning at the start")
	}
	alice := Identity{Origin: OriginProxyHeaders, Issuer: "proxy:sso", Subject: "alice"}
	full := alice
	full.Email, full.Name = "alice@example.com", "Alice"
	tests := []struct {
		name string
		r    *http.Request
		want Identity
		kind Kind
	}{
		{"alone", proxied("10.0.0.1", "X-Forwarded-User", "alice"), alice, ""},
		{"with address and name", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-Email", "alice@example.com", "X-Name", "Al\u202eice"), full, ""},
		{"peer outside the list", proxied("10.0.1.1", "X-Forwarded-User", "alice"), Identity{}, NoIdentity},
		{"no header", proxied("10.0.0.1"), Identity{}, NoIdentity},
		{"empty", proxied("10.0.0.1", "X-Forwarded-User", ""), Identity{}, NoIdentity},
		{"two values", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-User", "admin"), Identity{}, AmbiguousIdentity},
		{"the same twice", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-User", "alice"), Identity{}, AmbiguousIdentity},
		{"a comma", proxied("10.0.0.1", "X-Forwarded-User", "alice, admin"), Identity{}, AmbiguousIdentity},
		{"two addresses", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-Email", "a@example.com", "X-Forwarded-Email", "b@example.com"), Identity{}, AmbiguousIdentity},
		{"underscores", proxied("10.0.0.1", "X_Forwarded_User", "admin"), Identity{}, NoIdentity},
		{"underscores beside", proxied("10.0.0.1", "X_Forwarded_User", "admin", "X-Forwarded-User", "alice"), alice, ""},
		{"control characters", proxied("10.0.0.1", "X-Forwarded-User", "al\x00ice"), Identity{}, BadToken},
		{"not UTF-8", proxied("10.0.0.1", "X-Forwarded-User", "al\xffice"), Identity{}, BadToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.Identify(tt.r)
			if got != tt.want || kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
				t.Errorf("Identify() = %+v, %v, want %+v, %q", got, err, tt.want, tt.kind)
			}
			if len(tt.r.Header) != 0 {
				t.Errorf("headers left: %v", tt.r.Header)
			}
		})
	}
}

func TestProxyConfigCheck(t *testing.T) {
	jwt := ProxyConfig{Mode: "jwt", Header: "X-Jwt", Issuer: "i", Audience: "a", Algorithms: []string{"ES256"}, KeysURL: "https://keys.example"}
	headers := ProxyConfig{Mode: "headers", Name: "sso", UserHeader: "X-User", Trusted: trusted(t, "10.0.0.1/32")}
	with := func(c ProxyConfig, change func(*ProxyConfig)) ProxyConfig { change(&c); return c }
	tests := []struct {
		name string
		c    ProxyConfig
		ok   bool
	}{
		{"none", ProxyConfig{Mode: "none"}, true},
		{"unknown mode", ProxyConfig{Mode: "header"}, false},
		{"jwt", jwt, true},
		{"jwt without a header", with(jwt, func(c *ProxyConfig) { c.Header = "" }), false},
		{"jwt without an issuer", with(jwt, func(c *ProxyConfig) { c.Issuer = "" }), false},
		{"jwt without an audience", with(jwt, func(c *ProxyConfig) { c.Audience = "" }), false},
		{"jwt with a MAC", with(jwt, func(c *ProxyConfig) { c.Algorithms = []string{"HS256"} }), false},
		{"jwt without algorithms", with(jwt, func(c *ProxyConfig) { c.Algorithms = nil }), false},
		{"jwt with keys over http", with(jwt, func(c *ProxyConfig) { c.KeysURL = "http://keys.example" }), false},
		{"unknown preset", with(jwt, func(c *ProxyConfig) { c.Preset = "x" }), false},
		{"google-iap needs an audience alone", ProxyConfig{Mode: "jwt", Preset: "google-iap", Audience: "/projects/1/x"}, true},
		{"cloudflare-access knows where the keys are", ProxyConfig{Mode: "jwt", Preset: "cloudflare-access", Issuer: "https://t.cloudflareaccess.com", Audience: "a"}, true},
		{"aws-alb", ProxyConfig{Mode: "jwt", Preset: presetALB, Issuer: "i", Audience: "a", Signer: albARN}, true},
		{"aws-alb without a signer", ProxyConfig{Mode: "jwt", Preset: presetALB, Issuer: "i", Audience: "a", KeysURL: "https://keys.example"}, false},
		{"headers", headers, true},
		{"headers that anybody may send", with(headers, func(c *ProxyConfig) { c.Trusted = TrustedProxies{} }), false},
		{"headers without a user", with(headers, func(c *ProxyConfig) { c.UserHeader = "" }), false},
		{"headers without a name", with(headers, func(c *ProxyConfig) { c.Name = "" }), false},
		{"a header with an underscore", with(headers, func(c *ProxyConfig) { c.EmailHeader = "X_Email" }), false},
	}
	for _, tt := range tests {
		if err := tt.c.Check(); (err == nil) != tt.ok {
			t.Errorf("Check() of %s = %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

func TestFromProxy(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	log := slog.New(slog.NewTextHandler(w.log, nil))
	alice := Identity{Origin: OriginProxyJWT, Issuer: "https://proxy.example", Subject: "alice"}
	bob := Identity{Origin: OriginProxyJWT, Issuer: "https://proxy.example", Subject: "bob"}
	visit := func(i Identity, mayBegin bool) (Session, error) {
		recorder := httptest.NewRecorder()
		ctx, err := w.sessions.FromProxy(b.load(t), recorder, i, testFrom, mayBegin, log)
		b.keep(recorder)
		if err != nil {
			return Session{}, err
		}
		return Current(ctx)
	}
	ended := func(err error, want string) {
		t.Helper()
		if e, ok := errors.AsType[*Ended](err); !ok || e.Reason != want {
			t.Errorf("FromProxy() = %v, want ended by %s", err, want)
		}
	}

	_, err := visit(alice, false)
	ended(err, "none") // a form does not begin a session
	first, err := visit(alice, true)
	if err != nil || first.Subject != "alice" || first.Origin != OriginProxyJWT {
		t.Fatalf("FromProxy() = %+v, %v, want a session", first, err)
	}
	if again, err := visit(alice, false); err != nil || again.ID != first.ID {
		t.Errorf("FromProxy() again = %v, %v, want the same session", again.ID, err)
	}

	_, err = visit(bob, true)
	ended(err, "user_switched")
	now, err := visit(bob, true)
	if err != nil || now.Subject != "bob" {
		t.Errorf("FromProxy() after the switch = %+v, %v, want bob's session", now, err)
	}
	if _, err := w.sessions.Recheck(t.Context(), first); err == nil || !strings.Contains(err.Error(), "user_switched") {
		t.Errorf("Recheck() of alice's session = %v, want user_switched", err)
	}

	w.exec(t, `UPDATE users SET status = 'disabled' WHERE subject = 'bob'`)
	_, err = visit(bob, true)
	w.refused(t, err, Disabled)
}
