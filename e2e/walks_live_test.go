//go:build walks

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"
)

const (
	pauseButton = `[data-stream] [data-toggle]`
	newsButton  = `[data-stream] [data-news]`
)

// soon is how long an update may take from its commit to the page, and long how long the end of a right may.
const soon, long = 10 * time.Second, 15 * time.Second

// liveWalks are about pages that a stream keeps current, at a console behind nginx.
var liveWalks = []walk{
	{"pause stops it, also on the next page, and resume goes on", walkPaused},
	{"news wait for the reader, and then show", walkNews},
	{"a server that freezes is said to be stale, and that it is back", walkFrozen},
	{"a hidden tab has no stream, and goes on where it was when it is shown", walkHidden},
	{"signing out elsewhere ends it", func(t *testing.T, s *site) {
		p, q := s.watcher(t, "bob"), s.member(t, "bob")
		q.open(s.url + "/account")
		q.press(everywhereButton)
		q.sees("in every browser")
		p.becomes("ended", long)
	}},
	{"a role that is revoked ends it", func(t *testing.T, s *site) {
		p := s.watcher(t, "dan")
		t.Cleanup(func() { s.grant(s, "dan") })
		s.revoke(t, "dan")
		p.becomes("ended", long)
	}},
	{"more tabs than one may have say so, and work", walkManyTabs},
}

// watcher is a tab of somebody's that shows the list of Runs, live.
func (s *site) watcher(t testing.TB, name string) *tab {
	t.Helper()
	p := s.member(t, name)
	p.open(s.url + "/runs")
	p.becomes("live", soon)
	return p
}

// becomes waits until the page's stream is in state.
func (p *tab) becomes(state string, within time.Duration) {
	p.Helper()
	p.comes("stream is "+state, within, `document.querySelector("[data-stream]").dataset.is === `+quoted(state))
}

// comes waits until a condition in JavaScript holds.
func (p *tab) comes(what string, within time.Duration, condition string) {
	p.Helper()
	for deadline := time.Now().Add(within); !p.holds(condition); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("after %v still not: %s; the tab shows %s", within, what, p.glance())
		}
	}
}

// admits makes a Run of the Trigger and returns its id.
func (s *site) admits(t testing.TB) string {
	t.Helper()
	now := runtest.Clock(t, s.super)
	id := runtest.Admit(t, s.db, "ops", "beat", now, now).String()
	s.hints(t)
	return id
}

// hints tells the replica what one that commits by itself tells the others: that there is something to look at.
func (s *site) hints(t testing.TB) {
	t.Helper()
	pgtest.Exec(t, s.super, "SELECT pg_notify('ql3_changes', '')")
}

// has is a condition: the page has the Run's row.
func has(id string) string { return `!!document.querySelector('[data-row="` + id + `"]')` }

// news is a condition: the button offers something.
const news = `!document.querySelector('` + newsButton + `').hidden`

// walkUpdate goes wherever the console is, so that no proxy holds an update back.
func walkUpdate(t *testing.T, s *site) {
	p := s.watcher(t, "bob")
	id := s.admits(t)
	p.comes("the page knows of a new Run", soon, news+" || "+has(id))
	if p.holds(news) {
		p.press(newsButton)
	}
	p.comes("the new Run is there", soon, has(id))
}

func walkNews(t *testing.T, s *site) {
	s.admits(t) // so that there is a list
	p := s.watcher(t, "bob")
	id := s.admits(t)
	p.comes("the page offers the new Run", soon, news)
	if p.holds(has(id)) {
		t.Error("the new Run is in the list before the reader asked for it")
	}
	p.sees("new: show")
	p.do(chromedp.KeyEvent("."))
	p.comes("the new Run is there", soon, has(id))
	p.comes("the button is gone", soon, "!("+news+")")
}

func walkPaused(t *testing.T, s *site) {
	p := s.watcher(t, "bob")
	p.press(pauseButton)
	p.becomes("paused", soon)
	p.open(s.url + "/")
	p.becomes("paused", soon)
	asked := p.streams(func() {
		p.open(s.url + "/runs")
		p.becomes("paused", soon)
		s.admits(t)
		time.Sleep(4 * time.Second) // twice as long as an update takes
	})
	if len(asked) > 0 || p.holds(news) {
		t.Errorf("a paused page asked for %v", asked)
	}
	p.press(pauseButton)
	p.becomes("live", soon)
	p.comes("it knows of what it missed", soon, news)
}

// streams are the states from which the tab asked for a stream while do was done.
func (p *tab) streams(do func()) (from []string) {
	p.Helper()
	p.listen(func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok && fmt.Sprint(e.Request.Headers["Accept"]) == "text/event-stream" {
			from = append(from, fmt.Sprint(e.Request.Headers["Last-Event-ID"]))
		}
	}, do)
	return from
}

func walkFrozen(t *testing.T, s *site) {
	p := s.watcher(t, "bob")
	server := s.replica.Cmd.Process
	server.Signal(syscall.SIGSTOP)
	defer server.Signal(syscall.SIGCONT)
	p.becomes("stale", 40*time.Second)
	p.sees("stale: last heard of at")
	server.Signal(syscall.SIGCONT)
	p.becomes("live", 40*time.Second)
	s.admits(t)
	p.comes("an update comes", soon, news)
}

func walkHidden(t *testing.T, s *site) {
	b := s.browser(t)
	p := b.tab()
	s.signIn(p, s.url+"/runs", "bob")
	p.becomes("live", soon)
	p.show(t, false)
	id := s.admits(t)
	asked := p.streams(func() {
		time.Sleep(4 * time.Second) // twice as long as an update takes
		if p.holds(news) {
			t.Error("a hidden page was brought up to date")
		}
		p.show(t, true)
		p.comes("it knows of what it missed", soon, news+" || "+has(id))
	})
	if len(asked) != 1 || !strings.Contains(asked[0], "rows=") {
		t.Errorf("the page that was hidden asked for streams from %q, want one from a state", asked)
	}
}

// show makes the tab hidden or shows it again, as another tab in front of it does.
func (p *tab) show(t testing.TB, shown bool) {
	t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`Object.defineProperty(document, "hidden", {configurable: true, get: () => ` + fmt.Sprint(!shown) + `}); document.dispatchEvent(new Event("visibilitychange"))`))
}

func walkManyTabs(t *testing.T, s *site) {
	b := s.browser(t)
	p := b.tab()
	s.signIn(p, s.url+"/runs", "ada")
	s.grant(t, "ada")
	for n := 1; ; n++ {
		if n > 12 {
			t.Fatal("twelve pages are live")
		}
		p = b.tab()
		p.open(s.url + "/runs")
		p.comes("the page says how it stands", soon, `!!document.querySelector("[data-stream]").dataset.is`)
		if p.holds(`document.querySelector("[data-stream]").dataset.is === "full"`) {
			break
		}
	}
	p.sees("as many live pages are open as one may have", "queued")
	p.open(s.url + "/schedules")
	p.sees("beat")
}
