package idp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	issuer   = "http://localhost:8081"
	rpOrigin = "http://localhost:9000"
	rpAnswer = rpOrigin + "/callback"
	rpSecret = "s3cret"
)

// A world is the provider, a client program and a browser. They talk without a network, so that the clock can be the
// test's.
type world struct {
	*testing.T
	p       *Provider
	dir     string
	hosts   map[string]http.Handler
	browser *http.Client
	answers []url.Values // what the browser brought back to the client
	told    []string     // logout tokens
}

// inWorld runs test in a bubble whose time passes only when everything waits.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "idp.json"), madeOnce(), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, dir: dir, hosts: map[string]http.Handler{}}
		w.start()
		w.browser = w.newBrowser()
		w.hosts["localhost:9000"] = w.client()
		test(t, w)
	})
}

// madeOnce is the state that a first start made: a new key for every world would take longer than all the rest.
var madeOnce = sync.OnceValue(func() []byte {
	dir, err := os.MkdirTemp("", "idp")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s, _, err := openState(dir)
	if err != nil {
		panic(err)
	}
	content, err := os.ReadFile(s.path)
	if err != nil {
		panic(err)
	}
	return content
})

// start starts the provider, or starts it again.
func (w *world) start() {
	w.Helper()
	p, err := New(Config{Issuer: issuer, Dir: w.dir, HTTP: &http.Client{Transport: w}, Log: slog.New(slog.NewTextHandler(w.Output(), nil)),
		Clients: []Client{
			{ID: "console", Secret: rpSecret, RedirectURIs: []string{rpAnswer}, PostLogoutURIs: []string{rpOrigin + "/bye"}, BackChannelURI: rpOrigin + "/logout"},
			{ID: "public", RedirectURIs: []string{rpAnswer}, BackChannelURI: "http://localhost:1/nobody"},
		}})
	if err != nil {
		w.Fatalf("New() = %v", err)
	}
	w.p = p
	w.hosts["localhost:8081"] = p.Handler()
}

// client is the client program's own server.
func (w *world) client() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(_ http.ResponseWriter, r *http.Request) { w.answers = append(w.answers, r.URL.Query()) })
	mux.HandleFunc("GET /bye", func(_ http.ResponseWriter, r *http.Request) { w.answers = append(w.answers, r.URL.Query()) })
	mux.HandleFunc("POST /logout", func(_ http.ResponseWriter, r *http.Request) { w.told = append(w.told, r.FormValue("logout_token")) })
	return mux
}

func (w *world) newBrowser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	return &http.Client{Transport: w, Jar: jar}
}

// RoundTrip is the network.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	h, ok := w.hosts[r.URL.Host]
	if !ok {
		return nil, &url.Error{Op: r.Method, URL: r.URL.String(), Err: io.ErrUnexpectedEOF}
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.Host = r.URL.RequestURI(), r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, in)
	answer := rec.Result()
	answer.Request = r
	return answer, nil
}

func (w *world) account(name string) Account { return w.p.store.state.find(name).Account }

// A try is one sign-in of the client program.
type try struct {
	*world
	verifier, nonce string
	config          oauth2.Config
	page            string // what the browser shows
	status          int
	method          string // of the request that the page answers
	at              *url.URL
}

// ask sends the browser to the provider with the client's request and these parameters more; an empty value leaves
// one out.
func (w *world) ask(more url.Values) *try {
	w.Helper()
	t := &try{world: w, verifier: oauth2.GenerateVerifier(), nonce: "nonce-of-this-try"}
	t.config = oauth2.Config{ClientID: "console", ClientSecret: rpSecret, RedirectURL: rpAnswer, Scopes: []string{"openid", "profile", "email"},
		Endpoint: oauth2.Endpoint{AuthURL: issuer + "/authorize", TokenURL: issuer + "/oauth/token", AuthStyle: oauth2.AuthStyleInHeader}}
	u, err := url.Parse(t.config.AuthCodeURL("the-state", oauth2.S256ChallengeOption(t.verifier), oauth2.SetAuthURLParam("nonce", t.nonce)))
	if err != nil {
		w.Fatal(err)
	}
	q := u.Query()
	for k, v := range more {
		q[k] = v
		if v[0] == "" {
			delete(q, k)
		}
	}
	u.RawQuery = q.Encode()
	w.answers = nil
	answer, err := w.browser.Get(u.String())
	t.see(answer, err)
	return t
}

func (t *try) see(answer *http.Response, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("browser: %v", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	t.page, t.status, t.at, t.method = string(body), answer.StatusCode, answer.Request.URL, answer.Request.Method
}

var hiddenID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// submit sends the form on the page that leads to path.
func (t *try) submit(path string, fields url.Values) {
	t.Helper()
	id := hiddenID.FindStringSubmatch(t.page)
	if id == nil || !strings.Contains(t.page, `action="`+path+`"`) {
		t.Fatalf("the page has no form for %s:\n%s", path, t.page)
	}
	if fields == nil {
		fields = url.Values{}
	}
	fields.Set("id", id[1])
	answer, err := t.browser.PostForm(issuer+path, fields)
	t.see(answer, err)
}

// signIn gives the password of the account.
func (t *try) signIn(name string) {
	t.Helper()
	t.submit("/login", url.Values{"username": {name}, "password": {t.account(name).Password}})
}

// answer is what the client got at its redirect URI.
func (t *try) answer() url.Values {
	t.Helper()
	if len(t.answers) != 1 {
		t.Fatalf("the client got %d answers, want 1; the browser shows %d:\n%s", len(t.answers), t.status, t.page)
	}
	return t.answers[0]
}

// claims are what an ID token says, as far as the tests look.
type claims struct {
	Subject  string   `json:"sub"`
	AMR      []string `json:"amr"`
	ACR      string   `json:"acr"`
	AuthTime int64    `json:"auth_time"`
	SID      string   `json:"sid"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Verified bool     `json:"email_verified"`
}

// redeem exchanges the code and verifies the ID token as the console would.
func (t *try) redeem() claims {
	t.Helper()
	c, _ := t.tokens()
	return c
}

func (t *try) tokens() (c claims, raw string) {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), &http.Client{Transport: t.world})
	token, err := t.exchange(ctx)
	if err != nil {
		t.Fatalf("exchange the code: %v", err)
	}
	return verified(ctx, t, issuer, token, t.config.ClientID, t.nonce)
}

// verified is what the ID token says, if it is good.
func verified(ctx context.Context, t testing.TB, issuer string, token *oauth2.Token, clientID, nonce string) (c claims, raw string) {
	t.Helper()
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		t.Fatalf("discovery: %v", err)
	}
	raw, _ = token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: clientID, Now: time.Now}).Verify(ctx, raw)
	if err != nil {
		t.Fatalf("verify the ID token: %v", err)
	}
	if err := id.VerifyAccessToken(token.AccessToken); err != nil {
		t.Errorf("at_hash: %v", err)
	}
	if id.Nonce != nonce {
		t.Errorf("nonce = %q, want %q", id.Nonce, nonce)
	}
	if err := id.Claims(&c); err != nil {
		t.Fatal(err)
	}
	return c, raw
}

func (t *try) exchange(ctx context.Context) (*oauth2.Token, error) {
	t.Helper()
	return t.config.Exchange(ctx, t.answer().Get("code"), oauth2.VerifierOption(t.verifier))
}
