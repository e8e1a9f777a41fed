//go:build walks

package e2e

import (
	"bytes"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// handWalks are about readers who use no pointer, see other colours, want nothing to move, or read on paper.
var handWalks = []walk{
	{"keys lead through a list and from page to page, and the focus is seen", walkKeys},
	{"in forced colours and with reduced motion everything is still there", walkForced},
	{"on paper a Run is a record without navigation", walkPaper},
}

func (p *tab) types(keys string) {
	p.Helper()
	p.do(chromedp.KeyEvent(keys))
}

func walkKeys(t *testing.T, s *site) {
	s.admits(t)
	s.admits(t)
	p := s.member(t, "bob")
	p.open(s.url + "/runs")
	p.types("/")
	p.comes("a field has the focus", soon, `document.activeElement.matches("main input, main select")`)
	p.types("j")
	p.comes("a key in a field is a letter", soon, `document.activeElement.matches("input") && document.activeElement.value.endsWith("j") && !document.querySelector("tr.at")`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""; document.activeElement.blur()`))
	p.types("j")
	p.types("j")
	p.types("k")
	p.types("j")
	p.comes("the second row has the focus", soon, `document.querySelector("tbody tr:nth-child(2)").contains(document.activeElement)`)
	p.comes("the focus is seen", soon, `getComputedStyle(document.activeElement).outlineStyle !== "none" && parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2`)
	p.types(kb.Enter)
	p.below(s.url + "/runs/")
	for _, to := range []struct{ keys, path string }{{"gs", "/schedules"}, {"gr", "/runs"}, {"go", "/"}} {
		p.types(to.keys)
		p.at(s.url + to.path)
	}
	p.types("?")
	p.comes("the keys are listed", soon, `document.getElementById("keys").open`)
	p.types(kb.Escape)
	p.comes("the list is closed", soon, `!document.getElementById("keys").open`)
}

// media makes the tab prefer what features say.
func (p *tab) media(features ...*emulation.MediaFeature) {
	p.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

func walkForced(t *testing.T, s *site) {
	s.admits(t)
	p := s.member(t, "bob")
	p.media(&emulation.MediaFeature{Name: "forced-colors", Value: "active"}, &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
	for _, path := range []string{"/", "/runs", "/schedules/ops/beat"} {
		p.open(s.url + path)
		if !p.holds(`matchMedia("(forced-colors: active)").matches`) {
			t.Fatal("the browser does not force colours")
		}
		if p.holds(`[...document.querySelectorAll("*")].some(x => parseFloat(getComputedStyle(x).animationDuration) > 0 || parseFloat(getComputedStyle(x).transitionDuration) > 0)`) {
			t.Errorf("something on %s moves", path)
		}
		if p.holds(`[...document.querySelectorAll("main svg *")].some(x => getComputedStyle(x).fill === getComputedStyle(document.body).backgroundColor)`) {
			t.Errorf("something drawn on %s has the colour of the ground", path)
		}
		p.keep(t, "forced "+path)
	}
}

func walkPaper(t *testing.T, s *site) {
	p, r := s.member(t, "bob"), s.takes(t)
	r.starts()
	r.fails()
	p.open(s.url + "/runs/" + r.id)
	sheets := call(p, page.PrintToPDF, page.PrintToPDFParams{}).Data
	if !bytes.HasPrefix(sheets, []byte("%PDF")) || bytes.Count(sheets, []byte("/Type /Page\n")) > 3 {
		t.Errorf("the Run takes %d sheets", bytes.Count(sheets, []byte("/Type /Page\n")))
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	p.keep(t, "print run")
	v := p.sees(r.id, "failed", "exit 3")
	if v.has("sign out") || v.has("schedules") || p.holds(`[...document.querySelectorAll("nav, button, input, .stream")].some(x => x.checkVisibility())`) {
		t.Errorf("paper shows what wants a click: %s", v)
	}
}
