//go:build walks

package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// A retryWalk is a walk at one station.
type retryWalk struct {
	name string
	walk func(*testing.T, *station)
}

// walkRetry goes every walk at the provider it is about.
func walkRetry(t *testing.T, w *world) {
	t.Run("at the development provider", func(t *testing.T) {
		st := developmentStation(t, w)
		goStation(t, st, bothWalks)
		goStation(t, st, developmentWalks)
		goStation(t, st, batchWalks)
	})
	t.Run("at the independent provider, with two replicas", func(t *testing.T) {
		var c crossing
		st := independentStation(t, w, "", func(s *site, args ...string) { c.serve(t, s, args...) })
		st.register(t, first, second, third)
		goStation(t, st, bothWalks)
		t.Run("another account at a provider that then ends the first one's sessions: nothing is run", func(t *testing.T) { walkSwitched(t, st) })
		t.Run("one replica takes the provider's answer, another the submission", func(t *testing.T) { walkReplicas(t, st, &c) })
	})
	t.Run("behind oauth2-proxy under a path", func(t *testing.T) {
		st := independentStation(t, w, "/ops/console", func(s *site, args ...string) {
			s.proxied = true
			s.serve(t, "jwt.env", args...)
			s.oauth2Proxy(t, "forward.oauth2-proxy.cfg", s.address())
		})
		st.register(t, second)
		t.Run("from a runbook link to a retried Run", func(t *testing.T) { walkCode(t, st) })
	})
}

func goStation(t *testing.T, st *station, list []retryWalk) {
	for _, x := range list {
		t.Run(x.name, func(t *testing.T) { x.walk(t, st) })
	}
}

var bothWalks = []retryWalk{
	{"from a runbook link, signed out, to a retried Run with the keyboard alone", walkRetryKeyboard},
	{"without JavaScript", func(t *testing.T, st *station) {
		p, id := st.browser(t).tab(), st.failed(t)
		p.withoutScript()
		st.comes(p, id, second)
		st.retries(p, id, second, reason)
		st.madeOne(t, id, "multi_factor")
	}},
	{"with a one-time code, which the audit says", walkCode},
	{"cancelled at the provider: nothing is run, and the reason is kept", walkCancelled},
	{"with the password alone it is refused, and nothing is run", walkTooWeak},
	{"expired while the preview was read: verified again, with the reason kept", walkExpired},
	{"two tabs retry two Runs, whichever comes back first", walkTwoRetries},
	{"Back after the submission, and the form sent again, lead to the retry that exists", walkSentAgain},
	{"a double click makes one Run", walkDoubleClick},
}

const (
	first, second, third = "ada", "bob", "dan" // at the independent provider; see [station.who]

	reason       = "billing was down, see https://wiki.ops.example/incidents/7"
	retryButton  = `form[action$="/retry"] button`
	verifyButton = `form[action$="/retry/verify"] button`
	reasonField  = `form[action$="/retry/verify"] textarea`
)

// who is what somebody is called at the station's provider.
func (st *station) who(name string) string {
	if st.provider.issuer == st.issuer {
		return name
	}
	return map[string]string{first: "admin", second: "operator", third: "owner"}[name]
}

func (st *station) run(id string) string { return st.url + "/runs/" + id }

// comes opens the Run's link, signed out, and signs name in.
func (st *station) comes(p *tab, id, name string) {
	p.Helper()
	p.open(st.run(id))
	if !st.proxied {
		p.at(st.url + "/auth/sign-in")
		p.press(signInButton)
	}
	p.below(st.issuer + "/")
	st.types(p, st.who(name))
	p.at(st.run(id))
}

// asks goes from the Run to the provider.
func (st *station) asks(p *tab, id, why string) {
	p.Helper()
	p.press(`.deeds a[href$="/retry"]`)
	p.at(st.run(id) + "/retry")
	p.do(chromedp.SendKeys(reasonField, why, chromedp.NodeVisible))
	p.press(verifyButton)
	p.below(st.issuer + "/")
}

// verifies proves two factors at the provider, whose form the tab shows, and comes to the preview.
func (st *station) verifies(p *tab, id, name string) {
	p.Helper()
	st.proves(p, name)
	p.at(st.run(id) + "/retry")
	p.sees("Verified as", "two factors", "left")
}

func (st *station) proves(p *tab, name string) {
	p.Helper()
	who := st.who(name)
	if st.provider.issuer == st.issuer {
		p.do(chromedp.SendKeys("#code", st.code(p, who), chromedp.NodeVisible))
		st.types(p, who)
		return
	}
	st.types(p, who)
	p.do(chromedp.SendKeys("#code", st.code(p, who)+kb.Enter, chromedp.NodeVisible))
}

// submits says yes to the preview and returns the Run that was made.
func (st *station) submits(p *tab, id string) (made string) {
	p.Helper()
	p.press(retryButton)
	return st.arrives(p, id, "made")
}

// arrives waits for the page of the retry of id, which has just been made, or was before.
func (st *station) arrives(p *tab, id, how string) string {
	p.Helper()
	var made string
	p.until("the retry", func(v view) bool {
		made = ""
		st.all.QueryRow(p.Context(), "SELECT id::text FROM ql3.runs WHERE retry_of_run_id = $1", id).Scan(&made)
		return made != "" && v.URL == st.run(made)+"?retry="+how
	})
	return made
}

// retries goes from the Run's page to its retry.
func (st *station) retries(p *tab, id, name, why string) string {
	p.Helper()
	st.asks(p, id, why)
	st.verifies(p, id, name)
	return st.submits(p, id)
}

func (st *station) count(t testing.TB, id string) int {
	t.Helper()
	return pgtest.Value[int](t, st.all, "SELECT count(*)::int FROM ql3.runs WHERE retry_of_run_id = $1", id)
}

// An audited is what the audit keeps of an attempt.
type audited struct {
	Outcome, Strength, SecondFactor, Words string
	Timed                                  bool
}

// madeOne fails the walk unless the Run has exactly one retry, which the audit explains.
func (st *station) madeOne(t testing.TB, id, strength string) {
	t.Helper()
	if n := st.count(t, id); n != 1 {
		t.Errorf("the Run has %d retries, want 1", n)
	}
	got := one(t, st.all, pgx.RowToStructByPos[audited], `SELECT outcome, coalesce(strength, ''), coalesce(second_factor, ''), coalesce(words, ''), coalesce(auth_time_s, 0) > 0
		FROM ql3.security_audit_events WHERE action = 'run.retry' AND run_id = $1 AND outcome = 'allowed'`, id)
	if diff := cmp.Diff(audited{"allowed", strength, "always", reason, true}, got); diff != "" {
		t.Errorf("the audit of the retry (-want +got):\n%s", diff)
	}
}

// madeNone fails the walk if the Run was retried, or a proof was made for it.
func (st *station) madeNone(t testing.TB, id string) {
	t.Helper()
	if n := st.count(t, id); n != 0 {
		t.Errorf("the Run has %d retries, want none", n)
	}
	if n := pgtest.Value[int](t, st.all, "SELECT count(*)::int FROM ql3.step_up_proofs WHERE purpose::text LIKE '%' || $1 || '%'", id); n != 0 {
		t.Errorf("there are %d proofs for the Run, want none", n)
	}
}

func walkCode(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, second)
	st.retries(p, id, second, reason)
	st.madeOne(t, id, "multi_factor")
}

func walkCancelled(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, second)
	st.asks(p, id, reason)
	p.press(st.cancel)
	p.sees("The verification was cancelled", "Nothing was run", "your reason is kept")
	st.madeNone(t, id)
	p.press(verifyButton)
	st.verifies(p, id, second)
	st.submits(p, id)
	st.madeOne(t, id, "multi_factor")
}

func walkReplicas(t *testing.T, st *station, c *crossing) {
	callbacks, submissions := c.callbacks.Load(), c.submissions.Load()
	walkCode(t, st)
	if a, b := c.callbacks.Load()-callbacks, c.submissions.Load()-submissions; a != 1 || b != 1 {
		t.Errorf("one replica took %d answers of the provider and the other %d submissions, want 1 and 1", a, b)
	}
}

func walkRetryKeyboard(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	p.open(st.run(id))
	p.at(st.url + "/auth/sign-in")
	p.enter(signInButton)
	p.below(st.issuer + "/")
	st.typesByKeys(p, second, false)
	p.at(st.run(id))
	p.enter(`.deeds a[href$="/retry"]`)
	p.at(st.run(id) + "/retry")
	p.tabTo(reasonField)
	p.do(chromedp.KeyEvent(reason))
	p.enter(verifyButton)
	p.below(st.issuer + "/")
	st.typesByKeys(p, second, true)
	p.at(st.run(id) + "/retry")
	p.sees("Verified as")
	p.enter(retryButton)
	st.arrives(p, id, "made")
	st.madeOne(t, id, "multi_factor")
}

// enter goes to selector with the tab key and presses Enter there.
func (p *tab) enter(selector string) {
	p.Helper()
	p.tabTo(selector)
	p.do(chromedp.KeyEvent(kb.Enter))
}

// typesByKeys fills in the provider's forms without a pointer.
func (st *station) typesByKeys(p *tab, name string, two bool) {
	p.Helper()
	who := st.who(name)
	if st.provider.issuer == st.issuer {
		p.tabTo("#name")
		p.do(chromedp.KeyEvent(who), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(st.people[who].Password))
		if two {
			p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(st.code(p, who)))
		}
		p.do(chromedp.KeyEvent(kb.Enter))
		return
	}
	p.do(chromedp.WaitVisible("#password"))
	p.tabTo("#username")
	p.do(chromedp.KeyEvent(who))
	p.tabTo("#password")
	p.do(chromedp.KeyEvent(st.secret(who) + kb.Enter))
	if two {
		p.do(chromedp.WaitVisible("#code"))
		p.tabTo("#code")
		p.do(chromedp.KeyEvent(st.code(p, who) + kb.Enter))
	}
}

// plugIn gives the tab a security key that verifies its user.
func (p *tab) plugIn() {
	p.Helper()
	call(p, webauthn.Enable, webauthn.EnableParams{})
	call(p, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportUsb, HasResidentKey: true, HasUserVerification: true,
		IsUserVerified: true, AutomaticPresenceSimulation: true}})
}
