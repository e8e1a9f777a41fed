//go:build walks

package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// zoneWalks are about a reader whose clock is not UTC, and about what there is room for.
var zoneWalks = []walk{
	{"a reader in Adelaide reads no time in UTC", walkZone},
	{"times are whole in the zone with the longest name", walkWholeTimes},
	{"a phone shows how the page stands at the foot of the window, across all of it", walkFootOfPhone},
}

// from puts the tab into a time zone.
func (p *tab) from(zone string) {
	p.Helper()
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
}

// inUTC is the times that the page says in UTC, also in the names and titles of its drawings. The title of a time and the
// account and its picture, which are in the Trigger's own zone, say it besides.
const inUTC = `[...document.querySelectorAll("main :is(p, li, time, span, dd, svg, title)")]
	.filter(el => !el.closest("[data-zone], .account, .lane, .next"))
	.flatMap(el => [el.ariaLabel ?? "", ...[...el.childNodes].filter(x => x.nodeType === 3).map(x => x.data)])
	.filter(x => /\d\d:\d\d(:\d\d)? UTC(?![+-])/.test(x))`

func walkZone(t *testing.T, s *site) {
	s.admits(t)
	p := s.member(t, "bob")
	p.from("Australia/Adelaide") // half an hour beside the clock's
	for _, path := range []string{"/", "/runs", "/schedules", "/schedules/ops/beat"} {
		p.open(s.url + path)
		found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](inUTC))
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range found {
			t.Errorf("%s says %q", path, what)
		}
	}
	p.open(s.url + "/")
	if !p.holds(`/at \d\d:\d\d UTC\+(9:30|10:30)/.test(document.querySelector(".plots").innerText)`) {
		t.Errorf("no chart says when most Runs were admitted: %s", p.glance())
	}
}

func walkWholeTimes(t *testing.T, s *site) {
	s.admits(t)
	p := s.member(t, "bob")
	p.from("Pacific/Chatham")
	p.wide(1280)
	for _, path := range []string{"/", "/runs", "/schedules", "/claims", "/batches"} {
		p.open(s.url + path)
		if p.holds(`[...document.querySelectorAll("main time")].some(x => x.scrollWidth > x.clientWidth && getComputedStyle(x).overflow !== "visible")`) {
			t.Errorf("%s cuts times off", path)
		}
	}
}

func walkFootOfPhone(t *testing.T, s *site) {
	id := s.admits(t)
	p := s.member(t, "bob")
	p.wide(375)
	for _, path := range []string{"/", "/runs", "/runs/" + id} {
		p.open(s.url + path)
		p.becomes("live", soon)
		below := `document.querySelector(".deeds .btn")?.closest(".deeds").getBoundingClientRect().top ?? innerHeight`
		if !p.holds(`{ const r = document.querySelector(".stream").getBoundingClientRect(); r.left === 0 && r.right === innerWidth && Math.abs(r.bottom - (` + below + `)) < 2 }`) {
			t.Errorf("%s: the bar is not across the foot of the window", path)
		}
		if !p.holds(`scrollTo(0, document.body.scrollHeight), document.querySelector("footer").lastElementChild.getBoundingClientRect().bottom <= document.querySelector(".stream").getBoundingClientRect().top`) {
			t.Errorf("%s: the bar lies on the end of the page", path)
		}
	}
}
