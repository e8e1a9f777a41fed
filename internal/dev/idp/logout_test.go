package idp

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// logoutClaims is what a logout token must say; jti is checked to be there.
type logoutClaims struct {
	Issuer   string                    `json:"iss"`
	Subject  string                    `json:"sub"`
	Audience []string                  `json:"aud"`
	SID      string                    `json:"sid"`
	IssuedAt int64                     `json:"iat"`
	Expires  int64                     `json:"exp"`
	JTI      string                    `json:"jti"`
	Events   map[string]map[string]any `json:"events"`
	Nonce    *string                   `json:"nonce"`
}

// logoutToken checks signature and type of a logout token.
func (w *world) logoutToken(token string) (c logoutClaims) {
	w.Helper()
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		w.Fatal(err)
	}
	payload, err := signed.Verify(w.p.store.key.Public())
	if err != nil {
		w.Fatalf("logout token: %v", err)
	}
	if typ := signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType]; typ != "logout+jwt" {
		w.Errorf("typ = %v, want logout+jwt", typ)
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		w.Fatalf("%s: %v", payload, err)
	}
	return c
}

func TestLogout(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.signIn("operator")
		session, token := try.tokens()
		public := w.ask(url.Values{"client_id": {"public"}}) // its back channel leads nowhere
		public.config.ClientID, public.config.ClientSecret = "public", ""
		public.redeem()

		w.answers = nil
		answer, err := w.browser.Get(issuer + "/end_session?" + url.Values{"id_token_hint": {token},
			"post_logout_redirect_uri": {rpOrigin + "/bye"}, "state": {"bye-state"}}.Encode())
		try.see(answer, err)
		if diff := cmp.Diff([]url.Values{{"state": {"bye-state"}}}, w.answers); diff != "" {
			t.Errorf("the browser came back with (-want +got):\n%s", diff)
		}
		if len(w.told) != 1 {
			t.Fatalf("%d logout tokens, want 1", len(w.told))
		}
		got := w.logoutToken(w.told[0])
		want := logoutClaims{Issuer: issuer, Subject: "dev-operator", Audience: []string{"console"}, SID: session.SID, JTI: got.JTI,
			IssuedAt: time.Now().Unix(), Expires: time.Now().Add(logoutTokenLifetime).Unix(),
			Events: map[string]map[string]any{"http://schemas.openid.net/event/backchannel-logout": {}}}
		if diff := cmp.Diff(want, got); diff != "" || got.JTI == "" {
			t.Errorf("logout token, jti %q (-want +got):\n%s", got.JTI, diff)
		}
		if got := w.ask(url.Values{"prompt": {"none"}}).answer(); got.Get("error") != "login_required" {
			t.Errorf("after signing out, prompt=none: %v", got)
		}
	})
}

func TestLogoutElsewhere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.ask(nil)
		first.signIn("operator")
		_, token := first.tokens()
		mine := w.browser
		w.browser = w.newBrowser()
		other := w.ask(nil)
		other.signIn("owner")
		other.redeem()

		answer, err := w.browser.Get(issuer + "/end_session?" + url.Values{"id_token_hint": {token}}.Encode())
		other.see(answer, err)
		if len(w.told) != 1 || w.logoutToken(w.told[0]).Subject != "dev-operator" {
			t.Errorf("told %d, want operator's session ended alone", len(w.told))
		}
		w.ask(url.Values{"prompt": {"none"}}).redeem() // the owner still is signed in
		w.browser = mine
		if got := w.ask(url.Values{"prompt": {"none"}}).answer(); got.Get("error") != "login_required" {
			t.Errorf("operator's browser, prompt=none: %v", got)
		}
	})
}

func TestSignOutButton(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.signIn("operator")
		try.redeem()
		answer, err := w.browser.PostForm(issuer+"/sign-out", nil)
		try.see(answer, err)
		if try.at.Path != "/signed-out" || len(w.told) != 1 {
			t.Errorf("at %s, %d clients told; want /signed-out and 1", try.at, len(w.told))
		}
	})
}

func TestLogoutGoesNowhereElse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.signIn("operator")
		_, token := try.tokens()
		w.answers = nil
		for _, to := range []string{rpOrigin + "/evil", "//evil.example", rpAnswer} {
			answer, err := w.browser.Get(issuer + "/end_session?" + url.Values{"id_token_hint": {token}, "post_logout_redirect_uri": {to}}.Encode())
			if try.see(answer, err); try.status != 400 || len(w.answers) > 0 {
				t.Errorf("post_logout_redirect_uri %s: %d, %d answers; want 400 and none", to, try.status, len(w.answers))
			}
		}
		if answer, err := w.browser.Get(issuer + "/end_session?post_logout_redirect_uri=" + url.QueryEscape(rpOrigin+"/evil")); err != nil || answer.Request.URL.Path != "/signed-out" {
			t.Errorf("without a client: %v at %v, want /signed-out", err, answer.Request.URL)
		}
	})
}

// TestLogoutOutlivesTheBrowser gives up the request while clients are being told.
func TestLogoutOutlivesTheBrowser(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.signIn("operator")
		try.redeem()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		u, _ := url.Parse(issuer)
		w.p.store.end(ctx, w.browser.Jar.Cookies(u)[0].Value)
		if len(w.told) != 1 {
			t.Errorf("%d clients told, want 1", len(w.told))
		}
	})
}
