package oidc

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/qinglong/console/internal/process"
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
	log := &process.Output{}
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
	if !strings.Contains(refusal.Found.String(), "invalid_client") || w.idp.tokenCalls.Load() != 1 {
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
