//go:build walks

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// startChromium starts the one browser program. Each walk has its own profile in it, see [world.browser].
func startChromium(t testing.TB) context.Context {
	t.Helper()
	path, err := chromiumProgram()
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.IgnoreCertErrors,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1200, 900),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

func chromiumProgram() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no chromium: run make e2e, which installs one")
}

// A browser is one profile, with its own cookies, until the walk ends.
type browser struct {
	t   testing.TB
	ctx context.Context
}

func (w *world) browser(t testing.TB) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(w.chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("new browser profile: %v", err)
	}
	return &browser{t: t, ctx: ctx}
}

// A tab is one window of a browser. Its methods fail the walk.
type tab struct {
	testing.TB
	ctx       context.Context
	mu        sync.Mutex
	visited   []string  // documents that were asked for, redirects included
	complains []string  // what the browser's console says went wrong
	mayRefuse bool      // the walk is about something the browser refuses
	hear      func(any) // every event, for a while
}

func (b *browser) tab() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	p := &tab{TB: b.t, ctx: ctx}
	b.t.Cleanup(cancel)
	b.t.Cleanup(p.end)
	if err := chromedp.Listen(ctx, p.note); err != nil {
		b.t.Fatalf("new tab: %v", err)
	}
	return p
}

// note keeps what happens in the tab. A refused form and a missing icon are answers, not faults.
func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hear != nil {
		p.hear(event)
	}
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Type == network.ResourceTypeDocument {
			p.visited = append(p.visited, e.Request.URL)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			p.complains = append(p.complains, e.Entry.Text)
		}
	}
}

// asked are the documents asked for since the tab was opened.
func (p *tab) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.visited)
}

// end says what the browser complained of and, when the walk failed, keeps a picture of the tab.
func (p *tab) end() {
	p.mu.Lock()
	complains := p.complains
	p.mu.Unlock()
	if len(complains) > 0 && !p.mayRefuse {
		p.Errorf("the browser says: %s", strings.Join(complains, "\n"))
	}
	if !p.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return
	}
	p.mu.Lock()
	name := filepath.Join(p.ArtifactDir(), fmt.Sprintf("%d.png", time.Now().UnixNano()))
	p.Logf("the tab came by:\n%s", strings.Join(p.visited, "\n"))
	p.mu.Unlock()
	if err := os.WriteFile(name, picture, 0o644); err == nil {
		p.Logf("picture of %s: %s", p.glance().URL, name)
	}
}

// A step is one thing a person does at the browser.
type step = chromedp.Action[chromedp.Void]

func (p *tab) do(steps ...step) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatalf("browser: %v; it shows %s", err, p.glance())
	}
}

// call gives the tab a command of the protocol.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// A view is what a tab shows.
type view struct {
	URL, Title, Text string
	Whole            bool // it is loaded to its end
}

func (v view) String() string { return fmt.Sprintf("%s (%s):\n%s", v.URL, v.Title, v.Text) }

// glance is what the tab shows just now, nothing while it is between two pages.
func (p *tab) glance() view {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[view](`({URL: location.href, Title: document.title, Text: document.body ? document.body.innerText : "", Whole: document.readyState === "complete"})`))
	if err != nil {
		return view{}
	}
	return v
}

// until waits until the tab shows, loaded to its end, what ok accepts.
func (p *tab) until(what string, ok func(view) bool) view {
	p.Helper()
	var v view
	for deadline := time.Now().Add(patience / 2); ; {
		if v = p.glance(); v.Whole && ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			p.Fatalf("the tab does not come to %s; it shows %s", what, v)
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-p.ctx.Done():
			p.Fatal(p.ctx.Err())
		}
	}
}

// at waits until the tab has come to address.
func (p *tab) at(address string) view {
	p.Helper()
	return p.until(address, func(v view) bool { return v.URL == address })
}

// below waits until the tab has come to an address that begins with prefix.
func (p *tab) below(prefix string) view {
	p.Helper()
	return p.until("something below "+prefix, func(v view) bool { return strings.HasPrefix(v.URL, prefix) })
}

// sees waits until the page holds every one of words, whatever their case.
func (p *tab) sees(words ...string) view {
	p.Helper()
	return p.until(fmt.Sprintf("a page with %q", words), func(v view) bool { return v.has(words...) })
}

func (v view) has(words ...string) bool {
	text := strings.ToLower(v.Title + "\n" + v.Text)
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) })
}

// open goes to address, as if it was typed. A page that cannot be had at all is one too: the browser's own.
func (p *tab) open(address string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil && !strings.Contains(err.Error(), "net::ERR_") {
		p.Fatalf("open %s: %v", address, err)
	}
}

func (p *tab) reload() {
	p.Helper()
	p.do(chromedp.Reload())
}

// back goes back without waiting for a load: a page that the browser kept has none.
func (p *tab) back() {
	p.Helper()
	p.do(chromedp.Evaluate[chromedp.Void]("setTimeout(() => history.back())"))
}

func (p *tab) press(selector string) {
	p.Helper()
	p.do(chromedp.Click(selector, chromedp.NodeVisible))
}

// withoutScript turns JavaScript off in the tab.
func (p *tab) withoutScript() {
	p.Helper()
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// sends makes every request of the tab carry headers too.
func (p *tab) sends(headers map[string]any) {
	p.Helper()
	if headers == nil {
		headers = map[string]any{}
	}
	call(p, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers})
}

// cookies are those that would be sent to address, by name.
func (p *tab) cookies(address string) map[string]*network.Cookie {
	p.Helper()
	byName := map[string]*network.Cookie{}
	for _, c := range call(p, network.GetCookies, network.GetCookiesParams{URLs: []string{address}}).Cookies {
		byName[c.Name] = c
	}
	return byName
}

// prove signs name in at the independent provider, whose form the tab shows.
func (p *tab) prove(w *world, name string) {
	p.Helper()
	p.below(w.provider.issuer + "/sign-in/")
	p.do(chromedp.SendKeys("#name", name), chromedp.SendKeys("#password", w.people[name].Password+kb.Enter))
}

// query is the parameters of the last document asked for whose address begins with prefix.
func (p *tab) query(prefix string) url.Values {
	p.Helper()
	for _, address := range slices.Backward(p.asked()) {
		if strings.HasPrefix(address, prefix) {
			u, err := url.Parse(address)
			if err != nil {
				p.Fatal(err)
			}
			return u.Query()
		}
	}
	p.Fatalf("the tab never asked for %s; it asked for\n%s", prefix, strings.Join(p.asked(), "\n"))
	return nil
}
