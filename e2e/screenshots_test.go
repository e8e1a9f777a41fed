//go:build walks

package e2e

import (
	"bytes"
	"cmp"
	_ "embed"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// pictured is what the instance in the pictures runs, and history gives each of its Triggers a day of Runs.
//
//go:embed screenshots.yaml
var pictured string

//go:embed screenshots.sql
var history string

// A shot is one picture of a page.
type shot struct {
	name, path, language, theme string
	width, height               int64
}

// TestScreenshots takes the pictures in docs/screenshots, of a development instance: `make screenshots`. The variable
// SCREENSHOTS names the directory; without it there is nothing to do.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("SCREENSHOTS is not set: run make screenshots")
	}
	w := &world{T: t, chromium: startChromium(t), provider: &provider{}}
	st, failed := picturedStation(t, w), ""
	p := st.browser(t).tab()
	p.wide(1280)
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"})
	failed = pgtest.Value[string](t, st.all, "SELECT id::text FROM ql3.runs WHERE project_id = 'billing' AND status = 'failed' ORDER BY created_at_ms DESC LIMIT 1")
	st.comes(p, failed, first)
	for _, why := range []string{"billing was down, see https://wiki.example/incidents/7", "billing is back"} {
		p.open(st.run(failed))
		st.asks(p, failed, why)
		st.verifies(p, failed, first)
		p.press(retryButton)
		p.until("the retry", func(v view) bool { return v.has("retry of") || v.has("made") })
	}
	eventually(t, "the retries have ended", func() bool {
		return pgtest.Value[int](t, st.all, "SELECT count(*)::int FROM ql3.runs WHERE retry_of_run_id IS NOT NULL AND finished_at_ms IS NULL") == 0
	})
	pgtest.Exec(t, st.all, `UPDATE ql3.trigger_schedules SET next_fire_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 3000, claim_owner = 'console-2/4711/9c1f', claim_token = gen_random_uuid(), claim_version = claim_version + 1,
		updated_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint, claim_expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 50000 WHERE trigger_id IN ('nightly-report', 'certificates')`)
	for _, s := range shots("/runs/"+failed, "/schedules/billing/invoice-export") {
		st.take(p, dir, s)
	}
	p.open(st.run(failed))
	p.sends(nil)
	p.open(st.run(failed))
	st.asks(p, failed, "billing is back")
	st.verifies(p, failed, first)
	st.take(p, dir, shot{"retry", "/runs/" + failed + "/retry", "en", "light", 1280, 1300})
	st.take(p, dir, shot{"retry-phone", "/runs/" + failed + "/retry", "en", "light", 390, 844})
}

func shots(run, schedule string) []shot {
	return []shot{
		{"claims", "/claims", "en", "light", 1280, 700},
		{"overview", "/", "en", "light", 1280, 900}, {"overview-dark", "/", "en", "dark", 1280, 900}, {"overview-zh", "/", "zh-CN", "light", 1280, 900},
		{"overview-phone", "/", "en", "dark", 390, 844},
		{"schedules", "/schedules", "en", "light", 1280, 800}, {"schedule", schedule, "en", "light", 1280, 1000}, {"schedule-dark", schedule, "en", "dark", 1280, 1000},
		{"runs", "/runs", "en", "light", 1280, 900}, {"runs-phone", "/runs", "zh-CN", "light", 390, 844},
		{"run", run, "en", "light", 1280, 1100}, {"run-dark", run, "en", "dark", 1280, 1100}, {"run-zh", run, "zh-CN", "dark", 1280, 1100},
	}
}

// picturedStation is a development instance with a day behind it.
func picturedStation(t *testing.T, w *world) *station {
	st := stationOf(t, w, startDevelopment(t), pictured, "billing", "platform")
	pgtest.Exec(t, st.all, history)
	eventually(t, "something runs", func() bool {
		return pgtest.Value[int](t, st.all, "SELECT count(*)::int FROM ql3.runs WHERE status = 'running' AND task_id = 'search-index'") > 0
	})
	return st
}

// take writes one picture of the window.
func (st *station) take(p *tab, dir string, s shot) {
	p.Helper()
	p.media(&emulation.MediaFeature{Name: "prefers-color-scheme", Value: s.theme})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: s.width < 500})
	p.sends(map[string]any{"Accept-Language": s.language})
	p.open(st.url + s.path)
	p.until("a page in "+s.language, func(view) bool { return p.holds(`document.documentElement.lang === ` + quoted(s.language)) })
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, s.name+".png"), smaller(p, picture), 0o644); err != nil {
		p.Fatal(err)
	}
}

// smaller is the same picture in fewer bytes: nobody waits for the compression.
func smaller(t testing.TB, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, fewer(from)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fewer is the same picture in the 256 colours that are most of it; the others are edges of letters.
func fewer(from image.Image) image.Image {
	count, b := map[color.Color]int{}, from.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[from.At(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	to := image.NewPaletted(b, all[:min(len(all), 256)])
	draw.Draw(to, b, from, b.Min, draw.Src)
	return to
}
