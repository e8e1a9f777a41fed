//go:build walks

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// developmentWalks need what the development provider and its executor can do.
var developmentWalks = []retryWalk{
	{"with a passkey that is bound to its device, which the audit says", walkPasskey},
	{"another account at the provider is refused, and the session stays", walkWrongAccount},
	{"a running command is stopped", walkStop},
}

func walkPasskey(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.failed(t)
	p.plugIn()
	st.comes(p, id, second)
	p.open(st.issuer + "/")
	p.press(".passkey button")
	p.sees("One.")
	p.open(st.run(id))
	st.asks(p, id, reason)
	p.press(".passkey button")
	p.at(st.run(id) + "/retry")
	p.sees("Verified as", "a hardware key")
	st.submits(p, id)
	st.madeOne(t, id, "hardware")
}

func walkStop(t *testing.T, st *station) {
	p, id := st.browser(t).tab(), st.running(t)
	st.comes(p, id, first)
	p.press(`.deeds a[href$="/stop"]`)
	st.verifiesStop(p, id)
	p.press(`form[action$="/stop"] button`)
	p.below(st.run(id) + "?stop=")
	eventually(t, "the Run is cancelled", func() bool {
		return pgtest.Value[string](t, st.all, "SELECT status FROM ql3.runs WHERE id = $1", id) == "cancelled"
	})
	if n := pgtest.Value[int](t, st.all, "SELECT count(*)::int FROM ql3.security_audit_events WHERE action = 'run.stop' AND outcome = 'allowed' AND run_id = $1 AND words = $2", id, reason); n != 1 {
		t.Errorf("the audit has %d such stops, want 1", n)
	}
}

// running is a Run whose command goes on for most of a minute yet.
func (st *station) running(t *testing.T) (id string) {
	t.Helper()
	eventually(t, "a command runs", func() bool {
		id = pgtest.Value[string](t, st.all, "SELECT coalesce((SELECT id::text FROM ql3.runs WHERE task_id = 'slow' AND status = 'running' ORDER BY created_at_ms DESC LIMIT 1), '')")
		return id != ""
	})
	return id
}

// verifiesStop verifies for a stop, from the page that asks why.
func (st *station) verifiesStop(p *tab, id string) {
	p.Helper()
	p.do(chromedp.SendKeys(`form[action$="/stop/verify"] textarea`, reason, chromedp.NodeVisible))
	p.press(`form[action$="/stop/verify"] button`)
	p.below(st.issuer + "/")
	st.proves(p, first)
	p.at(st.run(id) + "/stop")
	p.sees("Verified as", "two factors")
}
