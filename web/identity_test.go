package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web/live"
)

const testIssuer = "https://idp.example/realms/ops"

// config is of a console below base over d, whose identity provider was never discovered. Without a database everything
// that would ask one panics.
func config(t testing.TB, d *pgtest.Database, base string) Config {
	t.Helper()
	return configAt(t, d, "https://console.example"+base, oidc.ProxyConfig{})
}

func configAt(t testing.TB, d *pgtest.Database, address string, proxy oidc.ProxyConfig) Config {
	t.Helper()
	public, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	console, authn := (*pgxpool.Pool)(nil), (*pgxpool.Pool)(nil)
	if d != nil {
		console, authn = d.Pool(t, migrations.RoleConsole), d.Pool(t, migrations.RoleAuthn)
	}
	c := Config{DB: console, Log: log, PublicURL: public, Ready: func() bool { return true }, Version: "test", Live: live.New()}
	c.Identity = identity(t, public, console, authn, proxy, log)
	return c
}

func identity(t testing.TB, public *url.URL, console, authn *pgxpool.Pool, proxy oidc.ProxyConfig, log *slog.Logger) *Identity {
	t.Helper()
	cookies, err := oidc.CookiesFor(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := proxy.Check(); err != nil {
		t.Fatal(err)
	}
	provider := oidc.NewProvider(oidc.ProviderConfig{Issuer: testIssuer, ClientID: "console"}, log)
	sessions := oidc.NewSessions(oidc.SessionsConfig{Console: console, Authn: authn, Cookies: cookies})
	return &Identity{
		Provider: provider, Sessions: sessions, Cookies: cookies, Limiter: oidc.NewLimiter(), Trusted: proxy.Trusted,
		Proxy: oidc.NewProxyIdentity(proxy, console, log), BackChannel: oidc.NewBackChannel(provider, authn, log),
		SignIn: oidc.NewSignIn(oidc.SignInConfig{Provider: provider, Sessions: sessions, Authn: authn, Log: log, RedirectURL: public.JoinPath(CallbackPath).String()}),
	}
}

// A person is a User who signed in, with the cookie of that session.
type person struct {
	subject string
	id      uuid.UUID
	cookie  *http.Cookie
}

// signIn begins a session for subject, as what a proxy says begins one.
func signIn(t testing.TB, c Config, subject string) person {
	t.Helper()
	w := httptest.NewRecorder()
	ctx, err := c.Identity.Sessions.Load(httptest.NewRequest("GET", "/", nil), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	who := oidc.Identity{Origin: oidc.OriginOIDC, Issuer: testIssuer, Subject: subject, Name: "Name of " + subject, Email: subject + "@example.com", EmailVerified: true}
	ctx, err = c.Identity.Sessions.FromProxy(ctx, w, who, oidc.Client{Peer: "192.0.2.7", UserAgent: "Browser of " + subject}, true, c.Log)
	if err != nil {
		t.Fatal(err)
	}
	session, err := oidc.Current(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return person{subject, session.UserID, w.Result().Cookies()[0]}
}

// grant gives p a role in each of the projects.
func grant(t testing.TB, d *pgtest.Database, p person, role policy.Role, projects ...string) {
	t.Helper()
	for _, project := range projects {
		if _, err := policy.Grant(t.Context(), d.Pool(t, migrations.RoleAdmin), policy.GrantRequest{Project: project, User: p.id, Role: role,
			MutationID: uuid.New(), Actor: policy.Actor{Type: policy.ByCommand, Name: "test"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// as makes every request to h come from p's browser.
func (p person) as(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.AddCookie(p.cookie)
		h.ServeHTTP(w, r)
	})
}

// reader is a console below base, seen by somebody who may read the projects; none named are all.
func reader(t testing.TB, d *pgtest.Database, base string, projects ...string) http.Handler {
	t.Helper()
	return readerOf(t, d, config(t, d, base), projects...)
}

func readerOf(t testing.TB, d *pgtest.Database, c Config, projects ...string) http.Handler {
	t.Helper()
	if len(projects) == 0 {
		projects = pgtest.Column[string](t, d.Super(t), `SELECT id FROM projects`)
	}
	p := signIn(t, c, "reader")
	grant(t, d, p, policy.Viewer, projects...)
	return p.as(New(c))
}

func trusting(t testing.TB, prefixes ...string) oidc.TrustedProxies {
	t.Helper()
	var list []netip.Prefix
	for _, p := range prefixes {
		list = append(list, netip.MustParsePrefix(p))
	}
	trusted, err := oidc.NewTrustedProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return trusted
}
