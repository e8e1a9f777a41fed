package idp

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/oauth2"
)

func TestSignIn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		if !strings.Contains(try.page, "Development identity provider") || !strings.Contains(try.page, `autocomplete="current-password"`) {
			t.Errorf("the login page is\n%s", try.page)
		}
		try.signIn("operator")
		if got := try.answer(); got.Get("iss") != issuer || got.Get("state") != "the-state" {
			t.Errorf("the answer is %v, want iss and state", got)
		}
		want := claims{Subject: "dev-operator", AMR: []string{"pwd"}, ACR: ACRSingleFactor, AuthTime: time.Now().Unix(),
			Name: "Omar Operator", Email: "operator@dev.example", Verified: true}
		got := try.redeem()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(claims{}, "SID")); diff != "" || got.SID == "" {
			t.Errorf("ID token: sid %q (-want +got):\n%s", got.SID, diff)
		}
	})
}

func TestUserinfo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.signIn("admin")
		ctx := oidc.ClientContext(t.Context(), &http.Client{Transport: w})
		token, err := try.exchange(ctx)
		if err != nil {
			t.Fatal(err)
		}
		provider, err := oidc.NewProvider(ctx, issuer)
		if err != nil {
			t.Fatal(err)
		}
		info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil || info.Subject != "dev-admin" || info.Email != "admin@dev.example" || !info.EmailVerified {
			t.Errorf("UserInfo() = %+v, %v", info, err)
		}
	})
}

// TestAskedAgain signs in once with a password, lets an hour pass and tries again.
func TestAskedAgain(t *testing.T) {
	tests := []struct {
		name  string
		more  url.Values
		asked bool
	}{
		{"nothing asked", nil, false},
		{"prompt=login", url.Values{"prompt": {"login"}}, true},
		{"prompt=select_account", url.Values{"prompt": {"select_account"}}, true},
		{"max_age not reached", url.Values{"max_age": {"3600"}}, false},
		{"max_age exceeded", url.Values{"max_age": {"3599"}}, true},
		{"max_age=0", url.Values{"max_age": {"0"}}, true},
		{"prompt=none", url.Values{"prompt": {"none"}}, false},
		{"prompt=none, a wish for more", url.Values{"prompt": {"none"}, "acr_values": {ACRMultiFactor}}, false},
		{"the same person hinted", url.Values{"login_hint": {"operator"}}, false},
		{"another person hinted", url.Values{"login_hint": {"owner@dev.example"}}, true},
		{"a stranger hinted", url.Values{"login_hint": {"someone"}}, false},
		{"as strong as before", url.Values{"acr_values": {ACRSingleFactor}}, false},
		{"either will do", url.Values{"acr_values": {ACRHardware + " " + ACRSingleFactor}}, false},
		{"stronger wished", url.Values{"acr_values": {ACRMultiFactor}}, true},
		{"stronger needed", url.Values{"claims": {`{"id_token":{"acr":{"essential":true,"value":"` + ACRMultiFactor + `"}}}`}}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				first := w.ask(nil)
				first.signIn("operator")
				before := first.redeem()
				<-time.After(time.Hour)

				again := w.ask(test.more)
				if asked := len(w.answers) == 0; asked != test.asked {
					t.Fatalf("asked again = %t, want %t; the browser shows\n%s", asked, test.asked, again.page)
				}
				if !test.asked {
					if diff := cmp.Diff(before, again.redeem()); diff != "" {
						t.Errorf("the second token (-first +second):\n%s", diff)
					}
				}
			})
		})
	}
}

func TestAuthTimeMoves(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.ask(nil)
		first.signIn("operator")
		before := first.redeem()
		again := w.ask(url.Values{"prompt": {"login"}})
		again.signIn("operator") // within the same second
		after := again.redeem()
		if after.AuthTime <= before.AuthTime {
			t.Errorf("auth_time = %d after %d, want later", after.AuthTime, before.AuthTime)
		}
		if after.SID != before.SID {
			t.Errorf("sid = %q, want %q: it is the same session", after.SID, before.SID)
		}
		if now := time.Now().Unix(); after.AuthTime > now {
			t.Errorf("auth_time = %d at %d, want not in the future", after.AuthTime, now)
		}
	})
}

func TestAnotherPerson(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.ask(nil)
		first.signIn("operator")
		before := first.redeem()
		other := w.ask(url.Values{"prompt": {"login"}, "login_hint": {"operator"}})
		if !strings.Contains(other.page, `value="operator" selected`) {
			t.Errorf("the hinted account is not chosen:\n%s", other.page)
		}
		other.signIn("owner")
		after := other.redeem()
		if after.Subject != "dev-owner" || after.SID == before.SID {
			t.Errorf("signed in as %s, sid %q; want dev-owner with a sid of its own", after.Subject, after.SID)
		}
	})
}

func TestSilentRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if got := w.ask(url.Values{"prompt": {"none"}}).answer(); got.Get("error") != "login_required" || got.Get("iss") != issuer {
			t.Errorf("prompt=none, signed out: %v, want login_required with iss", got)
		}
		first := w.ask(nil)
		first.signIn("operator")
		_, token := first.tokens()
		first.signOutEverything()
		other := w.ask(nil)
		other.signIn("owner")
		if got := w.ask(url.Values{"prompt": {"none"}, "id_token_hint": {token}}).answer(); got.Get("error") != "login_required" {
			t.Errorf("prompt=none for operator, owner signed in: %v, want login_required", got)
		}
	})
}

func (t *try) signOutEverything() { t.browser = t.newBrowser(); t.world.browser = t.browser }

func TestWrongPassword(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.submit("/login", url.Values{"username": {"owner"}, "password": {w.account("viewer").Password}})
		if try.status != http.StatusOK || !strings.Contains(try.page, "That is not the password of owner.") ||
			!strings.Contains(try.page, `value="owner" selected`) {
			t.Errorf("wrong password: %d\n%s", try.status, try.page)
		}
		try.submit("/login", url.Values{"username": {"nobody"}, "password": {""}})
		if !strings.Contains(try.page, "Choose an account.") {
			t.Errorf("unknown account:\n%s", try.page)
		}
		try.signIn("owner")
		if got := try.redeem(); got.Subject != "dev-owner" {
			t.Errorf("then the right one: %+v", got)
		}
	})
}

// A form is answered by a redirection, whatever came of it: reloading what it led to sends nothing again.
func TestFormsRedirect(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		steps := []struct {
			name, path string
			fields     url.Values
			shows      string // after a reload
		}{
			{"a wrong password", "/login", url.Values{"username": {"owner"}, "password": {"nonsense"}}, "That is not the password of owner."},
			{"the right one", "/login", url.Values{"username": {"owner"}, "password": {w.account("owner").Password}}, "One-time code"},
			{"a wrong code", "/login/code", url.Values{"code": {"0"}}, "That is not the present code of owner."},
			{"the way back", "/login/other", nil, `name="password"`},
		}
		try := w.ask(url.Values{"acr_values": {ACRMultiFactor}})
		for _, s := range steps {
			try.submit(s.path, s.fields)
			if try.method != http.MethodGet {
				t.Errorf("%s is answered by the page of a %s", s.name, try.method)
			}
			answer, err := try.browser.Get(try.at.String())
			if try.see(answer, err); !strings.Contains(try.page, s.shows) {
				t.Errorf("%s, and a reload, show no %q:\n%s", s.name, s.shows, try.page)
			}
		}
		if strings.Contains(try.page, `role="alert" id="wrong"`) {
			t.Errorf("a mistake is still there after the next form:\n%s", try.page)
		}
	})
}

func TestCancel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.submit("/login/cancel", nil)
		want := url.Values{"error": {"access_denied"}, "error_description": {"The authorization request was denied."}, "iss": {issuer}, "state": {"the-state"}}
		if diff := cmp.Diff(want, try.answer()); diff != "" {
			t.Errorf("the client got (-want +got):\n%s", diff)
		}
	})
}

func TestRefusedRequests(t *testing.T) {
	tests := []struct {
		name string
		more url.Values
		want string // the error the client is told; empty: the browser is not sent back
	}{
		{"another redirect URI", url.Values{"redirect_uri": {rpOrigin + "/evil"}}, ""},
		{"no redirect URI", url.Values{"redirect_uri": {""}}, ""},
		{"unknown client", url.Values{"client_id": {"evil"}}, ""},
		{"no PKCE", url.Values{"code_challenge": {""}, "code_challenge_method": {""}}, "invalid_request"},
		{"PKCE plain", url.Values{"code_challenge_method": {"plain"}}, "invalid_request"},
		{"PKCE without a method", url.Values{"code_challenge_method": {""}}, "invalid_request"},
		{"not the code flow", url.Values{"response_type": {"id_token"}, "response_mode": {"query"}}, "unauthorized_client"},
		{"no openid", url.Values{"scope": {"profile"}}, "invalid_scope"},
		{"none and login", url.Values{"prompt": {"none login"}}, "invalid_request"},
		{"a request object", url.Values{"request": {"e30.e30."}}, "request_not_supported"},
		{"claims that are no JSON", url.Values{"claims": {`{`}}, "invalid_request"},
		{"an essential acr of somebody else", url.Values{"claims": {`{"id_token":{"acr":{"essential":true,"values":["gold"]}}}`}}, "unmet_authentication_requirements"},
		{"a forged ID token hint", url.Values{"id_token_hint": {"e30.e30.e30"}}, "login_required"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				try := w.ask(test.more)
				if test.want == "" {
					if len(w.answers) > 0 || try.status != http.StatusBadRequest {
						t.Errorf("%d answers to the client and %d to the browser, want 0 and 400", len(w.answers), try.status)
					}
					return
				}
				if got := try.answer(); got.Get("error") != test.want || got.Get("state") != "the-state" || got.Get("iss") != issuer {
					t.Errorf("the client got %v, want %s with state and iss", got, test.want)
				}
			})
		})
	}
}

func TestCodeIsGoodOnce(t *testing.T) {
	tests := []struct {
		name   string
		spoil  func(*try)
		wanted string
	}{
		{"used before", func(t *try) { t.redeem() }, "invalid_grant"},
		{"another verifier", func(t *try) { t.verifier = oauth2.GenerateVerifier() }, "invalid_grant"},
		{"no verifier", func(t *try) { t.verifier = "" }, "invalid_request"},
		{"another secret", func(t *try) { t.config.ClientSecret = "other" }, "invalid_client"},
		{"another client", func(t *try) { t.config.ClientID, t.config.ClientSecret = "public", "" }, "invalid_grant"},
		{"too late", func(*try) { <-time.After(codeLifetime + time.Second) }, "invalid_grant"},
		{"signed out meanwhile", func(t *try) { t.browser.PostForm(issuer+"/sign-out", nil) }, "invalid_grant"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				try := w.ask(nil)
				try.signIn("viewer")
				test.spoil(try)
				ctx := oidc.ClientContext(t.Context(), &http.Client{Transport: w})
				_, err := try.exchange(ctx)
				if err == nil || !strings.Contains(err.Error(), test.wanted) {
					t.Errorf("exchange() = %v, want %s", err, test.wanted)
				}
			})
		})
	}
}

func TestTooLate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		<-time.After(requestLifetime + time.Second)
		try.signIn("viewer")
		if try.status != http.StatusGone || len(w.answers) > 0 {
			t.Errorf("a form that is too old: %d, %d answers; want 410 and none", try.status, len(w.answers))
		}
	})
}

func TestPublicClient(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(url.Values{"client_id": {"public"}})
		try.config.ClientID, try.config.ClientSecret, try.config.Endpoint.AuthStyle = "public", "", oauth2.AuthStyleInParams
		try.signIn("viewer")
		if got := try.redeem(); got.Subject != "dev-viewer" {
			t.Errorf("ID token: %+v", got)
		}
	})
}
