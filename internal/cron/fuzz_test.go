package cron

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParse checks that whatever is refused is refused with a sentence, and
// whatever is accepted keeps its meaning when read back and is due later than
// asked, at a time its zone's clock can explain.
func FuzzParse(f *testing.F) {
	var cases map[string][]struct {
		Expression, Timezone string
	}
	text, err := os.ReadFile("testdata/cron.json")
	if err != nil {
		f.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		f.Fatal(err)
	}
	for _, list := range cases {
		for _, c := range list {
			f.Add(c.Expression, c.Timezone, int64(1_800_000_000))
		}
	}
	f.Add("*/7 0-59/3,5 ?/23,1 29-31 feb,*/5 */2,FRI", "Pacific/Apia", int64(1_325_200_000))
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64) {
		s, err := Parse(expr, zone)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Field == "" || e.Reason == "" || !utf8.ValidString(e.Error()) {
				t.Fatalf("Parse(%q, %q) = %#v, want an *Error with field and reason", expr, zone, err)
			}
			return
		}
		if again, err := Parse(s.Canonical(), s.Zone()); err != nil || again != s {
			t.Fatalf("Parse(%q) = %+v, %v, want %+v of %q", s.Canonical(), again, err, s, expr)
		}
		if s.Words().Empty() {
			t.Fatalf("Words(%q) is empty", expr)
		}
		after := time.Unix(unix, 0)
		checkNext(t, s, after)
	})
}

// checkNext checks the first occurrence after a time.
func checkNext(t *testing.T, s Schedule, after time.Time) {
	t.Helper()
	list := s.Occurrences(after, 1)
	if len(list) == 0 {
		// A schedule can be silent for 41 years only at the end of the calendar.
		if after.Year() >= 1 && after.Year() < 9990-horizonYears {
			t.Fatalf("%q in %s is never due after %v", s.Canonical(), s.Zone(), after)
		}
		return
	}
	at := list[0].At
	if !at.After(after) || at.Nanosecond() != 0 {
		t.Fatalf("Next(%v) of %q = %v, want a later whole second", after, s.Canonical(), at)
	}
	local := at.In(s.Location())
	onClock := s.seconds>>local.Second()&1 == 1 && s.minutes>>local.Minute()&1 == 1 && s.hours>>local.Hour()&1 == 1 &&
		s.months>>local.Month()&1 == 1
	if !onClock && list[0].Mark != MarkGap {
		t.Fatalf("Next(%v) of %q in %s = %v, want a time that matches", after, s.Canonical(), s.Zone(), local)
	}
	if last, ok := s.Last(after, at); !ok || !last.Equal(at) {
		t.Fatalf("Last(%v, %v) of %q = %v, %v, want its end", after, at, s.Canonical(), last, ok)
	}
}

func BenchmarkNext(b *testing.B) {
	benchmarks := []struct{ name, expr, zone string }{
		{"every second", "* * * * * *", "America/New_York"},
		{"every quarter", "*/15 * * * *", "America/New_York"},
		{"daily", "30 2 * * *", "America/New_York"},
		{"daily in UTC", "30 2 * * *", "UTC"},
		{"weekdays", "0 9 * * MON-FRI", "Asia/Shanghai"},
		{"leap day", "0 0 29 2 *", "America/New_York"},
		{"leap day on a Sunday", "0 0 29 2 */7", "Australia/Lord_Howe"},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			s := mustParse(b, bb.expr, bb.zone)
			start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			at := start
			for b.Loop() {
				next, ok := s.Next(at)
				if !ok || next.Year() > 2200 {
					next = start
				}
				at = next
			}
		})
	}
}

func BenchmarkLastOfEverySecondInAMonth(b *testing.B) {
	s := mustParse(b, "* * * * * *", "America/New_York")
	from := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 1, 0)
	b.ReportAllocs()
	for b.Loop() {
		s.Last(from, to)
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustParse(b, "*/15 9-17 * * MON-FRI", "Europe/Berlin")
	}
}
