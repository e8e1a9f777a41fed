package cron

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The oracle knows the rules of DESIGN.md and nothing of the implementation. It
// looks at a zone's clock at every step of a window and writes down what it
// shows; what the clock never shows in the window is what it skips.

// A pattern is an expression as the oracle understands it: the text of each
// column and the values it stands for.
type pattern struct {
	text   [6]string
	values [6]map[int]bool
}

func (p pattern) String() string { return strings.Join(p.text[:], " ") }

func (p pattern) star(column int) bool { return strings.ContainsAny(p.text[column][:1], "*?") }

// matches reports whether a clock that shows c matches. c is in UTC, because
// there every civil time exists.
func (p pattern) matches(c time.Time) bool {
	if !p.values[0][c.Second()] || !p.values[1][c.Minute()] || !p.values[2][c.Hour()] || !p.values[4][int(c.Month())] {
		return false
	}
	byMonth, byWeek := p.values[3][c.Day()], p.values[5][int(c.Weekday())]
	if p.star(3) || p.star(5) {
		return byMonth && byWeek
	}
	return byMonth || byWeek
}

// civilOf returns what loc's clock shows at an instant.
func civilOf(at time.Time, loc *time.Location) time.Time {
	l := at.In(loc)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// wholeDay is a margin for a skipped or repeated day.
const wholeDay = 50 * time.Hour

// occurrences returns the instants in [from, to] at which p is due in loc. step
// must divide every civil time p matches and every offset in the window; margin
// must be more than the offset changes.
func (p pattern) occurrences(loc *time.Location, from, to time.Time, margin, step time.Duration) []time.Time {
	if p.star(2) {
		margin = 0 // what the clock shows now is all that counts
	}
	due := map[int64]bool{}
	shown := map[int64]bool{}
	var highest time.Time // the latest civil time shown so far
	for at := from.Add(-margin); !at.After(to.Add(margin)); at = at.Add(step) {
		c := civilOf(at, loc)
		if p.star(2) {
			due[at.Unix()] = due[at.Unix()] || p.matches(c)
			continue
		}
		// The clock has jumped over everything between highest and c.
		if !highest.IsZero() {
			for missed := highest.Add(step); missed.Before(c); missed = missed.Add(step) {
				if p.matches(missed) && !shown[missed.Unix()] {
					due[at.Unix()] = true
				}
			}
		}
		if !shown[c.Unix()] && p.matches(c) {
			due[at.Unix()] = true
		}
		shown[c.Unix()] = true
		if c.After(highest) {
			highest = c
		}
	}
	var list []time.Time
	for unix, is := range due {
		if at := time.Unix(unix, 0).UTC(); is && !at.Before(from) && !at.After(to) {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// walked returns what Next finds in [from, to].
func walked(s Schedule, from, to time.Time) []time.Time {
	var list []time.Time
	for at, ok := s.Next(from.Add(-time.Second)); ok && !at.After(to); at, ok = s.Next(at) {
		list = append(list, at)
	}
	return list
}

// zoneNames returns every zone of the data.
func zoneNames() []string {
	names := []string{"UTC"}
	for line := range strings.Lines(zoneData) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			names = append(names, name)
		}
	}
	return names
}

// changes returns the instants between two years at which a zone's offset
// changes, found by comparing offsets, not by asking for transitions.
func changes(loc *time.Location, fromYear, toYear int) []time.Time {
	offset := func(unix int64) int {
		_, o := time.Unix(unix, 0).In(loc).Zone()
		return o
	}
	const stride = 3 * 24 * 60 * 60 // shorter than any spell
	var list []time.Time
	end := time.Date(toYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lo := time.Date(fromYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for was := offset(lo); lo < end; lo += stride {
		before, hi := lo, lo+stride
		is := offset(hi)
		if was == is {
			continue
		}
		for hi-before > 1 {
			if middle := (before + hi) / 2; offset(middle) == was {
				before = middle
			} else {
				hi = middle
			}
		}
		list = append(list, time.Unix(hi, 0).UTC())
		was = is
	}
	return list
}

// drawColumn draws a column of one to three terms.
func drawColumn(t *rapid.T, label string, lo, hi int) (string, map[int]bool) {
	var texts []string
	values := map[int]bool{}
	for range rapid.IntRange(1, 3).Draw(t, label+" terms") {
		text, from, to, step := "*", lo, hi, 1
		a := rapid.IntRange(lo, hi).Draw(t, label)
		switch rapid.IntRange(0, 4).Draw(t, label+" form") {
		case 0, 1:
			text, from, to = strconv.Itoa(a), a, a
		case 2:
			b := rapid.IntRange(a, hi).Draw(t, label+" to")
			text, from, to = fmt.Sprintf("%d-%d", a, b), a, b
		case 3:
			step = rapid.IntRange(1, hi).Draw(t, label+" step")
			text = fmt.Sprintf("*/%d", step)
		}
		for v := from; v <= to; v += step {
			values[v] = true
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ","), values
}

// drawPattern draws an expression with a chance of being due on any given day.
func drawPattern(t *rapid.T) pattern {
	var p pattern
	p.text[0], p.values[0] = "0", map[int]bool{0: true}
	bounds := [6][2]int{1: {0, 59}, 2: {0, 23}, 3: {1, 31}, 4: {1, 12}, 5: {0, 6}}
	for i := 1; i < 6; i++ {
		p.text[i], p.values[i] = drawColumn(t, fields[i].name, bounds[i][0], bounds[i][1])
	}
	if rapid.IntRange(0, 3).Draw(t, "any month") > 0 {
		p.text[4], p.values[4] = "*", map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true, 9: true, 10: true, 11: true, 12: true}
	}
	return p
}

// TestNextAgreesWithTheClock compares a walk by Next with the oracle, to the
// minute, around changes of offset in any zone since offsets are whole minutes.
func TestNextAgreesWithTheClock(t *testing.T) {
	names := zoneNames()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPattern(t)
		zone := rapid.SampledFrom(names).Draw(t, "zone")
		s, err := Parse(p.String(), zone)
		if err != nil {
			return // never due; TestNeverOccursIsAboutTheCalendar
		}
		middle := time.Date(rapid.IntRange(1973, 2045).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC).
			AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "day"))
		if near := changes(s.Location(), middle.Year(), middle.Year()+2); len(near) > 0 {
			middle = rapid.SampledFrom(near).Draw(t, "change")
		}
		from, to := middle.Add(-30*time.Hour).Truncate(time.Minute), middle.Add(30*time.Hour)
		want := p.occurrences(s.Location(), from, to, wholeDay, time.Minute)
		if diff := cmp.Diff(want, walked(s, from, to)); diff != "" {
			t.Fatalf("Next(%q, %q) from %v to %v (-want +got):\n%s", p, zone, from, to, diff)
		}
	})
}

// TestNextAgreesWithTheClockToTheSecond does so where offsets have seconds.
func TestNextAgreesWithTheClockToTheSecond(t *testing.T) {
	tests := []struct{ zone, change string }{
		{"America/New_York", "1883-11-18T17:00:00Z"},
		{"Europe/Amsterdam", "1937-06-30T23:40:28Z"},
		{"Africa/Monrovia", "1972-01-07T00:44:30Z"},
		{"Asia/Kolkata", "1941-10-01T00:00:00Z"},
		{"America/New_York", "2027-03-14T07:00:00Z"},
		{"America/New_York", "2027-11-07T06:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.zone+tt.change, func(t *testing.T) {
			change := instant(t, tt.change)
			from, to := change.Add(-2*time.Hour), change.Add(2*time.Hour)
			for _, star := range []string{"*", "0-23"} {
				p := everyDay("1,38", map[int]bool{1: true, 38: true}, star)
				p.text[0], p.values[0] = "7,49", map[int]bool{7: true, 49: true}
				s := mustParse(t, p.String(), tt.zone)
				want := p.occurrences(s.Location(), from, to, 2*time.Hour, time.Second)
				if diff := cmp.Diff(want, walked(s, from, to)); diff != "" {
					t.Errorf("Next(%q, %q) from %v to %v (-want +got):\n%s", p, tt.zone, from, to, diff)
				}
			}
		})
	}
}

// TestEveryChangeOfEveryZone does so at each change of offset from 2000 to 2040,
// once for zones that make the same change at the same instant.
func TestEveryChangeOfEveryZone(t *testing.T) {
	t.Parallel()
	type change struct {
		unix    int64
		skipped time.Duration
	}
	seen := map[change]bool{}
	quarters := map[int]bool{15: true, 45: true}
	patterns := []pattern{everyDay("15,45", quarters, "*"), everyDay("15,45", quarters, "0-23")}
	for _, zone := range zoneNames() {
		interval, fixed := mustParse(t, patterns[0].String(), zone), mustParse(t, patterns[1].String(), zone)
		loc := fixed.Location()
		for _, at := range changes(loc, 2000, 2041) {
			skipped := civilOf(at, loc).Sub(civilOf(at.Add(-time.Second), loc)) - time.Second
			c := change{at.Unix(), skipped}
			if seen[c] {
				continue
			}
			seen[c] = true
			margin := max(75*time.Minute, 2*skipped.Abs())
			from, to := at.Add(-75*time.Minute), at.Add(75*time.Minute)
			for i, s := range []Schedule{interval, fixed} {
				want := patterns[i].occurrences(loc, from, to, margin, time.Minute)
				if diff := cmp.Diff(want, walked(s, from, to)); diff != "" {
					t.Errorf("Next(%q, %q) from %v to %v (-want +got):\n%s", patterns[i], zone, from, to, diff)
				}
			}
		}
	}
	if len(seen) < 1000 {
		t.Errorf("%d different changes, want more than 1000", len(seen))
	}
}

// everyDay returns a pattern for some minutes of every hour.
func everyDay(text string, minutes map[int]bool, hours string) pattern {
	p := pattern{text: [6]string{"0", text, hours, "*", "*", "*"}}
	for i, f := range fields {
		p.values[i] = map[int]bool{}
		for v := f.min; v <= f.max; v++ {
			p.values[i][v] = true
		}
	}
	p.values[0], p.values[1] = map[int]bool{0: true}, minutes
	return p
}

// TestLastAndCountAgreeWithNext compares them with a walk.
func TestLastAndCountAgreeWithNext(t *testing.T) {
	names := zoneNames()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPattern(t)
		s, err := Parse(p.String(), rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			return
		}
		from := time.Unix(rapid.Int64Range(-3e9, 3e9).Draw(t, "from"), 0).UTC()
		to := from.Add(time.Duration(rapid.Int64Range(0, 3*24*3600).Draw(t, "seconds")) * time.Second)
		list := walked(s, from.Add(time.Second), to)

		last, ok := s.Last(from, to)
		if ok != (len(list) > 0) || ok && !last.Equal(list[len(list)-1]) {
			t.Fatalf("Last(%v, %v) of %q = %v, %v, want the last of %v", from, to, p, last, ok, list)
		}
		if n, more := s.Count(from, to.Add(time.Second), 1<<20); n != len(list) || more {
			t.Fatalf("Count(%v, %v) of %q = %d, %v, want %d", from, to, p, n, more, len(list))
		}
	})
}

// TestWordsAreNeverLoose checks that schedules with the same words are due at
// the same times.
func TestWordsAreNeverLoose(t *testing.T) {
	type said struct{ canonical, means string }
	columns := [6][]string{
		{"0", "0", "0", "30", "*", "*/10", "10,40"},
		{"0", "*", "*/15", "5/15", "30", "1,2,7", "0-9", "*/7", "59"},
		{"*", "*/2", "9-17", "2", "3,5", "0-23", "1/2", "*/7", "1-5,9,20"},
		{"*", "1", "1-7", "*/2", "31", "1-31", "29,30", "13", "*/7"},
		{"*", "2", "1,7", "*/2", "1-12", "4", "3-5"},
		{"*", "1-5", "1", "0", "*/2", "1-5,0", "0-6", "2,4", "*/7"},
	}
	random := rand.New(rand.NewPCG(1, 2))
	heard := map[string]said{}
	for range 15_000 {
		var text []string
		for _, column := range columns {
			text = append(text, column[random.IntN(len(column))])
		}
		s, err := Parse(strings.Join(text, " "), "UTC")
		if err != nil {
			continue
		}
		now := said{s.Canonical(), meaning(s)}
		words := s.Words().String()
		if before, ok := heard[words]; ok && before.means != now.means {
			t.Fatalf("%q and %q are both %q", before.canonical, now.canonical, words)
		}
		heard[words] = now
	}
}

// meaning returns the times and the dates of two years of a schedule.
func meaning(s Schedule) string {
	var dates strings.Builder
	for year := 2023; year <= 2024; year++ {
		for m := 1; m <= 12; m++ {
			fmt.Fprintf(&dates, "%x ", s.days(year, m, dayNumber(year, m, 1)))
		}
	}
	return fmt.Sprintf("%x %x %x %s", s.seconds, s.minutes, s.hours, dates.String())
}
