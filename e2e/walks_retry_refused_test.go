//go:build walks

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func walkTooWeak(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, second)
	st.asks(p, id, reason)
	st.types(p, st.who(second))
	if st.enough != "" {
		p.press(st.enough)
	}
	p.sees("The verification was too weak", "Nothing was run")
	st.madeNone(t, id)
	if got := pgtest.Value[string](t, st.all, "SELECT string_agg(reason, ',') FROM ql3.security_audit_events WHERE action = 'session.step_up' AND outcome = 'denied' AND run_id = $1", id); got != "too_weak" {
		t.Errorf("the audit says %q, want too_weak", got)
	}
}

func walkWrongAccount(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, second)
	st.asks(p, id, reason)
	st.proves(p, first)
	p.sees("Somebody else verified", "Nothing was run")
	st.madeNone(t, id)
	p.open(st.url + "/account")
	p.sees(st.name(st.who(second)))
}

// walkSwitched goes with a provider that has one session in a browser: who signs in as somebody else is first signed out,
// of the console too, so that there is no session left to verify for.
func walkSwitched(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, second)
	st.asks(p, id, reason)
	st.proves(p, first)
	p.at(st.url + "/auth/sign-in")
	p.sees("The identity provider ended your session")
	st.madeNone(t, id)
}

// expire moves the proofs for a Run into the past, as if the preview had been open for too long.
const expire = `UPDATE ql3.step_up_proofs SET created_at_ms = created_at_ms - 301000, auth_time_s = auth_time_s - 301, expires_at_ms = expires_at_ms - 301000,
	previewed_at_ms = previewed_at_ms - 301000 WHERE purpose::text LIKE '%' || $1 || '%'`

func walkExpired(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, first)
	st.asks(p, id, reason)
	st.verifies(p, id, first)
	if tag, err := st.all.Exec(t.Context(), expire, id); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("expire: %v, %v", tag, err)
	}
	p.press(retryButton)
	p.sees("Verify again", "Nothing was retried", "your reason is kept")
	if got := p.valueOf(reasonField); got != reason {
		t.Errorf("the reason is %q, want %q", got, reason)
	}
	if n := st.count(t, id); n != 0 {
		t.Errorf("the Run has %d retries, want none", n)
	}
	p.press(verifyButton)
	st.verifies(p, id, first)
	st.submits(p, id)
	st.madeOne(t, id, "multi_factor")
}

// valueOf is what a field holds.
func (p *tab) valueOf(selector string) string {
	p.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.querySelector("+quoted(selector)+").value"))
	if err != nil {
		p.Fatal(err)
	}
	return got
}

func walkTwoRetries(t *testing.T, st *station) {
	b := st.browser(t)
	p, q := b.tab(), b.tab()
	one, other := st.failed(t), st.failed(t)
	st.comes(p, one, third)
	q.open(st.run(other))
	q.at(st.run(other))
	st.asks(p, one, reason)
	st.asks(q, other, reason)
	st.verifies(q, other, third)
	st.verifies(p, one, third)
	st.submits(p, one)
	st.submits(q, other)
	st.madeOne(t, one, "multi_factor")
	st.madeOne(t, other, "multi_factor")
}

func walkSentAgain(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, second)
	st.asks(p, id, reason)
	st.verifies(p, id, second)
	form := `document.querySelector('form[action$="/retry"]')`
	p.do(chromedp.Evaluate[chromedp.Void](`sessionStorage.setItem("sent", JSON.stringify([...new FormData(` + form + `)]))`))
	made := st.submits(p, id)
	p.back()
	p.at(st.run(id) + "/retry")
	p.sees("Retries so far") // and not the page as the browser kept it, which asks again and would forget the form below
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const form = Object.assign(document.createElement("form"), { method: "post", action: location.href });
		for (const [name, value] of JSON.parse(sessionStorage.getItem("sent"))) form.append(Object.assign(document.createElement("input"), { name, value }));
		document.body.append(form);
		setTimeout(() => form.submit());
	})()`))
	if again := st.arrives(p, id, "before"); again != made {
		t.Errorf("the form sent again leads to %s, want %s", again, made)
	}
	st.madeOne(t, id, "multi_factor")
}

func walkDoubleClick(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	st.comes(p, id, third)
	st.asks(p, id, reason)
	st.verifies(p, id, third)
	p.do(chromedp.Evaluate[chromedp.Void](`for (const after of [0, 15]) setTimeout(() => document.querySelector(` + quoted(retryButton) + `).click(), after)`))
	p.below(st.url + "/runs/")
	p.sees("Retry family")
	st.madeOne(t, id, "multi_factor")
}
