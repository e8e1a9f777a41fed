//go:build walks

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// batchWalks retry many Runs with one verification. Each is somebody else's: the quota is forty of one and a few more.
var batchWalks = []retryWalk{
	{"forty Runs after an outage, with the keyboard alone and one verification", walkForty},
	{"the same set submitted in two tabs makes forty Runs, once", walkFortyTwice},
	{"many Runs without JavaScript", walkManyWithoutScript},
}

const (
	batchForm   = "form.many"
	batchButton = batchForm + " .btn.go"
)

// An outage is Runs of one Task that failed within a moment.
type outage struct {
	task string
	list string // the address of them alone
	n    int
}

// outage makes n Runs that failed: one that did, and copies of it that came a millisecond after one another.
func (st *station) outage(t testing.TB, n int) outage {
	t.Helper()
	id := st.failed(t)
	const later = `'created_at_ms', created_at_ms + n, 'started_at_ms', started_at_ms + n, 'finished_at_ms', finished_at_ms + n`
	copies := fmt.Sprintf("(SELECT n, md5('%s' || n)::uuid AS id FROM generate_series(1, %d) n) c", id, n-1)
	pgtest.Exec(t, st.all, `INSERT INTO ql3.runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', c.id, 'queued_at_ms', queued_at_ms + n, `+later+`,
		'scheduled_for_ms', scheduled_for_ms + n, 'idempotency_key', 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || scheduled_for_ms + n))).*
		FROM ql3.runs r, `+copies+` WHERE r.id = $1`, id)
	pgtest.Exec(t, st.all, `INSERT INTO ql3.run_attempts SELECT (jsonb_populate_record(a, jsonb_build_object('id', md5(a.id::text || n)::uuid, 'run_id', c.id, `+later+`))).*
		FROM ql3.run_attempts a, `+copies+` WHERE a.run_id = $1`, id)
	at := time.UnixMilli(pgtest.Value[int64](t, st.all, `SELECT created_at_ms FROM ql3.runs WHERE id = $1`, id)).UTC()
	task := pgtest.Value[string](t, st.all, `SELECT task_id FROM ql3.runs WHERE id = $1`, id)
	project := pgtest.Value[string](t, st.all, `SELECT project_id FROM ql3.runs WHERE id = $1`, id)
	moment := func(ms int) string {
		return at.Add(time.Duration(ms) * time.Millisecond).Format("2006-01-02T15:04:05.000Z")
	}
	return outage{task, st.url + "/runs?project=" + project + "&status=failed&task=" + task + "&since=" + moment(0) + "&until=" + moment(n), n}
}

// retriesOf is how many Runs of the Task are retries, and how many verifications made them.
func (st *station) retriesOf(t testing.TB, o outage) (retries, verifications int) {
	t.Helper()
	retries = pgtest.Value[int](t, st.all, `SELECT count(*)::int FROM ql3.runs WHERE task_id = $1 AND retry_of_run_id IS NOT NULL`, o.task)
	verifications = pgtest.Value[int](t, st.all, `SELECT count(DISTINCT b.proof_id)::int FROM ql3.run_batches b JOIN ql3.run_batch_items i ON i.batch_id = b.id
		JOIN ql3.runs r ON r.id = i.run_id WHERE r.task_id = $1 AND b.submitted_at_ms IS NOT NULL`, o.task)
	return retries, verifications
}

func (st *station) madeAll(t testing.TB, o outage) {
	t.Helper()
	if retries, verifications := st.retriesOf(t, o); retries != o.n || verifications != 1 {
		t.Errorf("there are %d retries by %d verifications, want %d by 1", retries, verifications, o.n)
	}
}

func walkForty(t *testing.T, st *station) {
	p, o := st.browser(t).tab(), st.outage(t, 40)
	p.open(o.list)
	p.at(st.url + "/auth/sign-in")
	p.enter(signInButton)
	p.below(st.issuer + "/")
	st.typesByKeys(p, second, false)
	p.below(st.url + "/runs?")
	p.enter(".skip")
	p.enter("[data-failed]")
	p.sees("40 selected")
	p.enter(`button[data-needs="retry"]`)
	p.sees("Retry 40 Runs", "would be executed 40 times")
	p.enter(".skip")
	p.enter(".past")
	p.tabTo(batchForm + " textarea")
	p.do(chromedp.KeyEvent(reason))
	p.enter(batchButton)
	p.below(st.issuer + "/")
	st.typesByKeys(p, second, true)
	p.below(st.url + "/batches/")
	p.sees("Verified as", "two factors", "retrying 40 Runs", "40 selected")
	p.enter(".skip")
	p.enter(".past")
	p.enter(batchButton)
	p.sees("Retry of 40 Runs", "made by your submission")
	p.sees("None has succeeded.", "Nothing of this batch is going on any more.") // it is live: they fail, one after the other
	st.madeAll(t, o)
}

// batchOf goes from the list of Runs to the preview of all of them.
func (st *station) batchOf(p *tab, o outage, who string) {
	p.Helper()
	p.open(o.list + "&select=failed")
	p.at(st.url + "/auth/sign-in")
	p.press(signInButton)
	p.below(st.issuer + "/")
	st.types(p, st.who(who))
	p.below(st.url + "/runs?")
	p.press(`button[value="retry"]`)
	p.sees(fmt.Sprintf("Retry %d Runs", o.n))
	p.do(chromedp.SendKeys(batchForm+" textarea", reason, chromedp.NodeVisible))
	p.press(batchButton)
	p.below(st.issuer + "/")
	st.proves(p, who)
	p.below(st.url + "/batches/")
	p.sees("Verified as", fmt.Sprintf("retrying %d Runs", o.n))
}

func walkFortyTwice(t *testing.T, st *station) {
	b := st.browser(t)
	p, q, o := b.tab(), b.tab(), st.outage(t, 40)
	st.batchOf(p, o, third)
	q.open(p.glance().URL)
	q.sees("Verified as", "40 selected")
	p.press(batchButton)
	p.sees("made by your submission")
	q.press(batchButton)
	q.sees("when you sent the form the first time")
	if a, b := strings.Split(p.glance().URL, "?")[0], strings.Split(q.glance().URL, "?")[0]; a != b {
		t.Errorf("the tabs are at %s and %s, want one batch", a, b)
	}
	st.madeAll(t, o)
}

func walkManyWithoutScript(t *testing.T, st *station) {
	p, o := st.browser(t).tab(), st.outage(t, 5)
	p.withoutScript()
	st.batchOf(p, o, first)
	p.press(batchForm + ` tbody tr:last-child input`) // one is left out
	p.press(batchButton)
	p.sees("Retry of 4 Runs", "1 Run was left out")
	o.n = 4
	st.madeAll(t, o)
}
