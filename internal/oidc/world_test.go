package oidc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/process"
	"github.com/qinglong/console/migrations"
)

const (
	testPublic   = "https://ops.example/console"
	testRedirect = testPublic + "/auth/callback"
)

var testFrom = Client{Peer: "192.0.2.7", Claimed: "203.0.113.9", UserAgent: "Browser/1", RequestID: "req-1"}

// A world is one replica with its database and its provider.
type world struct {
	db       *pgtest.Database
	super    *pgxpool.Pool
	idp      *idp
	provider *Provider
	cookies  Cookies
	sessions *Sessions
	signIn   *SignIn
	log      *process.Output
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), idp: newIDP(t), log: &process.Output{}}
	w.super = w.db.Super(t)
	w.cookies = must(CookiesFor(must(url.Parse(testPublic))))
	authn := w.db.Pool(t, migrations.RoleAuthn)
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.provider = NewProvider(w.config(), log)
	w.sessions = NewSessions(SessionsConfig{Console: w.db.Pool(t, migrations.RoleConsole), Authn: authn, Cookies: w.cookies})
	w.signIn = NewSignIn(SignInConfig{Provider: w.provider, Sessions: w.sessions, Authn: authn, RedirectURL: testRedirect, Log: log})
	w.discover(t)
	return w
}

func (w *world) config() ProviderConfig {
	return ProviderConfig{Issuer: w.idp.URL, ClientID: testClient, ClientSecret: testSecret, JoinClaim: "employee", AllowHTTP: true, Timeout: 2 * time.Second}
}

func (w *world) discover(t *testing.T) {
	t.Helper()
	if err := w.provider.Discover(t.Context()); err != nil {
		t.Fatalf("Discover() = %v", err)
	}
}

// again forgets the provider and what this replica knows of its keys, and discovers it again.
func (w *world) again(t *testing.T) {
	t.Helper()
	w.provider.metadata = nil
	w.discover(t)
}

func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	pgtest.Exec(t, w.super, sql, args...)
}

func scan[T any](t testing.TB, w *world, sql string, args ...any) T {
	t.Helper()
	return pgtest.Value[T](t, w.super, sql, args...)
}

// A browser keeps cookies.
type browser struct {
	*world
	jar map[string]*http.Cookie
}

func (w *world) newBrowser() *browser {
	b := &browser{world: w, jar: map[string]*http.Cookie{}}
	answer := httptest.NewRecorder()
	w.cookies.EnsureBinder(answer, b.request())
	b.keep(answer)
	return b
}

func (b *browser) request() *http.Request {
	r := httptest.NewRequest("GET", testPublic+"/", nil)
	for _, c := range b.jar {
		r.AddCookie(c)
	}
	return r
}

func (b *browser) keep(answer *httptest.ResponseRecorder) {
	for _, c := range answer.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.jar, c.Name)
		} else {
			b.jar[c.Name] = c
		}
	}
}

func (b *browser) binder() string { return b.cookies.Binder(b.request()) }

// load is a new request of the browser.
func (b *browser) load(t testing.TB) context.Context {
	t.Helper()
	ctx, err := b.sessions.Load(b.request(), true, nil)
	if err != nil {
		t.Fatalf("Load() = %v", err)
	}
	return ctx
}

// start begins a sign-in and returns the provider's answer.
func (b *browser) start(t testing.TB) url.Values {
	t.Helper()
	where, err := b.signIn.Start(t.Context(), b.binder(), testRoute, testFrom)
	if err != nil {
		t.Fatalf("Start() = %v", err)
	}
	return b.idp.authorize(t, where)
}

var testRoute = Route{Name: "run", IDs: map[string]string{"id": "42"}, Query: url.Values{"tab": {"events"}}}

func (b *browser) callback(t testing.TB, answer url.Values) (Outcome, error) {
	t.Helper()
	ctx := b.load(t)
	recorder := httptest.NewRecorder()
	outcome, err := b.signIn.Callback(ctx, recorder, b.binder(), answer, testFrom)
	b.keep(recorder)
	return outcome, err
}

func (b *browser) signedIn(t testing.TB) Session {
	t.Helper()
	outcome, err := b.callback(t, b.start(t))
	if err != nil {
		t.Fatalf("Callback() = %v", err)
	}
	return outcome.Session
}

// current is what a new request of the browser is told.
func (b *browser) current(t testing.TB) (Session, error) {
	t.Helper()
	return Current(b.load(t))
}

// ended is why a new request of the browser has no session, or "".
func (b *browser) ended(t testing.TB) string {
	t.Helper()
	_, err := b.current(t)
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Ended](err)
	if !ok || !errors.Is(err, ErrSignedOut) {
		t.Fatalf("Current() = %v, want an *Ended that is ErrSignedOut", err)
	}
	return e.Reason
}

func kindOf(err error) Kind {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Kind
	}
	return ""
}

// refused fails the test unless err is a refusal of that kind, audited once as denied under its diagnostic id.
func (w *world) refused(t testing.TB, err error, want Kind) *Refusal {
	t.Helper()
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || refusal.Kind != want {
		t.Fatalf("error = %v, want a refusal of kind %s", err, want)
	}
	if refusal.Found.Empty() || refusal.Next.Empty() || refusal.Diagnostic == "" {
		t.Errorf("refusal = %+v, want it to say what was found, what is next and a diagnostic id", refusal)
	}
	rows := scan[int](t, w, `SELECT count(*) FROM security_audit_events WHERE outcome = 'denied' AND reason = $1 AND detail ->> 'diagnostic' = $2`, want, refusal.Diagnostic)
	if rows != 1 {
		t.Errorf("the refusal has %d audit rows, want 1", rows)
	}
	if !strings.Contains(w.log.String(), refusal.Diagnostic) {
		t.Error("the refusal is not in the log")
	}
	return refusal
}

func (w *world) liveSessions(t testing.TB) int {
	t.Helper()
	return scan[int](t, w, `SELECT count(*) FROM console_sessions WHERE revoked_at_ms IS NULL`)
}
