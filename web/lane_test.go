package web

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/scheduler"
)

var (
	anchorLink = regexp.MustCompile(`href="#(at-[0-9]+)"`)
	anchorID   = regexp.MustCompile(` id="(at-[0-9]+)"`)
	laneOf     = regexp.MustCompile(`(?s)<figure class="plot lane">.*?</figure>`)
)

// matches are the first groups of all that re finds in s.
func matches(re *regexp.Regexp, s string) (list []string) {
	for _, m := range re.FindAllStringSubmatch(s, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestLaneDrawsEveryInstant(t *testing.T) {
	l := newLife(t)
	h := reader(t, l.Database, "/x")
	page := get(t, h, "/x/schedules/ops/minutely?account=hour").body
	lane := laneOf.FindString(page)
	if n, want := strings.Count(lane, `class="sign`), 30; n < want || n > want+1 { // the minute may have turned since
		t.Errorf("the lane has %d marks, want one for each of the 30 minutes since minute 0", n)
	}
	if n := strings.Count(lane, `href="/x/runs/`); n != 10 {
		t.Errorf("%d marks lead to a Run, want the 10 admitted ones", n)
	}
	ids := matches(anchorID, page)
	for _, link := range matches(anchorLink, lane) {
		if !slices.Contains(ids, link) {
			t.Errorf("a mark leads to %s, which is not on the page", link)
		}
	}
	if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("anchors come twice: %v", ids)
	}
	for _, want := range []string{`rect class="band alone"`, `rect class="band archived"`, "no replica was running", "rect class=\"band archived\"", "No replica was running: ", "UNACCOUNTED"} {
		if !strings.Contains(lane, want) {
			t.Errorf("the lane does not have %q", want)
		}
	}
	if strings.Contains(lane, "<script>") || strings.ContainsAny(lane, "\u202e\x07") {
		t.Error("a recorded reason comes through the lane as markup or as invisible controls")
	}
}

// What leads to one instant from elsewhere finds its row.
func TestLinkToOneInstant(t *testing.T) {
	l := newLife(t)
	address, anchor, _ := strings.Cut((links{}).instant("ops", "minutely", l.ms(14)), "#")
	page := get(t, reader(t, l.Database, ""), address).body
	if ids := matches(anchorID, page); !slices.Equal(ids, []string{anchor}) || laneOf.MatchString(page) {
		t.Errorf("%s has the anchors %v, want %s alone and no lane", address, ids, anchor)
	}
}

func TestLaneDrawsPausesToTheirReaders(t *testing.T) {
	l := newLife(t)
	l.exec(t, `INSERT INTO ql3.users (id, issuer, subject, name, created_at_ms, updated_at_ms) VALUES ('00000000-0000-0000-0000-000000000001', 'i', 's', $1, 0, 0)`, hostile)
	l.exec(t, `INSERT INTO ql3.trigger_pauses SELECT gen_random_uuid(), 'ops', 'minutely', 'billing is down', '00000000-0000-0000-0000-000000000001', $1,
		'00000000-0000-0000-0000-000000000001', $2, false`, l.ms(2), l.ms(5))
	lane := laneOf.FindString(get(t, reader(t, l.Database, ""), "/schedules/ops/minutely?account=hour").body)
	if !strings.Contains(lane, `rect class="band paused"`) || !strings.Contains(lane, "(billing is down): ") || strings.Contains(lane, "<script>alert") {
		t.Errorf("the lane does not say as text who paused, and why:\n%s", lane)
	}
	if n := strings.Count(lane, `class="swatch"`); n != 3 { // no replica, paused, archived
		t.Errorf("the legend has %d bands, want 3:\n%s", n, lane)
	}
	l.event(t, "paused", 1, 3, 4, nil, "paused: billing is down")
	l.exec(t, `DELETE FROM ql3.runs WHERE scheduled_for_ms IN ($1, $2)`, l.ms(3), l.ms(4))
	_, legend, _ := strings.Cut(laneOf.FindString(get(t, reader(t, l.Database, ""), "/schedules/ops/minutely?account=hour").body), `class="legend"`)
	if n := strings.Count(legend, " paused</span>"); n != 1 || strings.Count(legend, `class="swatch"`) != 3 {
		t.Errorf("the legend speaks of pausing %d times, want once, of instants and the time:\n%s", n, legend)
	}
}

// However many instants there are, a lane has so many columns at most, each leading to its own, and numbers beside it.
func TestLaneOfManyInstantsHasColumns(t *testing.T) {
	a := scheduler.Account{FromMS: 0, ToMS: 30 * 86_400_000, NowMS: 30 * 86_400_000, Truncated: true, Instants: []scheduler.Instant{{AtMS: 29 * 86_400_000, Verdict: scheduler.WasAdmitted}}}
	page := string(renderAccount(t, a))
	lane := laneOf.FindString(page)
	columns := strings.Count(lane, `<a class="many"`)
	if rows := strings.Count(lane, "<tr>") - 1; columns != maxParts-1 || rows != columns {
		t.Errorf("the lane has %d columns and %d rows, want %d of both", columns, rows, maxParts-1)
	}
	if first := "from=1970-01-01T00%3A00%3A00Z&amp;to=1970-01-01T05%3A59%3A59Z#account"; !strings.Contains(lane, first) {
		t.Errorf("no column leads to %s", first)
	}
	for _, y := range matches(regexp.MustCompile(` y="(-?[0-9.]+)%"`), lane) {
		if v, _ := strconv.ParseFloat(y, 64); v < 0 || v > 100 {
			t.Errorf("a block is at %s%% of its plot", y)
		}
	}
	if m := style.FindString(lane); m != "" {
		t.Errorf("the lane has inline style: %q", m)
	}
}

func TestPartsAndTicksAreFew(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia"}
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		to := rapid.Int64Range(1_300_000_000, 1_900_000_000).Draw(t, "to") * 1000
		r := accountRange{toMS: to, fromMS: to - rapid.Int64Range(60, 90*86_400).Draw(t, "span")*1000}
		start, part := columnOf(r, loc)
		if n := (r.toMS-start)/part - (r.fromMS-start)/part + 1; n >= maxParts {
			t.Fatalf("%d parts of %d ms", n, part)
		}
		ticks := timeTicks(r.fromMS, r.toMS, loc)
		if len(ticks) > laneTicks+2 {
			t.Fatalf("%d ticks", len(ticks))
		}
		last := math.Inf(-1)
		for _, k := range ticks {
			x, err := strconv.ParseFloat(strings.TrimSuffix(k.X, "%"), 64)
			if err != nil || x < 0 || x > 100 || x <= last {
				t.Fatalf("ticks %v", ticks)
			}
			last = x
		}
	})
}

// A part of a day begins where the Trigger's day does.
func TestPartsBeginOnTheTriggersClock(t *testing.T) {
	loc, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 12, 34, 0, 0, loc).UnixMilli()
	start, part := columnOf(accountRange{fromMS: now - 30*86_400_000, toMS: now}, loc)
	midnight := time.Date(2026, 11, 29, 0, 0, 0, 0, loc).UnixMilli()
	if got := fmt.Sprint((midnight-start)%part, time.Duration(part)*time.Millisecond); got != "0 6h0m0s" {
		t.Errorf("a month's parts: %s past midnight and long, want 0 6h0m0s", got)
	}
}
