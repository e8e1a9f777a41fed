//go:build walks

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
)

// walkPages opens every page there is, in both languages, and holds it to what every page must be: found fault with by
// nobody, at either end of the widths, in either theme, and soon there. The pages are those named here and all that they
// lead to.
func walkPages(t *testing.T, w *world) {
	st := developmentStation(t, w)
	id := st.failed(t)
	v := &survey{station: st, p: st.browser(t).tab(), asked: map[string]bool{}}
	v.all(t, "signed out ", "/auth/sign-in", "/auth/signed-out", "/auth/callback?state=nonsense")
	st.comes(v.p, id, first)
	retried := failedRunOf(t, st.all, "job-1")
	v.p.open(st.run(retried))
	st.retries(v.p, retried, first, reason)
	v.all(t, "", "/", "/runs", "/runs?status=failed&project=walks", "/runs?task=nothing-of-the-kind", "/runs/"+id, "/runs/"+retried,
		"/runs/"+id+"/retry", "/schedules", "/schedules/sample/ledger-rehearsal", "/audit", "/account", "/account/styleguide", "/search?q=job",
		"/search?q=nothing-of-the-kind", "/?view=embed", "/runs?view=embed", "/nothing/of/the/kind", "/runs?color=red", "/runs/"+uuid.NewString(), "/go/mutation/"+uuid.NewString())
	v.p.open(st.run(id))
	st.asks(v.p, id, reason)
	st.verifies(v.p, id, first)
	v.all(t, "verified ", "/runs/"+id+"/retry")
	stopped := st.running(t)
	v.all(t, "before its verification ", "/runs/"+stopped+"/stop")
	v.p.open(st.run(stopped) + "/stop")
	st.verifiesStop(v.p, stopped)
	v.all(t, "verified ", "/runs/"+stopped+"/stop")
}

// A survey opens pages in one tab and keeps what they led to.
type survey struct {
	*station
	p     *tab
	asked map[string]bool // shapes of addresses
}

// languages by their names at the switch, and what a page in it says of itself.
var languages = []string{"en", "zh-CN"}

// all opens paths; as they are usually, and not as what says, also whatever they lead to that has not been opened.
func (v *survey) all(t *testing.T, what string, paths ...string) {
	if os.Getenv("WALKS_PAGES") != "" {
		paths = slices.DeleteFunc(paths, func(path string) bool { return !regexp.MustCompile(os.Getenv("WALKS_PAGES")).MatchString(path) })
	}
	for _, path := range paths {
		page, _, _ := strings.Cut(shape(path), "?")
		v.asked[page] = v.asked[page] || what == ""
	}
	for len(paths) > 0 {
		path := paths[0]
		paths = paths[1:]
		t.Run(what+"page "+shape(path), func(t *testing.T) {
			defer v.p.sends(nil)
			for i, language := range languages {
				v.open(t, path, language)
				v.look(t, what+path, language, i)
			}
		})
		if what != "" {
			continue // the same pages are opened without it
		}
		for _, next := range v.leads(t) {
			page, _, _ := strings.Cut(shape(next), "?") // one link to a list is enough
			if !v.asked[page] && os.Getenv("WALKS_PAGES") == "" {
				v.asked[page] = true
				paths = append(paths, next)
			}
		}
	}
}

var identity = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// shape is what an address has in common with others of its page: its path without ids, and the names of its query.
func shape(path string) string {
	path, query, _ := strings.Cut(identity.ReplaceAllString(path, "ID"), "?")
	if parts := strings.Split(path, "/"); len(parts) == 4 && parts[1] == "schedules" {
		path = "/schedules/PROJECT/TRIGGER"
	}
	var names []string
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.TrimSuffix(path+"?"+strings.Join(names, "&"), "?")
}

// leads are the pages of the console to which the page has links.
func (v *survey) leads(t *testing.T) (paths []string) {
	t.Helper()
	found, err := chromedp.Run(v.p.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("a[href]:not([download])")].map(a => new URL(a.getAttribute("href"), document.baseURI).href.split("#")[0])`))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range found {
		path, ours := strings.CutPrefix(address, v.url)
		if ours && !strings.HasPrefix(path, "/auth/") && !strings.Contains(path, ".json") && !strings.Contains(path, ".csv") {
			paths = append(paths, path)
		}
	}
	return paths
}

// open opens path as a browser does that was never here, and holds what that takes to its bounds.
func (v *survey) open(t *testing.T, path, language string) {
	t.Helper()
	call(v.p, network.ClearBrowserCache, cdp.Empty{})
	v.p.sends(map[string]any{"Accept-Language": language})
	seen := v.p.traffic(func() { v.p.open(v.url + path) })
	if len(seen) > 6 {
		t.Errorf("%s takes %d requests, want 6 at most: %v", path, len(seen), seen)
	}
	size := 0
	for address, n := range seen {
		size += n
		if !strings.HasPrefix(address, v.url+"/") {
			t.Errorf("%s asks another origin: %s", path, address)
		}
	}
	if size > 60_000 || size == 0 {
		t.Errorf("%s takes %d bytes, want 60,000 at most: %v", path, size, seen)
	}
}

// traffic is what the tab received while do was done, by address: bytes over the wire, headers included. Streams, which
// go on, and what was in the cache are not in it.
func (p *tab) traffic(do func()) map[string]int {
	p.Helper()
	var ended = map[network.RequestID]int{}
	asked := map[network.RequestID]string{}
	p.listen(func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if e.Type != network.ResourceTypeFetch && e.Type != network.ResourceTypeEventSource && !strings.HasPrefix(e.Request.URL, "data:") {
				asked[e.RequestID] = e.Request.URL
			}
		case *network.EventLoadingFinished:
			ended[e.RequestID] = int(e.EncodedDataLength)
		}
	}, func() {
		do()
		p.until("its end", func(view) bool { return true })
	})
	seen := map[string]int{}
	for id, address := range asked {
		seen[address] += ended[id]
	}
	return seen
}

// listen hears the tab's events while do is done.
func (p *tab) listen(hear func(any), do func()) {
	p.Helper()
	p.mu.Lock()
	p.hear = hear
	p.mu.Unlock()
	do()
	p.mu.Lock()
	p.hear = nil
	p.mu.Unlock()
}

// look holds what the tab shows to the rules of axe-core, in both themes, each at one end of the widths: the wide one first
// in the first language, the narrow one first in the second. So each language is seen in each theme and at each width, and
// each theme at each width, in four looks and not eight.
func (v *survey) look(t *testing.T, path, language string, turn int) {
	t.Helper()
	v.p.until("a page in "+language, func(view) bool { return v.p.holds(`document.documentElement.lang === ` + quoted(language)) })
	v.p.do(chromedp.Evaluate[chromedp.Void](axe(t)))
	for i, theme := range []string{"light", "dark"} {
		width := widths[(i+turn)%len(widths)]
		call(v.p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
		v.p.wide(width)
		name := fmt.Sprintf("%s %s %s %d", path, language, theme, width)
		rules := styleRules
		if i == 0 {
			rules = allRules
		}
		for _, fault := range v.p.faults(t, rules) {
			t.Errorf("%s: %s", name, fault)
		}
		if over := v.p.holds(`document.documentElement.scrollWidth > innerWidth`); over {
			t.Errorf("%s: it is wider than the window", name)
		}
		v.p.keep(t, name)
	}
	v.p.wide(widths[0])
	call(v.p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
}

// widths are the ends between which a page is shown.
var widths = []int64{1280, 375}

// wide makes the tab so many pixels wide.
func (p *tab) wide(width int64) {
	p.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
}

// holds reports whether a condition in JavaScript does.
func (p *tab) holds(condition string) bool {
	p.Helper()
	yes, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](condition))
	if err != nil {
		p.Fatalf("%s: %v", condition, err)
	}
	return yes
}

// axe is the source of axe-core, of the version in package.json.
func axe(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// The rules of axe-core. Those about style are looked at again wherever the style is another.
const (
	allRules   = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	styleRules = `{type: "rule", values: ["color-contrast", "target-size", "link-in-text-block", "scrollable-region-focusable", "region", "empty-table-header"]}`
)

// faults are what axe-core, which the page holds, finds on it by rules.
func (p *tab) faults(t testing.TB, rules string) []string {
	t.Helper()
	run := `axe.run(document, {runOnly: ` + rules + `, resultTypes: ["violations"]}).then(found =>
		found.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target.join(" ") + ": " + n.html.slice(0, 200) + "\n" + n.failureSummary)))`
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keep keeps a picture of the whole page in the directory that WALKS_PICTURES names, if it does.
func (p *tab) keep(t testing.TB, name string) {
	t.Helper()
	dir := os.Getenv("WALKS_PICTURES")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	file := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/?&= ", r) {
			return '_'
		}
		return r
	}, identity.ReplaceAllString(name, "ID"))
	if err := os.WriteFile(filepath.Join(dir, file+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
