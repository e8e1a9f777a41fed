package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/process"
)

// hostile are headers that proxies set and that some servers build addresses of.
var hostileHeaders = map[string]string{
	"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/evil", "X-Forwarded-Port": "666", "X-Forwarded-Server": "evil.example",
	"Forwarded": "host=evil.example;proto=http;for=127.0.0.1", "X-Original-URL": "/evil", "X-Rewrite-URL": "/evil", "X-Original-Host": "evil.example", "X-Host": "evil.example",
	"X-Forwarded-Scheme": "http", "X-Script-Name": "/evil", "X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "X-Http-Method-Override": "DELETE",
}

var state = regexp.MustCompile(`(state|nonce|code_challenge)=[A-Za-z0-9_-]+`)

func TestHostileHeadersChangeNoAddress(t *testing.T) {
	for _, base := range []string{"", "/x", "/x/y"} {
		v := newTown(t, base)
		v.config.Identity.Trusted = trusting(t, "192.0.2.0/24") // the peer of every request below
		h := New(v.config)
		who := signIn(t, v.config, "reader")
		grant(t, v.Database, who, policy.Viewer, "ops")
		ask := func(method, target string, as *person, hostile bool) string {
			r := httptest.NewRequest(method, "https://console.example"+base+target, nil)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if as != nil {
				r.AddCookie(as.cookie)
			}
			if hostile {
				r.Host = "evil.example"
				for name, value := range hostileHeaders {
					r.Header.Set(name, value)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			res := w.Result()
			said := res.Status + " " + res.Header.Get("Location") + " " + res.Header.Get("Content-Security-Policy")
			for _, c := range res.Cookies() {
				said += " " + c.Name + " " + c.Domain + c.Path
				if c.Path != map[bool]string{true: "/", false: base}[base == ""] || c.Domain != "" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
					t.Errorf("%s %s%s sets the cookie %v", method, base, target, c)
				}
			}
			for _, m := range address.FindAllStringSubmatch(w.Body.String(), -1) {
				said += "\n" + m[1]
			}
			said += strings.Join(refresh.FindStringSubmatch(w.Body.String()), " ")
			return state.ReplaceAllString(said, "$1=")
		}
		for _, x := range []struct {
			method, target string
			as             *person
		}{{"GET", "/", nil}, {"GET", "/runs?project=ops", nil}, {"GET", signInPath, nil}, {"POST", signInPath, nil}, {"GET", CallbackPath, nil}, {"GET", SignedOutPath, nil},
			{"GET", "/", &who}, {"GET", "/runs", &who}, {"GET", "/account", &who}, {"GET", "/nowhere", &who}, {"POST", signOutPath, &who}} {
			if plain, hostile := ask(x.method, x.target, x.as, false), ask(x.method, x.target, x.as, true); plain != hostile && x.target != signOutPath || strings.Contains(hostile, "evil") {
				t.Errorf("%s %s%s with hostile headers says\n%s\nwithout\n%s", x.method, base, x.target, hostile, plain)
			}
		}
		if said := ask("POST", signInPath, nil, true); !strings.Contains(said, "redirect_uri="+url.QueryEscape(v.public+CallbackPath)) {
			t.Errorf("the sign-in below %q has another redirect URI:\n%s", base, said)
		}
	}
}

// What another site makes the browser send does nothing.
func TestForeignPagesDoNothing(t *testing.T) {
	v := newTown(t, "")
	h := New(v.config)
	who := signIn(t, v.config, "reader")
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	tests := []struct {
		name, method, target string
		headers              []string
		status               int
	}{
		{"a foreign form that signs in", "POST", signInPath, append(form, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
		{"a form of a sibling that signs in", "POST", signInPath, append(form, "Sec-Fetch-Site", "same-site", "Origin", "https://evil."+strings.TrimPrefix(v.origin, "https://")), 403},
		{"a foreign form, from an old browser", "POST", signInPath, append(form, "Origin", "https://evil.example"), 403},
		{"a form of no origin", "POST", signInPath, append(form, "Origin", "null"), 403},
		{"a form in a frame", "POST", signInPath, append(form, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "iframe"), 403},
		{"a script", "POST", signInPath, append(form, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "empty"), 403},
		{"a JSON body", "POST", signInPath, []string{"Content-Type", "application/json"}, 415},
		{"no body", "POST", signInPath, nil, 415},
		{"an upload", "POST", signInPath, []string{"Content-Type", "multipart/form-data; boundary=x"}, 415},
		{"an image of the sign-in page", "GET", signInPath, []string{"Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "cross-site"}, 200},
		{"an image of the callback", "GET", CallbackPath + "?code=x&state=y", []string{"Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "cross-site"}, 400},
		{"a foreign form that signs out", "POST", signOutPath, append(form, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
		{"a foreign form that signs out everywhere", "POST", signOutEverywherePath, append(form, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
		{"a link that signs out", "GET", signOutPath, []string{"Sec-Fetch-Dest", "document"}, 405},
		{"an image that signs out everywhere", "GET", signOutEverywherePath, []string{"Sec-Fetch-Dest", "image"}, 405},
	}
	for _, tt := range tests {
		if res := do(t, who.as(h), tt.method, tt.target, tt.headers...); res.StatusCode != tt.status || len(res.Cookies()) > 0 {
			t.Errorf("%s: %s %s = %d, cookies %v, want %d and none:\n%s", tt.name, tt.method, tt.target, res.StatusCode, res.Cookies(), tt.status, res.body)
		}
	}
	var begun int
	if err := v.Super(t).QueryRow(t.Context(), `SELECT count(*) FROM ql3.auth_transactions`).Scan(&begun); err != nil || begun != 0 {
		t.Errorf("%d sign-ins were begun, %v, want none", begun, err)
	}
	if res := get(t, who.as(h), "/account"); res.StatusCode != http.StatusOK {
		t.Errorf("afterwards GET /account = %d, want the session alive", res.StatusCode)
	}
	if res := do(t, who.as(h), "POST", signOutPath, append(form, "Sec-Fetch-Site", "cross-site", "Origin", v.origin)...); res.StatusCode != http.StatusOK {
		t.Errorf("a form of the public origin, which a proxy made look foreign, = %d, want 200", res.StatusCode)
	}
}

// fromProxy asks h as a proxy at 192.0.2.1 does. It returns the session's cookie, if one was set.
func fromProxy(t *testing.T, h http.Handler, method, target string, cookie *http.Cookie, headers ...string) (answered, *http.Cookie) {
	t.Helper()
	if cookie != nil {
		h = person{cookie: cookie}.as(h)
	}
	res := do(t, h, method, target, headers...)
	for _, c := range res.Cookies() {
		if strings.HasSuffix(c.Name, "session") && c.MaxAge >= 0 {
			return res, c
		}
	}
	return res, nil
}

func TestProxyNone(t *testing.T) {
	h := New(config(t, newWorld(t).Database, ""))
	for _, header := range []string{"X-Forwarded-User", "Remote-User", "X-Auth-Request-User", "X_Forwarded_User", "X-Pomerium-Jwt-Assertion"} {
		if res, session := fromProxy(t, h, "GET", "/runs", nil, header, "admin"); res.StatusCode != http.StatusSeeOther || session != nil {
			t.Errorf("GET /runs with %s = %d, session %v, want 303 and none", header, res.StatusCode, session)
		}
	}
}

func TestProxyHeaders(t *testing.T) {
	w := newWorld(t)
	proxy := oidc.ProxyConfig{Mode: "headers", Name: "sso", UserHeader: "X-Forwarded-User", EmailHeader: "X-Forwarded-Email", Trusted: trusting(t, "192.0.2.1/32")}
	c := configAt(t, w.Database, "https://console.example/x", proxy)
	h := New(c)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}

	res, alice := fromProxy(t, h, "GET", "/x/runs", nil, "X-Forwarded-User", "alice", "X-Forwarded-Email", "alice@example.com")
	if res.StatusCode != http.StatusForbidden || alice == nil || !strings.Contains(res.body, "--subject &#39;proxy:sso&#39; &#39;alice&#39;") {
		t.Fatalf("GET as alice = %d, session %v, want the page of one who has no role:\n%s", res.StatusCode, alice, res.body)
	}
	u, err := policy.FindUser(t.Context(), w.Super(t), "proxy:sso alice")
	if err != nil {
		t.Fatal(err)
	}
	grant(t, w.Database, person{id: u.ID}, policy.Viewer, "ops")

	tests := []struct {
		name, method, target string
		cookie               *http.Cookie
		headers              []string
		status               int
	}{
		{"alice again", "GET", "/x/runs", alice, []string{"X-Forwarded-User", "alice"}, 200},
		{"a cookie alone", "GET", "/x/runs", alice, nil, 401},
		{"a cookie alone that signs out", "POST", "/x" + signOutPath, alice, form, 401},
		{"nobody", "GET", "/x/runs", nil, nil, 401},
		{"two in one", "GET", "/x/runs", alice, []string{"X-Forwarded-User", "alice, bob"}, 400},
		{"underscores", "GET", "/x/runs", alice, []string{"X_Forwarded_User", "alice"}, 401},
		{"a form without a session", "POST", "/x" + signOutEverywherePath, nil, append(form, "X-Forwarded-User", "alice"), 401},
		{"a client without a session", "GET", "/x/runs.json", nil, []string{"X-Forwarded-User", "alice"}, 401},
		{"no sign-in of our own", "POST", "/x" + signInPath, alice, append(form, "X-Forwarded-User", "alice"), 405},
		{"no callback", "GET", "/x" + CallbackPath, alice, []string{"X-Forwarded-User", "alice"}, 404},
		{"the sign-in page", "GET", "/x" + signInPath, nil, []string{"X-Forwarded-User", "alice"}, 200},
		{"signed out there", "GET", "/x" + SignedOutPath, nil, []string{"X-Forwarded-User", "alice"}, 200},
		{"a probe", "GET", "/x/livez", nil, nil, 200},
		{"the provider", "POST", "/x" + BackChannelPath, nil, form, 400},
	}
	for _, tt := range tests {
		if res, session := fromProxy(t, h, tt.method, tt.target, tt.cookie, tt.headers...); res.StatusCode != tt.status || session != nil {
			t.Errorf("%s: %s %s = %d, new session %v, want %d and none:\n%s", tt.name, tt.method, tt.target, res.StatusCode, session, tt.status, res.body)
		}
	}

	r := httptest.NewRequest("GET", "https://console.example/x/runs", nil)
	r.RemoteAddr = "203.0.113.1:1"
	r.Header.Set("X-Forwarded-User", "alice")
	r.AddCookie(alice)
	outside := httptest.NewRecorder()
	if h.ServeHTTP(outside, r); outside.Code != http.StatusUnauthorized {
		t.Errorf("GET from outside the trusted proxies = %d, want 401", outside.Code)
	}
	r = httptest.NewRequest("GET", "https://console.example/x/runs", nil)
	r.Header["X-Forwarded-User"] = []string{"alice", "bob"}
	r.AddCookie(alice)
	twice := httptest.NewRecorder()
	if h.ServeHTTP(twice, r); twice.Code != http.StatusBadRequest {
		t.Errorf("GET with two user headers = %d, want 400", twice.Code)
	}

	if res, session := fromProxy(t, h, "GET", "/x/runs", alice, "X-Forwarded-User", "bob", "Accept", "text/html"); res.StatusCode != http.StatusUnauthorized || session != nil ||
		!strings.Contains(res.body, "another user") {
		t.Errorf("GET as bob with alice's session = %d, session %v, want 401 that says so:\n%s", res.StatusCode, session, res.body)
	}
	if res, session := fromProxy(t, h, "GET", "/x/runs", alice, "X-Forwarded-User", "alice"); res.StatusCode != http.StatusOK || session == nil || session.Value == alice.Value {
		t.Errorf("GET as alice with the session that ended = %d, session %v, want a new one", res.StatusCode, session)
	}
}

func TestProxyJWT(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	}))
	t.Cleanup(keys.Close)
	w := newWorld(t)
	proxy := oidc.ProxyConfig{Mode: "jwt", Preset: "pomerium", Issuer: "sso.example", Audience: "console.example", KeysURL: keys.URL, AllowHTTP: true}
	h := New(configAt(t, w.Database, "https://console.example", proxy))
	token := func(change func(map[string]any)) string {
		claims := map[string]any{"iss": "sso.example", "aud": "console.example", "sub": "alice", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
		change(claims)
		payload, _ := json.Marshal(claims)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	good := token(func(map[string]any) {})
	tests := []struct {
		name    string
		headers []string
		status  int
	}{
		{"good", []string{"X-Pomerium-Jwt-Assertion", good}, 403}, // no role yet
		{"none", nil, 401},
		{"in another header", []string{"Authorization", "Bearer " + good}, 401},
		{"another audience", []string{"X-Pomerium-Jwt-Assertion", token(func(c map[string]any) { c["aud"] = "other" })}, 401},
		{"expired", []string{"X-Pomerium-Jwt-Assertion", token(func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() })}, 401},
		{"garbage", []string{"X-Pomerium-Jwt-Assertion", "canary"}, 401},
		{"12 KB", []string{"X-Pomerium-Jwt-Assertion", token(func(c map[string]any) { c["groups"] = strings.Repeat("g", 9<<10) })}, 403},
	}
	for _, tt := range tests {
		if res, session := fromProxy(t, h, "GET", "/runs", nil, tt.headers...); res.StatusCode != tt.status || (session != nil) != (tt.status == 403) {
			t.Errorf("%s: GET /runs = %d, session %v, want %d:\n%s", tt.name, res.StatusCode, session, tt.status, res.body)
		}
	}
}

// The log names routes by their patterns and holds nothing that a request brought.
func TestLogHoldsNoSecrets(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	log := &process.Output{}
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := signIn(t, c, "reader")
	grant(t, w.Database, p, policy.Viewer, "ops")
	h := p.as(New(c))
	for _, target := range []string{"/runs?status=canary", "/runs?canary=1", "/runs?task=canary&after=canary", "/schedules?state=canary", "/nowhere/canary?canary", "/runs/canary", CallbackPath + "?code=canary&state=canary"} {
		get(t, h, target, "Authorization", "Bearer canary", "X-Forwarded-User", "canary", "Referer", "https://canary.example", "Cookie", "x=canary")
	}
	if strings.Contains(log.String(), "canary") || strings.Contains(log.String(), p.cookie.Value) {
		t.Errorf("the log holds what a request brought:\n%s", log)
	}
	if !strings.Contains(log.String(), "route=/runs/:id") {
		t.Errorf("the log does not name a route by its pattern:\n%s", log)
	}
}
