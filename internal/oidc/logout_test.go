package oidc

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/qinglong/console/migrations"
)

func (w *world) backChannel(t *testing.T) *BackChannel {
	t.Helper()
	w.provider.config.LogoutClientIDs = []string{"console-step-up"}
	return NewBackChannel(w.provider, w.db.Pool(t, migrations.RoleAuthn), slog.New(slog.NewTextHandler(w.log, nil)))
}

// logoutClaims are good ones, changed.
func (w *world) logoutClaims(change func(map[string]any)) []byte {
	now := time.Now()
	c := map[string]any{"iss": w.idp.URL, "aud": testClient, "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": random(),
		"sid": "sid-1", "events": map[string]any{logoutEvent: map[string]any{}}}
	if change != nil {
		change(c)
	}
	return must(json.Marshal(c))
}

func form(token string) url.Values { return url.Values{"logout_token": {token}} }

func TestBackChannelLogout(t *testing.T) {
	w := newWorld(t)
	back := w.backChannel(t)
	sign := signAs(jose.RS256, goodKey(), "good", "logout+jwt")
	as := func(sub, sid string) *browser {
		w.idp.claims = func(c map[string]any) { c["sub"], c["sid"] = sub, sid }
		b := w.newBrowser()
		b.signedIn(t)
		return b
	}
	tests := []struct {
		name   string
		change func(map[string]any)
		ends   []string // of the four sessions
	}{
		{"by sid", claim1("sid", "s1"), []string{"alice s1"}},
		{"by sid and sub", func(c map[string]any) { c["sid"], c["sub"] = "s1", "alice" }, []string{"alice s1"}},
		{"by sub: all of the subject's", func(c map[string]any) { delete(c, "sid"); c["sub"] = "alice" }, []string{"alice s1", "alice s2"}},
		{"a sid of another sub", func(c map[string]any) { c["sid"], c["sub"] = "s3", "alice" }, nil},
		{"a sid that nobody has", claim1("sid", "s9"), nil},
		{"made for the other client", func(c map[string]any) { c["sid"], c["aud"] = "s3", "console-step-up" }, []string{"bob s3"}},
		{"several audiences", func(c map[string]any) { c["sid"], c["aud"] = "s3", []string{"x", testClient} }, []string{"bob s3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			browsers := map[string]*browser{"alice s1": as("alice", "s1"), "alice s2": as("alice", "s2"), "bob s3": as("bob", "s3")}
			n, err := back.Logout(t.Context(), form(sign(w.logoutClaims(tt.change))), testFrom)
			if err != nil || n != int64(len(tt.ends)) {
				t.Errorf("Logout() = %d, %v, want %d", n, err, len(tt.ends))
			}
			for name, b := range browsers {
				want := ""
				if strings.Contains(strings.Join(tt.ends, ","), name) {
					want = "backchannel_logout"
				}
				if why := b.ended(t); why != want {
					t.Errorf("%s ended by %q, want %q", name, why, want)
				}
			}
		})
		w.exec(t, `UPDATE console_sessions SET revoked_at_ms = 1, revoke_reason = 'signed_out' WHERE revoked_at_ms IS NULL`)
	}
}

func TestLogoutTokenTypes(t *testing.T) {
	w := newWorld(t)
	back := w.backChannel(t)
	for typ, want := range map[string]bool{"": true, "JWT": true, "logout+jwt": true, "application/logout+jwt": true, "at+jwt": false, "secevent+jwt": false} {
		token := signAs(jose.RS256, goodKey(), "good", typ)(w.logoutClaims(nil))
		if _, err := back.Logout(t.Context(), form(token), testFrom); (err == nil) != want {
			t.Errorf("Logout() of a token of type %q = %v, want ok %v", typ, err, want)
		}
	}
}

func TestForgedLogoutTokens(t *testing.T) {
	w := newWorld(t)
	back := w.backChannel(t)
	now := time.Now()
	sign := signAs(jose.RS256, goodKey(), "good", "logout+jwt")
	change := func(f func(map[string]any)) string { return sign(w.logoutClaims(f)) }
	raw := func(start string) string { return sign(append([]byte(start), w.logoutClaims(nil)[1:]...)) }
	tests := []struct{ name, token string }{
		{"none", ""},
		{"not a token", "canary"},
		{"too long", strings.Repeat("x", maxToken+1)},
		{"an ID token", w.idp.sign(w.idp.idToken(random()))},
		{"another key", signRS256(otherKey(), "good")(w.logoutClaims(nil))},
		{"alg none", unsigned(w.logoutClaims(nil))},
		{"HS256 with the client secret", signAs(jose.HS256, []byte(testSecret+testSecret), "good", "logout+jwt")(w.logoutClaims(nil))},
		{"another issuer", change(claim1("iss", "https://evil.example"))},
		{"another audience", change(claim1("aud", "another"))},
		{"no audience", change(claim1("aud", nil))},
		{"issued six minutes ago", change(claim1("iat", now.Add(-6*time.Minute).Unix()))},
		{"issued in two minutes", change(claim1("iat", now.Add(2*time.Minute).Unix()))},
		{"issued never", change(claim1("iat", nil))},
		{"expired", change(claim1("exp", now.Add(-2*time.Second).Unix()))},
		{"no expiry", change(claim1("exp", nil))},
		{"a nonce", change(claim1("nonce", "x"))},
		{"an empty nonce", change(claim1("nonce", ""))},
		{"no jti", change(claim1("jti", nil))},
		{"jti is a number", change(claim1("jti", 7))},
		{"jti with a NUL", change(claim1("jti", "a\x00"))},
		{"jti is too long", change(claim1("jti", strings.Repeat("j", 501)))},
		{"neither sid nor sub", change(claim1("sid", nil))},
		{"sid is a number", change(claims1("sid", 7, "sub", "alice"))},
		{"sub is null", raw(`{"sub":null,`)},
		{"no events", change(claim1("events", nil))},
		{"another event", change(claim1("events", map[string]any{"http://schemas.example/other": map[string]any{}}))},
		{"the event is null", change(claim1("events", map[string]any{logoutEvent: nil}))},
		{"the event is a string", change(claim1("events", map[string]any{logoutEvent: "yes"}))},
		{"events in another case", change(func(c map[string]any) { c["Events"] = c["events"]; delete(c, "events") })},
		{"sub in two cases", raw(`{"sub":"alice","SUB":"bob",`)},
		{"sid twice", raw(`{"sid":"sid-2",`)},
	}
	b := w.newBrowser()
	b.signedIn(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := back.Logout(t.Context(), form(tt.token), testFrom)
			w.refused(t, err, BadToken)
			if why := b.ended(t); n != 0 || why != "" {
				t.Errorf("Logout() ended %d sessions, the browser's by %q", n, why)
			}
		})
	}
	w.discreet(t, nil, url.Values{}, b)
	two := url.Values{"logout_token": {change(nil), change(nil)}}
	if _, err := back.Logout(t.Context(), two, testFrom); kindOf(err) != BadToken {
		t.Errorf("Logout() of two tokens = %v, want bad_token", err)
	}
}

func claims1(name1 string, value1 any, name2 string, value2 any) func(map[string]any) {
	return func(c map[string]any) { set(c, name1, value1); set(c, name2, value2) }
}

// A logout token works once, also when it comes many times at once.
func TestLogoutTokenIsNotReplayed(t *testing.T) {
	w := newWorld(t)
	back := w.backChannel(t)
	w.newBrowser().signedIn(t)
	token := form(signAs(jose.RS256, goodKey(), "good", "logout+jwt")(w.logoutClaims(nil)))
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = back.Logout(t.Context(), token, testFrom) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if kindOf(err) != Replayed {
			t.Errorf("Logout() = %v, want replayed", err)
		}
	}
	if won != 1 {
		t.Errorf("the token worked %d times, want once", won)
	}
	b := w.newBrowser()
	b.signedIn(t)
	if _, err := back.Logout(t.Context(), token, testFrom); kindOf(err) != Replayed || b.ended(t) != "" {
		t.Errorf("Logout() later = %v, want replayed, and the new session untouched", err)
	}
}

func TestOldLogoutTokensAreForgotten(t *testing.T) {
	w := newWorld(t)
	back := w.backChannel(t)
	w.exec(t, `INSERT INTO logout_tokens VALUES ('i', 'old', 1)`)
	token := signAs(jose.RS256, goodKey(), "good", "logout+jwt")(w.logoutClaims(nil))
	if _, err := back.Logout(t.Context(), form(token), testFrom); err != nil {
		t.Fatal(err)
	}
	if n := scan[int](t, w, `SELECT count(*) FROM logout_tokens WHERE jti = 'old'`); n != 0 {
		t.Error("an old logout token is still remembered")
	}
}

// An unknown key is refused; a provider whose keys cannot be fetched is another matter.
func TestLogoutWithoutKeys(t *testing.T) {
	w := newWorld(t)
	back := w.backChannel(t)
	w.idp.keySet = func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusBadGateway); return true }
	token := signAs(jose.RS256, goodKey(), "good", "")(w.logoutClaims(nil))
	if _, err := back.Logout(t.Context(), form(token), testFrom); kindOf(err) != ProviderUnavailable {
		t.Errorf("Logout() = %v, want provider_unavailable", err)
	}
	w.provider.metadata, w.provider.err = nil, errors.New("down")
	if _, err := back.Logout(t.Context(), form(token), testFrom); kindOf(err) != ProviderUnavailable {
		t.Errorf("Logout() before discovery = %v, want provider_unavailable", err)
	}
}

func TestEndSessionURL(t *testing.T) {
	w := newWorld(t)
	oidc := Session{Origin: OriginOIDC, Issuer: w.idp.URL}
	got := w.provider.EndSessionURL(oidc, testPublic+"/")
	want := w.idp.URL + "/logout?client_id=console&keep=1&post_logout_redirect_uri=" + url.QueryEscape(testPublic+"/")
	if got != want {
		t.Errorf("EndSessionURL() = %s, want %s", got, want)
	}
	for name, s := range map[string]Session{"behind a proxy": {Origin: OriginProxyJWT, Issuer: w.idp.URL}, "of another provider": {Origin: OriginOIDC, Issuer: "https://other.example"}} {
		if got := w.provider.EndSessionURL(s, ""); got != "" {
			t.Errorf("EndSessionURL() of a session %s = %s, want none", name, got)
		}
	}
	w.idp.metadata = func(m map[string]any) { delete(m, "end_session_endpoint") }
	w.again(t)
	if got := w.provider.EndSessionURL(oidc, ""); got != "" {
		t.Errorf("EndSessionURL() of a provider without one = %s, want none", got)
	}
}
