//go:build walks

package e2e

import (
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

const (
	signInButton     = `form[action$="/auth/sign-in"] button`
	signOutButton    = `.who form[action$="/auth/sign-out"] button`
	everywhereButton = `form[action$="/auth/sign-out-everywhere"] button`
)

// signIn opens address, which is a page of the site, and signs name in. It waits until the tab is back.
func (s *site) signIn(p *tab, address, name string) view {
	p.Helper()
	p.open(address)
	if !s.proxied {
		p.at(s.url + "/auth/sign-in")
		p.press(signInButton)
	}
	p.prove(s.world, name)
	return p.at(address)
}

// member is a tab of a new browser in which name has signed in and may see the Project.
func (s *site) member(t testing.TB, name string) *tab {
	t.Helper()
	p := s.browser(t).tab()
	s.signIn(p, s.url+"/", name)
	if !s.granted[name] {
		s.granted[name] = true
		s.grant(t, name)
		p.reload()
	}
	p.sees("Overview", s.people[name].Name)
	return p
}

// user names name to the console's commands.
func (w *world) user(name string) []string { return []string{"--subject", w.provider.issuer, name} }

// grant makes name a viewer of the Project; revoke takes that away.
func (w *world) grant(t testing.TB, name string) {
	t.Helper()
	run(t, w.vars, "", append([]string{"grant", "--project", "ops", "--role", "viewer", "--yes"}, w.user(name)...)...)
}

func (w *world) revoke(t testing.TB, name string) {
	t.Helper()
	run(t, w.vars, "", append([]string{"revoke", "--project", "ops", "--yes"}, w.user(name)...)...)
}

// disable takes everything from name until the walk ends.
func (w *world) disable(t testing.TB, name string) {
	t.Helper()
	run(t, w.vars, "", append([]string{"user", "disable", "--yes"}, w.user(name)...)...)
	t.Cleanup(func() { run(w, w.vars, "", append([]string{"user", "enable", "--yes"}, w.user(name)...)...) })
}

// typed runs a command as it stands on a page, as an administrator would type it.
func (w *world) typed(t testing.TB, line string) {
	t.Helper()
	program, err := console()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("sh", w.vars, "-c", `console() { "$0" "$@"; }; `+line, program)
	finish(t, line, cmd)
}

// signedOut fails the walk unless the tab's next request finds nobody signed in at the console.
func (s *site) signedOut(p *tab, why string) {
	p.Helper()
	p.open(s.url + "/account")
	v := p.at(s.url + "/auth/sign-in")
	if !v.has(why) {
		p.Errorf("the sign-in page does not say %q; it shows %s", why, v)
	}
}

// revoked is how many sessions of name ended for reason.
func (w *world) revoked(t testing.TB, name, reason string) int {
	t.Helper()
	return pgtest.Value[int](t, w.super, "SELECT count(*)::int FROM ql3.console_sessions WHERE subject = $1 AND revoke_reason = $2", name, reason)
}

// commandOn is the line of a page that begins with prefix.
func commandOn(p *tab, v view, prefix string) string {
	p.Helper()
	for line := range strings.Lines(v.Text) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
	p.Fatalf("there is no %q on %s", prefix, v)
	return ""
}
