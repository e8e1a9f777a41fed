package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

func TestDeepLinkSurvivesSignIn(t *testing.T) {
	for _, base := range []string{"", "/x/y"} {
		t.Run("below "+base, func(t *testing.T) {
			v := newTown(t, base)
			b := v.browser(t)
			link := v.public + "/runs?project=ops&since=-1h"
			b.open(link)
			if b.at != v.public+signInPath {
				t.Errorf("signed out, %s leads to %s, want the sign-in page", link, b.at)
			}
			b.shows(http.StatusOK, v.issuer, base+"/runs?project=ops")
			b.signIn("viewer")
			if b.at != link {
				t.Errorf("after signing in the browser is at %s, want %s", b.at, link)
			}
			who := v.account(t, "viewer")
			b.shows(http.StatusForbidden, "No role", "With the Project&#39;s id in place of PROJECT", who.subject, "console grant --project PROJECT --role viewer --subject &#39;"+v.issuer+"&#39; &#39;"+who.subject+"&#39;")
			grant(t, v.Database, who, policy.Viewer, "ops")
			b.open(link)
			b.shows(http.StatusOK, "exit 3", "Sign out", "Vi")
			size := 0
			for _, c := range b.cookies() {
				size += len(c.Name) + len(c.Value) + len("; =")
				if c.Name == v.config.Identity.Cookies.Name(goingCookie) {
					t.Error("where the browser was going is still kept")
				}
			}
			if size == 0 || size > 400 {
				t.Errorf("the console's cookies take %d bytes, want at most 400", size)
			}
			if strings.Contains(v.log.String(), "canary") || strings.Contains(v.log.String(), "project=ops") {
				t.Errorf("the log holds a secret or a query:\n%s", v.log)
			}
		})
	}
}

func TestLastWindowWins(t *testing.T) {
	v := newTown(t, "")
	b := v.browser(t)
	b.open("/runs?project=growth")
	b.open("/schedules/ops/nightly?account=week")
	b.signIn("viewer")
	if want := v.public + "/schedules/ops/nightly?account=week"; b.at != want {
		t.Errorf("after two windows and one sign-in the browser is at %s, want %s", b.at, want)
	}
}

func TestCallbackRefusals(t *testing.T) {
	v := newTown(t, "/x")
	b := v.browser(t)
	b.open("/x/runs?project=ops").press("/x" + signInPath)
	authorize, err := url.Parse(b.goesOn())
	if err != nil {
		t.Fatal(err)
	}
	state := authorize.Query().Get("state")
	callback := func(q string) *browser { return b.open("/x" + CallbackPath + q) }

	callback("").shows(http.StatusBadRequest, "This sign-in is not known here", "unknown_state", "Diagnostic", "No session was begun.")
	callback("?state=canary-state&code=canary-code").shows(http.StatusBadRequest, "unknown_state")
	other := v.browser(t)
	other.open("/x"+CallbackPath+"?code=canary-code&state="+state).shows(http.StatusBadRequest, "unknown_state")
	callback("?iss="+url.QueryEscape(v.issuer)+"&error=access_denied&state="+state).shows(http.StatusForbidden, "The sign-in was cancelled", "To the sign-in page")
	callback("?code=canary-code&state="+state).shows(http.StatusBadRequest, "This answer was used before", "already_used")

	b.open("/x"+signInPath).shows(http.StatusOK, "/x/runs?project=ops") // kept for the next try
	b.signIn("viewer")
	if want := v.public + "/runs?project=ops"; b.at != want {
		t.Errorf("after a sign-in that had failed before the browser is at %s, want %s", b.at, want)
	}
	callback("?code=canary-code&state="+state).shows(http.StatusBadRequest, "already_used", `href="/x/runs?project=ops"`, "Go on")
	b.open("/x/account").shows(http.StatusOK, "this session")

	if err := policy.DisableUser(t.Context(), v.Pool(t, migrations.RoleAdmin), v.account(t, "viewer").id, policy.Actor{Type: policy.ByCommand, Name: "test"}, ""); err != nil {
		t.Fatal(err)
	}
	b.open("/x/runs").shows(http.StatusOK, "Your account is disabled.")
	b.signIn("viewer").shows(http.StatusForbidden, "This account is disabled", "Ask an administrator", "Diagnostic")

	for _, secret := range []string{state, "canary", authorize.Query().Get("nonce"), authorize.Query().Get("code_challenge")} {
		if strings.Contains(v.log.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, v.log)
		}
	}
}

func TestProviderDown(t *testing.T) {
	w := newWorld(t)
	h := New(config(t, w.Database, "")) // its provider was never discovered
	res := get(t, h, signInPath)
	if res.StatusCode != http.StatusOK || !strings.Contains(res.body, testIssuer) || !strings.Contains(res.body, "cannot be reached at present") ||
		!strings.Contains(res.body, "Everything scheduled goes on") || len(res.Cookies()) > 0 {
		t.Errorf("GET %s while the provider is down = %d, cookies %v:\n%s", signInPath, res.StatusCode, res.Cookies(), res.body)
	}
	res = do(t, h, "POST", signInPath, "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "provider_unavailable") || !strings.Contains(res.body, "Diagnostic") || res.Header.Get("Retry-After") == "" {
		t.Errorf("POST %s while the provider is down = %d %s, want a 503 page with a diagnostic id", signInPath, res.StatusCode, res.body)
	}
}

func TestSignInIsLimited(t *testing.T) {
	v := newTown(t, "")
	b := v.browser(t)
	b.open(signInPath).press(signInPath) // makes the binder
	for range 30 {
		if b.send("POST", v.public+signInPath, nil); b.status != http.StatusOK {
			break
		}
	}
	b.shows(http.StatusTooManyRequests, "Too often")
	if b.header.Get("Retry-After") == "" {
		t.Error("a limited sign-in does not say when to try again")
	}
	v.browser(t).open(signInPath).press(signInPath).shows(http.StatusOK) // another browser at the same address
}

// What strangers begin keeps nobody who is signed in from verifying, here one without a role, and no provider from ending sessions.
func TestStrangersTakeOnlyStarts(t *testing.T) {
	v := newTown(t, "/x")
	b := v.browser(t)
	b.open("/x/account").signIn("admin")
	limiter, stopped := v.config.Identity.Limiter, time.Now()
	limiter.Now = func() time.Time { return stopped } // or one start comes back every 20 ms
	for i := range 2000 {
		limiter.AllowStart("", fmt.Sprint("stranger ", i))
	}
	v.browser(t).open("/x"+signInPath).press("/x"+signInPath).shows(http.StatusTooManyRequests, "Too often")
	for path, want := range map[string]int{BackChannelPath: http.StatusBadRequest, stepUpTestPath: http.StatusForbidden} {
		if b.send("POST", v.public+path, nil); b.status != want {
			t.Errorf("POST %s = %d, want %d", path, b.status, want)
		}
	}
}

func TestSigningOut(t *testing.T) {
	v := newTown(t, "/x")
	b, elsewhere := v.browser(t), v.browser(t)
	b.open("/x/account").signIn("viewer").shows(http.StatusOK, "verified by the issuer", "Your sessions", "127.0.0.1", "Go-http-client")
	elsewhere.open("/x/account").signIn("viewer")
	if n := strings.Count(elsewhere.page, "Go-http-client"); n != 2 {
		t.Errorf("the account page lists %d sessions, want 2", n)
	}
	old := b.cookies()

	b.press("/x"+signOutPath).shows(http.StatusOK, "You are signed out", "still knows you")
	if strings.Contains(b.page, `class="who"`) || strings.Contains(b.page, `href="/x/runs"`) {
		t.Error("the signed-out page still shows a user or the way to what only users see")
	}
	b.open("/x/account")
	if b.at != v.public+signInPath {
		t.Errorf("after signing out /x/account leads to %s", b.at)
	}
	for _, c := range old { // somebody kept the cookie
		u, _ := url.Parse(v.public + "/")
		b.client.Jar.SetCookies(u, []*http.Cookie{{Name: c.Name, Value: c.Value, Path: "/x", Secure: true}})
	}
	if b.open("/x/account"); b.at != v.public+signInPath {
		t.Errorf("after signing out, an old cookie shows %s", b.at)
	}
	elsewhere.open("/x/account").shows(http.StatusOK, "this session")

	b.signIn("viewer").open("/x/account").press("/x"+signOutEverywherePath).shows(http.StatusOK, "in every browser")
	elsewhere.open("/x/account").shows(http.StatusOK, "You signed out everywhere.")
	if elsewhere.at != v.public+signInPath {
		t.Errorf("after signing out everywhere the other browser is at %s", elsewhere.at)
	}
}

// Signing out at the provider ends the console's session before the browser has gone on.
func TestProviderSignsOut(t *testing.T) {
	v := newTown(t, "/x")
	b := v.browser(t)
	b.open("/x/account").signIn("viewer").shows(http.StatusOK)
	b.open(v.issuer + "/").press("/sign-out")
	b.open("/x/account").shows(http.StatusOK, "The identity provider ended your session.")
	if b.at != v.public+signInPath {
		t.Errorf("after signing out at the provider the browser is at %s", b.at)
	}
}

func TestBackChannelRefuses(t *testing.T) {
	v := newTown(t, "/x")
	for name, body := range map[string]string{"nothing": "", "no token": "logout_token=", "two": "logout_token=a&logout_token=b", "no form": "%zz", "garbage": "logout_token=canary.to.ken"} {
		r, _ := http.NewRequest("POST", v.public+BackChannelPath, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://idp.example") // no browser sends it, and no browser's rule holds for it
		answer, err := trustingClient().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Content-Type") != "application/json" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("a logout with %s = %d %s %s, want 400, JSON and no-store", name, answer.StatusCode, answer.Header.Get("Content-Type"), answer.Header.Get("Cache-Control"))
		}
	}
	if strings.Contains(v.log.String(), "canary.to.ken") {
		t.Error("the log holds a logout token")
	}
}
