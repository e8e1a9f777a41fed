//go:build walks

package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"

	fixture "github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/migrations"
)

// stillWalks are about what must not move under the reader's eyes, and must be found again where it was.
var stillWalks = []walk{
	{"nothing moves on the overview and the list of Runs while Runs come and go", walkStillLists},
	{"nothing moves on the page of a Run that is queued, runs and fails", walkStillRun},
	{"Back and Forward bring back the filters and the place", walkHistory},
}

// watchShifts notes, on every page from now on, what moved without the reader having done anything. The browser also counts
// blanks, which nobody sees, and words that were replaced where they stand.
const watchShifts = `window.shifts = []; new PerformanceObserver(list => { for (const e of list.getEntries()) {
	const moved = e.sources.filter(({node, previousRect: a, currentRect: b}) => (node?.nodeType !== 3 || node.data.trim()) && (Math.abs(a.x - b.x) >= 1 || Math.abs(a.y - b.y) >= 1));
	if (!e.hadRecentInput && moved.length) shifts.push(e.value.toFixed(5) + " " + moved.map(({node, previousRect: a, currentRect: b}) =>
		(node?.outerHTML ?? node?.data ?? "?").slice(0, 120) + JSON.stringify([a.x, a.y, b.x, b.y])).join("; "));
} }).observe({type: "layout-shift", buffered: true})`

// still is a tab in which what moves is noted, in a zone that is not the server's.
func (s *site) still(t testing.TB) *tab {
	t.Helper()
	p := s.member(t, "bob")
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchShifts})
	p.from("Asia/Kathmandu")
	return p
}

// still is how much may move in all: less than a line of text by its own height. A number at the end of a line, which
// grows by a digit, is counted by the browser.
const still = 0.001

// stood fails the walk if anything moved on the page.
func (p *tab) stood(t testing.TB) {
	t.Helper()
	moved, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string]("shifts"))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, what := range moved {
		value, err := strconv.ParseFloat(strings.Fields(what)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	if sum >= still {
		t.Errorf("on %s moved: %s", p.glance().URL, strings.Join(moved, "\n"))
	}
}

// A runOnHand is a Run that the walk itself executes.
type runOnHand struct {
	t    testing.TB
	s    *site
	pool *pgxpool.Pool // of the role that executes
	id   string
	work fixture.Work
}

// takes admits a Run when no other waits, so that it is the next one that is dispatched.
func (s *site) takes(t testing.TB) *runOnHand {
	t.Helper()
	pool := s.db.Pool(t, migrations.RoleRuntime)
	for {
		w, err := fixture.Dispatch(t.Context(), pool, "worker-1", time.Minute)
		if errors.Is(err, fixture.ErrNoWork) {
			return &runOnHand{t: t, s: s, pool: pool, id: s.admits(t)}
		}
		if err != nil {
			t.Fatal(err)
		}
		(&runOnHand{t: t, s: s, pool: pool, id: w.RunID.String(), work: w}).fails()
	}
}

func (r *runOnHand) starts() {
	r.t.Helper()
	w, err := fixture.Dispatch(r.t.Context(), r.pool, "worker-1", time.Minute)
	if err != nil || w.RunID.String() != r.id {
		r.t.Fatalf("Dispatch() = %v, %v, want %s", w.RunID, err, r.id)
	}
	if r.work = w; fixture.Start(r.t.Context(), r.pool, w.Lease, time.Minute) != nil {
		r.t.Fatalf("the Run did not start")
	}
	r.s.hints(r.t)
}

func (r *runOnHand) fails() {
	r.t.Helper()
	code, pool := 3, r.pool
	fixture.Start(r.t.Context(), pool, r.work.Lease, time.Minute) // unless it has
	err := fixture.Finish(r.t.Context(), pool, r.work.Lease, fixture.Outcome{Status: fixture.Failed, ExitCode: &code, Code: "exit_code", Summary: "connection to billing refused"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.s.hints(r.t)
}

func walkStillLists(t *testing.T, s *site) {
	for _, path := range []string{"/", "/runs", "/runs?status=failed", "/schedules"} {
		s.takes(t).starts() // so that there is something
		p := s.still(t)
		p.open(s.url + path)
		p.becomes("live", soon)
		for range 3 {
			r := s.takes(t)
			time.Sleep(1500 * time.Millisecond) // a reader looks
			r.starts()
			time.Sleep(1500 * time.Millisecond)
			r.fails()
			time.Sleep(1500 * time.Millisecond)
		}
		p.stood(t)
		p.keep(t, "still "+path)
	}
}

func walkStillRun(t *testing.T, s *site) {
	for _, width := range []int64{1280, 375} {
		p, r := s.still(t), s.takes(t)
		p.wide(width)
		p.open(s.url + "/runs/" + r.id)
		p.becomes("live", soon)
		for _, next := range []struct {
			do   func()
			says string
		}{{r.starts, "running"}, {r.fails, "failed"}} {
			next.do()
			p.comes("the page says "+next.says+" without being asked", soon, `document.querySelector("h1").parentElement.innerText.toLowerCase().includes(`+quoted(next.says)+`)`)
			time.Sleep(time.Second)
			p.keep(t, fmt.Sprintf("still run %d %s", width, next.says))
		}
		p.stood(t)
		if p.holds(news) {
			p.press(newsButton)
		}
		p.sees("exit 3", "connection to billing refused")
	}
}

func walkHistory(t *testing.T, s *site) {
	for range 35 {
		s.admits(t)
	}
	p := s.member(t, "bob")
	p.open(s.url + "/runs?status=queued&project=ops")
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("tbody tr:nth-child(30) a").scrollIntoView()`))
	place := p.scroll(t)
	if place < 200 {
		t.Fatalf("the list is too short to scroll: %v", place)
	}
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("tbody tr:nth-child(30) a").click()`))
	p.below(s.url + "/runs/")
	p.back()
	p.at(s.url + "/runs?status=queued&project=ops")
	p.comes("the list is where it was", soon, fmt.Sprintf("Math.abs(scrollY - %v) < 40", place))
	if !p.holds(`document.querySelector(".chips [aria-current=true]").innerText.includes("queued")`) {
		t.Error("the filter does not show what it filters by")
	}
	p.do(chromedp.Evaluate[chromedp.Void]("setTimeout(() => history.forward())"))
	p.below(s.url + "/runs/")
}

func (p *tab) scroll(t testing.TB) float64 {
	t.Helper()
	y, err := chromedp.Run(p.ctx, chromedp.Evaluate[float64]("scrollY"))
	if err != nil {
		t.Fatal(err)
	}
	return y
}
