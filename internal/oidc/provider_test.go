package oidc

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

func TestDiscoveryRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(map[string]any)
		want   string
	}{
		{"another issuer", claim1("issuer", "https://evil.example"), "to the letter"},
		{"a slash too many", func(m map[string]any) { m["issuer"] = m["issuer"].(string) + "/" }, "a trailing slash included"},
		{"a token endpoint over http", claim1("token_endpoint", "http://idp.example/token"), "the token endpoint is not https"},
		{"an authorization endpoint over http", claim1("authorization_endpoint", "http://idp.example/a"), "the authorization endpoint is not https"},
		{"keys over http", claim1("jwks_uri", "http://idp.example/keys"), "the key set's address is not https"},
		{"an end-session endpoint over http", claim1("end_session_endpoint", "http://idp.example/out"), "the end-session endpoint is not https"},
		{"no token endpoint", claim1("token_endpoint", nil), "the token endpoint is not an https URL"},
		{"client authentication by key alone", claim1("token_endpoint_auth_methods_supported", []string{"private_key_jwt"}), "set the auth style"},
		{"a document of another shape", claim1("jwks_uri", 7), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := newIDP(t)
			i.metadata = tt.change
			p := NewProvider(ProviderConfig{Issuer: i.URL, ClientID: testClient, ClientSecret: testSecret, AllowHTTP: true}, slog.Default())
			err := p.Discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Discover() = %v, want an error with %q", err, tt.want)
			}
			if p.Status() != err {
				t.Errorf("Status() = %v, want %v", p.Status(), err)
			}
		})
	}
}

func TestDiscoveryOfWhatIsNoProvider(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(strings.Repeat(" ", maxAnswer+1))) }
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<h1>hello</h1>")) }, "decode"},
		{"500 with a long page", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			w.Write([]byte(strings.Repeat("x", 10_000)))
		}, "500"},
		{"a redirect loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, errRedirected.Error()},
		{"without end", endless, "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.handler)
			defer s.Close()
			p := NewProvider(ProviderConfig{Issuer: s.URL, AllowHTTP: true, Timeout: 5 * time.Second}, slog.Default())
			err := p.Discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 400 {
				t.Errorf("Discover() = %v, want a short error with %q", err, tt.want)
			}
		})
	}
}

// What was discovered stays in use when the provider goes away; Status says that it did.
func TestProviderGoesAway(t *testing.T) {
	w := newWorld(t)
	if err := w.provider.Status(); err != nil {
		t.Errorf("Status() = %v", err)
	}
	keys := w.provider.metadata.keys
	w.discover(t)
	if w.provider.metadata.keys != keys {
		t.Error("Discover() again forgets the keys")
	}
	w.idp.Close()
	if w.provider.Discover(t.Context()) == nil || w.provider.Status() == nil {
		t.Error("Status() does not say that the provider went away")
	}
	if _, err := w.signIn.Start(t.Context(), w.newBrowser().binder(), testRoute, testFrom); err != nil {
		t.Errorf("Start() = %v, want what was known to stay in use", err)
	}
}

// Run keeps trying until it succeeds, logs each change once, and ends with its context.
func TestRun(t *testing.T) {
	i := newIDP(t)
	log := &logBuffer{}
	p := NewProvider(ProviderConfig{Issuer: i.URL, ClientID: testClient, AllowHTTP: true}, slog.New(slog.NewTextHandler(log, nil)))
	down := make(chan struct{}, 1)
	i.metadata = func(m map[string]any) {
		select {
		case down <- struct{}{}:
			m["issuer"] = "https://not.yet.example"
		default:
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	for p.Status() != nil && t.Context().Err() == nil {
	}
	cancel()
	<-ended
	if got := i.discoveries.Load(); got != 2 {
		t.Errorf("discovered %d times, want a failure and a success", got)
	}
	if text := log.String(); strings.Count(text, "unavailable") > 1 {
		t.Errorf("log = %s, want one line for the change", text)
	}
}

func TestAuthStyle(t *testing.T) {
	tests := []struct {
		name, style, secret string
		advertised          []string
		want                oauth2.AuthStyle
	}{
		{"configured basic", "basic", "s", []string{"client_secret_post"}, oauth2.AuthStyleInHeader},
		{"configured post", "post", "s", nil, oauth2.AuthStyleInParams},
		{"configured none", "none", "", nil, oauth2.AuthStyleInParams},
		{"nothing advertised: basic is the default", "", "s", nil, oauth2.AuthStyleInHeader},
		{"both advertised", "", "s", []string{"client_secret_post", "client_secret_basic"}, oauth2.AuthStyleInHeader},
		{"post advertised", "", "s", []string{"client_secret_post"}, oauth2.AuthStyleInParams},
		{"a public client", "", "", []string{"client_secret_basic"}, oauth2.AuthStyleInParams},
	}
	for _, tt := range tests {
		p := NewProvider(ProviderConfig{AuthStyle: tt.style, ClientSecret: tt.secret}, slog.Default())
		if got, err := p.authStyle(tt.advertised); got != tt.want || err != nil {
			t.Errorf("authStyle() %s = %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// A provider that refuses how the client authenticates is asked once: the code is not sent a second time in another way.
func TestWrongAuthStyle(t *testing.T) {
	w := newWorld(t)
	w.idp.basic = false
	b := w.newBrowser()
	_, err := b.callback(t, b.start(t))
	refusal := w.refused(t, err, ProviderError)
	if !strings.Contains(refusal.Found, "invalid_client") || w.idp.tokenCalls.Load() != 1 {
		t.Errorf("Found = %q after %d calls, want the first error of one call", refusal.Found, w.idp.tokenCalls.Load())
	}
	w.idp.metadata = claim1("token_endpoint_auth_methods_supported", []string{"client_secret_post"})
	w.again(t)
	b.signedIn(t)
}

func TestProviderConfigCheck(t *testing.T) {
	good := ProviderConfig{Issuer: "https://idp.example/realms/ops", ClientID: "c", ClientSecret: "canary-secret"}
	with := func(change func(*ProviderConfig)) ProviderConfig { c := good; change(&c); return c }
	tests := []struct {
		name string
		c    ProviderConfig
		ok   bool
	}{
		{"good", good, true},
		{"http", with(func(c *ProviderConfig) { c.Issuer = "http://idp.example" }), false},
		{"http on loopback", with(func(c *ProviderConfig) { c.Issuer = "http://localhost:8080" }), false},
		{"http on loopback, allowed", with(func(c *ProviderConfig) { c.Issuer, c.AllowHTTP = "http://localhost:8080", true }), true},
		{"http elsewhere, allowed", with(func(c *ProviderConfig) { c.Issuer, c.AllowHTTP = "http://localhost.example", true }), false},
		{"a query", with(func(c *ProviderConfig) { c.Issuer = "https://idp.example?x" }), false},
		{"a password", with(func(c *ProviderConfig) { c.Issuer = "https://u:canary-secret@idp.example" }), false},
		{"no URL", with(func(c *ProviderConfig) { c.Issuer = "idp.example" }), false},
		{"no client id", with(func(c *ProviderConfig) { c.ClientID = "" }), false},
		{"unknown style", with(func(c *ProviderConfig) { c.AuthStyle = "auto" }), false},
		{"none with a secret", with(func(c *ProviderConfig) { c.AuthStyle = "none" }), false},
		{"post without a secret", with(func(c *ProviderConfig) { c.AuthStyle, c.ClientSecret = "post", "" }), false},
	}
	for _, tt := range tests {
		err := tt.c.Check()
		if (err == nil) != tt.ok {
			t.Errorf("Check() of %s = %v, want ok %v", tt.name, err, tt.ok)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("Check() of %s repeats a secret: %v", tt.name, err)
		}
	}
	for _, scopes := range [][]string{nil, {"email"}, {"email", "openid"}} {
		if got := strings.Join(ProviderConfig{Scopes: scopes}.scopes(), " "); !strings.Contains(got, "openid") {
			t.Errorf("scopes of %v = %s, want openid among them", scopes, got)
		}
	}
}

func TestCookies(t *testing.T) {
	tests := []struct{ public, name, path string }{
		{"https://ops.example", "__Host-ql3_session", "/"},
		{"https://ops.example/", "__Host-ql3_session", "/"},
		{"https://ops.example/console", "__Secure-ql3_session", "/console"},
		{"https://ops.example/a/b/", "__Secure-ql3_session", "/a/b"},
		{"http://localhost:8080", "ql3_session_8080", "/"},
		{"http://127.0.0.1/x", "ql3_session_80", "/x"},
		{"http://ops.example", "", ""},
		{"ftp://ops.example", "", ""},
	}
	for _, tt := range tests {
		c, err := CookiesFor(must(url.Parse(tt.public)))
		if (err == nil) != (tt.name != "") {
			t.Errorf("CookiesFor(%s) = %v", tt.public, err)
		} else if err == nil && (c.Name("session") != tt.name || c.Path != tt.path || c.Secure != strings.HasPrefix(tt.public, "https")) {
			t.Errorf("CookiesFor(%s) = %s on %s, want %s on %s", tt.public, c.Name("session"), c.Path, tt.name, tt.path)
		}
	}
}

func TestBinder(t *testing.T) {
	c := must(CookiesFor(must(url.Parse(testPublic))))
	name, good := c.Name(binderCookie), random()
	tests := []struct {
		name    string
		cookies []string
		want    string
	}{
		{"none", nil, ""},
		{"one", []string{good}, good},
		{"two: one is somebody else's", []string{good, random()}, ""},
		{"short", []string{"abc"}, ""},
		{"not base64", []string{strings.Repeat("!", 43)}, ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		for _, v := range tt.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: v})
		}
		if got := c.Binder(r); got != tt.want {
			t.Errorf("Binder() with %s = %q, want %q", tt.name, got, tt.want)
		}
		recorder := httptest.NewRecorder()
		if got := c.EnsureBinder(recorder, r); got == "" || (got == good) != (tt.want != "") {
			t.Errorf("EnsureBinder() with %s = %q", tt.name, got)
		}
		if set := len(recorder.Result().Cookies()); set == 1 == (tt.want != "") {
			t.Errorf("EnsureBinder() with %s sets %d cookies", tt.name, set)
		}
	}
}

func TestTrustedProxies(t *testing.T) {
	p := trusted(t, "10.0.0.0/24", "2001:db8::/64")
	tests := []struct {
		name, peer    string
		forwarded     []string
		wantPeer, was string
	}{
		{"no proxy", "192.0.2.1:1", []string{"203.0.113.1"}, "192.0.2.1", ""},
		{"a proxy", "10.0.0.1:1", []string{"203.0.113.1"}, "10.0.0.1", "203.0.113.1"},
		{"spoofed by the client", "10.0.0.1:1", []string{"127.0.0.1, 203.0.113.1"}, "10.0.0.1", "203.0.113.1"},
		{"two proxies", "10.0.0.1:1", []string{"203.0.113.1", "10.0.0.2"}, "10.0.0.1", "203.0.113.1"},
		{"all proxies", "10.0.0.1:1", []string{"10.0.0.2"}, "10.0.0.1", ""},
		{"with a port", "10.0.0.1:1", []string{"[2001:db8:1::1]:99"}, "10.0.0.1", "2001:db8:1::1"},
		{"no address", "10.0.0.1:1", []string{"203.0.113.1, <script>"}, "10.0.0.1", ""},
		{"none", "10.0.0.1:1", nil, "10.0.0.1", ""},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{"203.0.113.1"}, "10.0.0.1", "203.0.113.1"},
		{"IPv6 with a zone", "[2001:db8::1%eth0]:1", []string{"203.0.113.1"}, "2001:db8::1", "203.0.113.1"},
		{"no peer", "@", []string{"203.0.113.1"}, "", ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-For"] = tt.forwarded
		if peer, claimed := p.ClientAddress(r); peer != tt.wantPeer || claimed != tt.was {
			t.Errorf("ClientAddress() of %s = %q, %q, want %q, %q", tt.name, peer, claimed, tt.wantPeer, tt.was)
		}
	}
}

func TestTrustedProxiesCheck(t *testing.T) {
	for _, p := range []string{"0.0.0.0/0", "::/0", "::ffff:0:0/96", "::ffff:0.0.0.0/90"} {
		if _, err := NewTrustedProxies([]netip.Prefix{netip.MustParsePrefix(p)}); err == nil {
			t.Errorf("NewTrustedProxies(%s) trusts everybody", p)
		}
	}
	if _, err := NewTrustedProxies([]netip.Prefix{{}}); err == nil {
		t.Error("NewTrustedProxies() takes what is no prefix")
	}
}

func TestLimiter(t *testing.T) {
	l := NewLimiter()
	for i := range l.browsers.burst {
		if wait, ok := l.Allow("alice's browser", "192.0.2.1"); !ok {
			t.Fatalf("Allow() number %d = %v", i, wait)
		}
	}
	if wait, ok := l.Allow("alice's browser", "192.0.2.1"); ok || wait <= 0 || wait > 3*time.Second {
		t.Errorf("Allow() past the burst = %v, %v, want a wait", wait, ok)
	}
	if _, ok := l.Allow("bob's browser", "192.0.2.1"); !ok {
		t.Error("another browser at the same address is limited")
	}
	for range l.peers.burst {
		l.Allow("", "192.0.2.1") // without a binder, by address alone
	}
	if _, ok := l.Allow("", "192.0.2.1"); ok {
		t.Error("an address without a browser is not limited")
	}
	if _, ok := l.Allow("", "192.0.2.2"); !ok {
		t.Error("another address is limited")
	}
}

// Many keys do not fill the memory, and do not free one that is in use of its limit.
func TestLimiterIsBounded(t *testing.T) {
	b := bucket{rate: 0.001, burst: 1}
	now := time.Now()
	b.take("mine", now)
	for i := range 3 * maxBuckets {
		b.take(string(rune(i))+"x", now)
		if i%1000 == 0 && b.take("mine", now) == 0 {
			t.Fatalf("after %d others the limit was forgotten", i)
		}
	}
	if n := len(b.new) + len(b.old); n > 2*maxBuckets {
		t.Errorf("%d limits are kept, want at most %d", n, 2*maxBuckets)
	}
}
