//go:build walks

package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

func walkFrames(t *testing.T, s *site) {
	p := s.member(t, "bob")
	p.mayRefuse = true
	tests := []struct {
		parent, path string
		shown        bool
	}{
		{"wiki.ops.example", "/schedules?view=embed", true},
		{"wiki.ops.example", "/runs?status=failed&view=embed", true},
		{"wiki.ops.example", "/schedules", false}, // a whole page has forms
		{"wiki.ops.example", "/account", false},
		{"wiki.ops.example", "/account?view=embed", false},
		{"wiki.ops.example", "/auth/sign-in", false},
		{"wiki.ops.example", "/auth/signed-out", false},
		{"other.ops.example", "/schedules?view=embed", false},
		{"elsewhere.example", "/schedules?view=embed", false},
	}
	for _, test := range tests {
		p.open(s.parent(test.parent, "frame", s.url+test.path))
		if got := p.framed(s.url + test.path); got != test.shown {
			t.Errorf("%s frames %s: shown %v, want %v", test.parent, test.path, got, test.shown)
		}
	}
	p.open(s.parent("wiki.ops.example", "frame", s.url+"/schedules?view=embed"))
	if text := p.inFrame(); !strings.Contains(text, "beat") {
		t.Errorf("the frame shows %s", text)
	}
	q := s.browser(t).tab()
	q.mayRefuse = true
	q.open(s.parent("wiki.ops.example", "frame", s.url+"/schedules?view=embed"))
	if text := q.inFrame(); !strings.Contains(text, "Open the console") || strings.Contains(text, "beat") {
		t.Errorf("signed out, the frame shows %s", text)
	}
}

// walkForeignForms is the same for a page of the same site and of another: neither is the console.
func walkForeignForms(t *testing.T, s *site) {
	for _, host := range []string{"wiki.ops.example", "elsewhere.example"} {
		p := s.member(t, "bob")
		for _, path := range []string{"/auth/sign-in", "/auth/sign-out", "/auth/sign-out-everywhere"} {
			p.open(s.parent(host, "form", s.url+path))
			p.press("button")
			p.sees("Sent from elsewhere")
		}
		p.open(s.url + "/account")
		p.sees(s.people["bob"].Name)
	}
}

// framed reports whether the page's frame shows address, once it shows something.
func (p *tab) framed(address string) bool {
	p.Helper()
	shown := ""
	eventually(p, "the frame shows something", func() bool {
		shown = p.frameURL()
		return shown == address || strings.HasPrefix(shown, "chrome-error:")
	})
	return shown == address
}

// frameURL is what the page's frame shows. The browser keeps a frame of another site in a target of its own.
func (p *tab) frameURL() string {
	p.Helper()
	if frames := call(p, page.GetFrameTree, cdp.Empty{}).FrameTree.ChildFrames; len(frames) == 1 {
		return frames[0].Frame.URL
	}
	targets, err := chromedp.Targets(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	for _, x := range targets {
		if x.Type == "iframe" {
			ctx, cancel := chromedp.NewContext(p.ctx, chromedp.WithTargetID(x.TargetID), chromedp.WithDetachOnCancel())
			defer cancel()
			shown, _ := chromedp.Run(ctx, chromedp.Location()) // between two pages there is none
			return shown
		}
	}
	return ""
}

// inFrame is the text of the page's frame.
func (p *tab) inFrame() string {
	p.Helper()
	frames, err := chromedp.Run(p.ctx, chromedp.Nodes(chromedp.CSS("iframe")))
	if err != nil {
		p.Fatal(err)
	}
	text, err := chromedp.Run(p.ctx, chromedp.Text(chromedp.CSS("body"), chromedp.FromNode(frames[0])))
	if err != nil {
		p.Fatal(err)
	}
	return text
}
