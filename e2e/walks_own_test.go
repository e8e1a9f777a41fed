//go:build walks

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// ownWalks are about the console's own sign-in.
var ownWalks = []walk{
	{"a deep link leads through the sign-in and back to its query", func(t *testing.T, s *site) {
		p := s.browser(t).tab()
		s.signIn(p, s.url+"/runs?status=failed", "ada")
		if got, want := p.query(s.provider.issuer+"/auth?").Get("redirect_uri"), s.url+"/auth/callback"; got != want {
			t.Errorf("redirect_uri = %s, want %s", got, want)
		}
	}},
	{"signed out, a page that exists and one that does not are the same", func(t *testing.T, s *site) {
		for _, path := range []string{"/", "/runs", "/nothing/of/the/kind", "/schedules/ops/beat", "/schedules/ops/other"} {
			got := s.ask(t, http.MethodGet, s.url+path, nil)
			if where := got.Header.Get("Location"); got.StatusCode != http.StatusSeeOther || where != s.mount+"/auth/sign-in" {
				t.Errorf("GET %s = %d to %q, want 303 to the sign-in page", path, got.StatusCode, where)
			}
			if got := s.ask(t, http.MethodGet, s.url+path, http.Header{"Accept": {"application/json"}}); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("GET %s as JSON = %d, want 401", path, got.StatusCode)
			}
		}
	}},
	{"somebody without a role is told the command that gives one", walkNoRole},
	{"signing out ends the session, and Back shows nothing", func(t *testing.T, s *site) {
		p := s.member(t, "bob")
		p.open(s.url + "/schedules")
		p.sees("beat")
		p.press(signOutButton)
		p.sees("You are signed out", "in this browser")
		p.back()
		if v := p.at(s.url + "/auth/sign-in"); v.has("beat") {
			t.Errorf("Back after signing out shows %s", v)
		}
	}},
	{"signing out everywhere ends the other browser's session", func(t *testing.T, s *site) {
		first, second := s.member(t, "bob"), s.member(t, "bob")
		second.open(s.url + "/account")
		second.press(everywhereButton)
		second.sees("in every browser")
		s.signedOut(first, "You signed out everywhere")
	}},
	{"another account can be signed in with", walkOtherAccount},
	{"a sign-in that was cancelled can be begun again, to the same page", func(t *testing.T, s *site) {
		p := s.browser(t).tab()
		there := s.url + "/schedules?project=ops"
		p.open(there)
		p.press(signInButton)
		p.below(s.provider.issuer + "/sign-in/")
		p.press("#cancel")
		p.sees("cancelled")
		p.press(`a[href$="/auth/sign-in"]`)
		p.press(signInButton)
		p.prove(s.world, "bob")
		p.at(there)
	}},
	{"two tabs sign in beside each other, each to its own page", walkTwoTabs},
	{"the callback's address works once, and Back does no harm", walkCallbackTwice},
	{"the callback's address signs nobody else's browser in", func(t *testing.T, s *site) {
		p, q := s.member(t, "bob"), s.browser(t).tab()
		q.open(callbackOf(p, s))
		q.sees("Start again")
		s.signedOut(q, "Sign in")
	}},
	{"it works without JavaScript", func(t *testing.T, s *site) {
		p := s.browser(t).tab()
		p.withoutScript()
		s.signIn(p, s.url+"/schedules?project=ops", "bob")
		p.press(signOutButton)
		p.sees("You are signed out")
		s.signedOut(p, "Sign in")
	}},
	{"it works with the keyboard alone", walkKeyboard},
	{"the provider's own sign-out ends the session", walkBackChannel},
	{"a form of another origin starts nothing and signs nobody out", walkForeignForms},
	{"a page of the same site may frame what is read, and no other", walkFrames},
}

// failureWalks go with a provider that fails, and leave it running.
var failureWalks = []walk{
	{"a token endpoint that fails gives a page, and the next try works", walkTokenFaults},
	{"a provider that is down leaves sessions alone and is said to be down", walkProviderDown},
}

func walkNoRole(t *testing.T, s *site) {
	p := s.browser(t).tab()
	s.signIn(p, s.url+"/", "cleo")
	v := p.sees("no Project has given you a role", s.provider.issuer, "cleo")
	line := commandOn(p, v, "console grant")
	s.typed(t, strings.Replace(line, "PROJECT", "ops", 1)+" --yes")
	p.open(s.url + "/schedules")
	p.sees("beat")
	s.revoke(t, "cleo")
}

func walkOtherAccount(t *testing.T, s *site) {
	p := s.browser(t).tab()
	s.signIn(p, s.url+"/", "mallory")
	p.sees("no Project has given you a role")
	p.press(signOutButton)
	p.sees("You are signed out")
	p.press(`a[href^="` + s.provider.issuer + `"]`)
	p.press(`button[name=logout]`)
	p.at(s.url + "/auth/signed-out")
	p.press(`main a[href="` + s.mount + `/"]`)
	p.press(signInButton)
	p.prove(s.world, "bob")
	p.sees("Overview", s.people["bob"].Name)
}

func walkTwoTabs(t *testing.T, s *site) {
	b := s.browser(t)
	tabs := []*tab{b.tab(), b.tab()}
	pages := []string{s.url + "/runs?status=failed", s.url + "/schedules?project=ops"}
	for i, p := range tabs {
		p.open(pages[i])
		p.at(s.url + "/auth/sign-in")
		p.press(signInButton)
		p.below(s.provider.issuer + "/sign-in/")
	}
	for _, i := range []int{1, 0} {
		tabs[i].prove(s.world, "bob")
		tabs[i].at(pages[i])
	}
}

// callbackOf is the address by which the tab came back from the provider.
func callbackOf(p *tab, s *site) string {
	p.Helper()
	for _, address := range slices.Backward(p.asked()) {
		if strings.HasPrefix(address, s.url+"/auth/callback?") {
			return address
		}
	}
	p.Fatalf("the tab never came to the callback; it came by %v", p.asked())
	return ""
}

func walkCallbackTwice(t *testing.T, s *site) {
	p := s.member(t, "bob")
	before := s.revoked(t, "bob", "replaced")
	p.back()
	p.below(s.provider.issuer)
	p.open(callbackOf(p, s))
	p.sees("already")
	p.press(`main a[href="` + s.mount + `/"]`)
	p.sees("Overview", s.people["bob"].Name)
	if got := s.revoked(t, "bob", "replaced"); got != before {
		t.Errorf("%d sessions were replaced by a callback that was opened twice", got-before)
	}
}

func walkKeyboard(t *testing.T, s *site) {
	p := s.browser(t).tab()
	p.open(s.url + "/")
	p.at(s.url + "/auth/sign-in")
	p.tabTo(signInButton)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.below(s.provider.issuer + "/sign-in/")
	p.tabTo("#name")
	p.do(chromedp.KeyEvent("bob"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(s.people["bob"].Password), chromedp.KeyEvent(kb.Enter))
	p.at(s.url + "/")
	p.tabTo(signOutButton)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.sees("You are signed out")
}

// tabTo presses the tab key until selector has the focus.
func (p *tab) tabTo(selector string) {
	p.Helper()
	for range 40 {
		focused, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`document.activeElement.matches(`+quoted(selector)+`)`))
		if err != nil {
			p.Fatal(err)
		}
		if focused {
			return
		}
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.Fatalf("the tab key does not lead to %s on %s", selector, p.glance())
}

func walkBackChannel(t *testing.T, s *site) {
	b := s.browser(t)
	p, q := b.tab(), b.tab()
	s.signIn(p, s.url+"/", "bob")
	q.open(s.provider.issuer + "/session/end")
	q.press(`button[name=logout]`)
	q.sees("Signed out at the provider")
	s.signedOut(p, "The identity provider ended your session")
}

func walkTokenFaults(t *testing.T, s *site) {
	t.Cleanup(func() { s.provider.answerTokens(s, "ok") })
	p := s.browser(t).tab()
	there := s.url + "/runs?status=failed"
	p.open(there)
	p.press(signInButton)
	p.below(s.provider.issuer + "/sign-in/")
	s.provider.answerTokens(t, "error")
	p.prove(s.world, "bob")
	p.sees("token endpoint answered 500", "Try again")
	for _, answer := range []string{"html", "ok"} {
		s.provider.answerTokens(t, answer)
		p.press(`a[href$="/auth/sign-in"]`)
		p.press(signInButton)
		if answer == "html" {
			p.sees("not a token response", "Try again")
		}
	}
	p.at(there)
}

func walkProviderDown(t *testing.T, s *site) {
	p := s.member(t, "bob")
	s.provider.process.kill()
	s.replica.kill()
	s.serve(t, "own.env") // finds no provider, and is ready nevertheless
	p.open(s.url + "/schedules")
	p.sees("beat", s.people["bob"].Name)

	q := s.browser(t).tab()
	q.open(s.url + "/schedules")
	q.at(s.url + "/auth/sign-in")
	q.sees("The identity provider cannot be reached")
	q.press(signInButton)
	q.sees("cannot be reached", s.provider.issuer, "Try again")

	s.provider.start(s)
	eventually(t, "the sign-in page no longer warns", func() bool {
		q.open(s.url + "/auth/sign-in")
		return !q.sees("Sign in").has("cannot be reached")
	})
	q.press(signInButton)
	q.prove(s.world, "bob")
	q.at(s.url + "/schedules")
}
