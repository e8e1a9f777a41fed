package cron

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mustParse is for expressions a test knows to be valid.
func mustParse(t testing.TB, expr, zone string) Schedule {
	t.Helper()
	s, err := Parse(expr, zone)
	if err != nil {
		t.Fatalf("Parse(%q, %q) = %v, want a schedule", expr, zone, err)
	}
	return s
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// walk returns the next n occurrences as RFC 3339.
func walk(s Schedule, after time.Time, n int) []string {
	var list []string
	for len(list) < n {
		next, ok := s.Next(after)
		if !ok {
			return append(list, "none")
		}
		list = append(list, next.Format(time.RFC3339))
		after = next
	}
	return list
}

// TestCases holds the package to the cases handed over with the design.
func TestCases(t *testing.T) {
	var cases struct {
		Next []struct {
			Expression, Timezone, After, Why string
			Next                             []string
		}
		Refused []struct{ Expression, Timezone, Why string }
		Same    []struct{ Expression, Canonical, Why string }
	}
	text, err := os.ReadFile("testdata/cron.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, tt := range cases.Next {
		t.Run("next/"+tt.Why, func(t *testing.T) {
			got := walk(mustParse(t, tt.Expression, tt.Timezone), instant(t, tt.After), len(tt.Next))
			if diff := cmp.Diff(tt.Next, got); diff != "" {
				t.Errorf("Next(%q, %q) after %s (-want +got):\n%s", tt.Expression, tt.Timezone, tt.After, diff)
			}
		})
	}
	for _, tt := range cases.Refused {
		t.Run("refused/"+tt.Why, func(t *testing.T) {
			if s, err := Parse(tt.Expression, tt.Timezone); err == nil {
				t.Errorf("Parse(%q, %q) = %q, want a refusal", tt.Expression, tt.Timezone, s.Canonical())
			}
		})
	}
	for _, tt := range cases.Same {
		t.Run("same/"+tt.Why, func(t *testing.T) {
			if got := mustParse(t, tt.Expression, "UTC").Canonical(); got != tt.Canonical {
				t.Errorf("Canonical(%q) = %q, want %q", tt.Expression, got, tt.Canonical)
			}
		})
	}
}

func TestNext(t *testing.T) {
	tests := []struct {
		name, expr, zone, after string
		want                    []string
	}{
		{"a gap and the regular time at its end are one", "0 2,3 * * *", "America/New_York", "2027-03-14T00:00:00Z",
			[]string{"2027-03-14T07:00:00Z", "2027-03-15T06:00:00Z"}},
		{"every skipped second collapses", "* * 2 14 3 *", "America/New_York", "2027-03-14T00:00:00Z",
			[]string{"2027-03-14T07:00:00Z", "2028-03-14T06:00:00Z"}},
		{"all hours listed is a fixed-time schedule", "30 0-23 * * *", "America/New_York", "2027-11-07T05:00:00Z",
			[]string{"2027-11-07T05:30:00Z", "2027-11-07T07:30:00Z"}},
		{"a question mark for the hour is an interval schedule", "30 ? * * *", "America/New_York", "2027-11-07T05:00:00Z",
			[]string{"2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z"}},
		{"a list that begins with a star is an interval schedule", "30 */12,1 * * *", "America/New_York", "2027-11-07T05:00:00Z",
			[]string{"2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z", "2027-11-07T17:30:00Z"}},
		{"a list with a star later is a fixed-time schedule", "30 1,*/12 * * *", "America/New_York", "2027-11-07T05:00:00Z",
			[]string{"2027-11-07T05:30:00Z", "2027-11-07T17:30:00Z"}},
		{"asked inside the second pass", "30 1 * * *", "America/New_York", "2027-11-07T06:10:00Z",
			[]string{"2027-11-08T06:30:00Z"}},
		{"interval times earlier on the clock in the second pass", "10 * * * *", "Australia/Lord_Howe", "2027-04-03T14:45:00Z",
			[]string{"2027-04-03T15:40:00Z"}},
		{"both passes of a repeated half hour", "45 * * * *", "Australia/Lord_Howe", "2027-04-03T14:00:00Z",
			[]string{"2027-04-03T14:45:00Z", "2027-04-03T15:15:00Z", "2027-04-03T16:15:00Z"}},
		{"midnight gap, weekly, Cairo", "0 0 * * FRI", "Africa/Cairo", "2027-04-23T12:00:00Z",
			[]string{"2027-04-29T22:00:00Z", "2027-05-06T21:00:00Z"}},
		{"midnight gap, monthly, Beirut", "15 0 28 3 *", "Asia/Beirut", "2027-01-01T00:00:00Z",
			[]string{"2027-03-27T22:00:00Z", "2028-03-27T21:15:00Z"}},
		{"a repeated midnight fires once", "30 23 * * *", "Africa/Cairo", "2027-10-28T12:00:00Z",
			[]string{"2027-10-28T20:30:00Z", "2027-10-29T21:30:00Z"}},
		{"a skipped day by its date", "0 12 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z",
			[]string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"}},
		{"a skipped day has no interval occurrences", "0 * 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z",
			[]string{"2012-12-29T10:00:00Z"}},
		{"a repeated day fires once", "0 12 * * *", "America/Juneau", "1867-10-17T00:00:00Z",
			[]string{"1867-10-17T20:57:41Z", "1867-10-18T20:57:41Z", "1867-10-20T20:57:41Z"}},
		{"seconds of local mean time", "0 0 12 * * *", "America/New_York", "1883-11-16T20:00:00Z",
			[]string{"1883-11-17T16:56:02Z", "1883-11-18T16:56:02Z", "1883-11-19T17:00:00Z"}},
		{"negative daylight saving", "30 1 * * *", "Europe/Dublin", "2027-03-27T12:00:00Z",
			[]string{"2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"}},
		{"a change of offset without daylight saving", "45 23 * * *", "Asia/Pyongyang", "2018-05-03T12:00:00Z",
			[]string{"2018-05-03T15:15:00Z", "2018-05-04T15:00:00Z", "2018-05-05T14:45:00Z"}},
		{"last day of a leap year, by rule", "0 12 31 12 *", "America/New_York", "2028-12-30T00:00:00Z",
			[]string{"2028-12-31T17:00:00Z", "2029-12-31T17:00:00Z"}},
		{"from inside the last day of a leap year", "*/20 * * * *", "America/New_York", "2028-12-31T23:50:00Z",
			[]string{"2029-01-01T00:00:00Z", "2029-01-01T00:20:00Z"}},
		{"fractions of a second", "* * * * * *", "UTC", "2027-01-01T00:00:00.9Z",
			[]string{"2027-01-01T00:00:01Z"}},
		{"fractions before 1970", "* * * * * *", "UTC", "1969-12-31T23:59:57.5Z",
			[]string{"1969-12-31T23:59:58Z"}},
		{"leap day over 2100", "0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z",
			[]string{"2104-02-29T00:00:00Z"}},
		{"the rarest date is 40 years away", "0 0 29 2 */7", "UTC", "2088-03-01T00:00:00Z",
			[]string{"2128-02-29T00:00:00Z"}},
		{"N/step of weekdays runs to 7", "0 0 * * 5/2", "UTC", "2027-01-01T00:00:00Z",
			[]string{"2027-01-03T00:00:00Z", "2027-01-08T00:00:00Z"}},
		{"the end of the calendar", "0 0 1 1 *", "UTC", "9998-06-01T00:00:00Z",
			[]string{"9999-01-01T00:00:00Z", "none"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := walk(mustParse(t, tt.expr, tt.zone), instant(t, tt.after), len(tt.want))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Next(%q, %q) after %s (-want +got):\n%s", tt.expr, tt.zone, tt.after, diff)
			}
		})
	}
}

func TestNextOfExtremeTimes(t *testing.T) {
	s := mustParse(t, "0 0 * * *", "Europe/Paris")
	for _, after := range []time.Time{{}, time.Unix(1<<62, 0), time.Unix(-1<<62, 0), time.UnixMilli(1<<63 - 1), time.UnixMilli(-1 << 63)} {
		if next, ok := s.Next(after); ok && !next.After(after) {
			t.Errorf("Next(%v) = %v, want later", after, next)
		}
	}
	if next, ok := (Schedule{}).Next(time.Unix(0, 0)); ok {
		t.Errorf("Schedule{}.Next() = %v, want none", next)
	}
}

// TestRefusals checks that a refusal names the field and says what to write.
func TestRefusals(t *testing.T) {
	tests := []struct{ name, expr, zone, field, says string }{
		{"macro", "@daily", "UTC", "expression", `"0 0 * * *"`},
		{"macro in capitals", "@Hourly", "UTC", "expression", `"0 * * * *"`},
		{"every minutes", "@every 5m", "UTC", "expression", `"*/5 * * * *"`},
		{"every hours", "@every 2h", "UTC", "expression", `"0 */2 * * *"`},
		{"every seconds", "@every 10s", "UTC", "expression", `"*/10 * * * * *"`},
		{"every that no expression equals", "@every 7m", "UTC", "expression", "not a wall-clock"},
		{"every nonsense", "@every", "UTC", "expression", "not a wall-clock"},
		{"reboot", "@reboot", "UTC", "expression", "write five fields"},
		{"zone in front", "CRON_TZ=Asia/Tokyo\t0 5 * * *", "UTC", "expression", `"Asia/Tokyo" there and "0 5 * * *" here`},
		{"zone with no schedule", "TZ=UTC", "UTC", "expression", "its own field"},
		{"new line", "0 0 * * *\n", "UTC", "expression", "U+000A"},
		{"no-break space", "0\u00a00 * * *", "UTC", "expression", "U+00A0"},
		{"NUL", "0 0 * * \x00", "UTC", "expression", "U+0000"},
		{"bad UTF-8", "0 0 * * \xff", "UTC", "expression", "UTF-8"},
		{"too long", strings.Repeat("1,", 2000) + "1 * * * *", "UTC", "expression", "1024"},
		{"second out of range", "60 * * * * *", "UTC", "second", "0 to 59"},
		{"step above the largest value", "*/60 * * * *", "UTC", "minute", "1 to 59"},
		{"step above the largest day", "* * */32 * *", "UTC", "day of month", "1 to 31"},
		{"step above the largest weekday", "* * * * */8", "UTC", "day of week", "1 to 7"},
		{"step of a name", "* * * */JAN *", "UTC", "month", "1 to 12"},
		{"two steps", "*/2/3 * * * *", "UTC", "minute", "1 to 59"},
		{"star in a range", "*-5 * * * *", "UTC", "minute", "0 to 59"},
		{"two hyphens", "1-2-3 * * * *", "UTC", "minute", "0 to 59"},
		{"plus sign", "+5 * * * *", "UTC", "minute", "0 to 59"},
		{"name in another field", "MON * * * *", "UTC", "minute", "0 to 59"},
		{"month name among weekdays", "* * * * JAN", "UTC", "day of week", "SUN to SAT"},
		{"long name", "* * * * MONDAY", "UTC", "day of week", "SUN to SAT"},
		{"week over its end", "0 0 * * SAT-SUN", "UTC", "day of week", `"6-7"`},
		{"hours over midnight", "0 22-5 * * *", "UTC", "hour", `"22-23,0-5"`},
		{"last day", "0 0 L * *", "UTC", "day of month", "L of other schedulers"},
		{"never, with a star beside it", "0 0 31 2,4 */2", "UTC", "expression", "never comes"},
		{"zone in the wrong case", "* * * * *", "europe/berlin", "timezone", `"Europe/Berlin"`},
		{"zone of a host's directory", "* * * * *", "right/Europe/Berlin", "timezone", `"Europe/Berlin"`},
		{"link of a host", "* * * * *", "posixrules", "timezone", "IANA"},
		{"no zone chosen", "* * * * *", "Factory", "timezone", "IANA"},
		{"absolute path", "* * * * *", "/usr/share/zoneinfo/UTC", "timezone", "IANA"},
		{"a zone with a new line", "* * * * *", "UTC\nUTC", "timezone", "IANA"},
		{"the header of the data", "* * * * *", "#", "timezone", "IANA"},
		{"an offset", "* * * * *", "+08:00", "timezone", "IANA"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.expr, tt.zone)
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("Parse(%q, %q) = %v, want an *Error", tt.expr, tt.zone, err)
			}
			if e.Field != tt.field || !strings.Contains(e.Reason, tt.says) {
				t.Errorf("Parse(%q, %q) = %v, want one about %q that says %q", tt.expr, tt.zone, e, tt.field, tt.says)
			}
		})
	}
}

func TestNeverOccursIsAboutTheCalendar(t *testing.T) {
	tests := []struct {
		name, expr string
		want       bool
	}{
		{"30 February", "0 0 30 2 *", false},
		{"30 February or a Monday", "0 0 30 2 1", true},
		{"30 February if it is a Sunday or Wednesday", "0 0 30 2 */3", false},
		{"29 February if it is a Sunday", "0 0 29 2 */7", true},
		{"31 of short months and of one long", "0 0 31 4,5 *", true},
		{"30 and 31 in February", "0 0 30-31 2 ?", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse(tt.expr, "UTC"); (err == nil) != tt.want {
				t.Errorf("Parse(%q) = %v, want accepted: %v", tt.expr, err, tt.want)
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	tests := []struct{ name, expr, want string }{
		{"seconds that are 0", "0 0 3 * * *", "0 3 * * *"},
		{"seconds that are not", "30 0 3 * * *", "30 0 3 * * *"},
		{"leading zeros", "00 09 * * *", "0 9 * * *"},
		{"order and repetition", "5,1,5,1 * * * *", "1,5 * * * *"},
		{"names", "0 0 * jan-Mar,DEC mon-FRI", "0 0 * 1-3,12 1-5"},
		{"a list of all hours is not a star", "0 0-23 * * *", "0 0-23 * * *"},
		{"a star that takes in the rest", "0 0 */2,*/1 * *", "0 0 * * *"},
		{"a star and more", "0 0 */10,12,13 * *", "0 0 */10,12,13 * *"},
		{"a question mark", "? ? ?/2 ? ?", "* * */2 * *"},
		{"Sunday at both ends", "0 0 * * 0-7", "0 0 * * 0-6"},
		{"Sunday to Sunday", "0 0 * * 7-7", "0 0 * * 0"},
		{"stepped to 7", "0 0 * * 5-7/2", "0 0 * * 0,5"},
		{"weekdays by sevens", "0 0 * * */7", "0 0 * * */7"},
		{"the widest step and more", "0 */23,1 * * *", "0 */23,1 * * *"},
		{"a step past the end", "0 0 */31 * *", "0 0 */31 * *"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustParse(t, tt.expr, "UTC")
			if got := s.Canonical(); got != tt.want {
				t.Errorf("Canonical(%q) = %q, want %q", tt.expr, got, tt.want)
			}
			if again := mustParse(t, s.Canonical(), "UTC"); again != s {
				t.Errorf("Parse(Canonical(%q)) = %+v, want %+v", tt.expr, again, s)
			}
		})
	}
}

func TestOccurrencesAreMarked(t *testing.T) {
	tests := []struct {
		name, expr, zone, after string
		want                    []Occurrence
	}{
		{"gap", "30 2 * * *", "America/New_York", "2027-03-13T00:00:00Z", []Occurrence{
			{At: instant(t, "2027-03-13T07:30:00Z")},
			{At: instant(t, "2027-03-14T07:00:00Z"), Mark: MarkGap},
			{At: instant(t, "2027-03-15T06:30:00Z")},
		}},
		{"the end of a gap itself is not moved", "0 3 * * *", "America/New_York", "2027-03-14T00:00:00Z", []Occurrence{
			{At: instant(t, "2027-03-14T07:00:00Z")},
		}},
		{"interval after a gap is not moved", "0 * * * *", "America/New_York", "2027-03-14T06:30:00Z", []Occurrence{
			{At: instant(t, "2027-03-14T07:00:00Z")},
		}},
		{"repeated, fixed", "30 1 * * *", "America/New_York", "2027-11-06T12:00:00Z", []Occurrence{
			{At: instant(t, "2027-11-07T05:30:00Z"), Mark: MarkRepeated, Pass: 1},
			{At: instant(t, "2027-11-08T06:30:00Z")},
		}},
		{"repeated, interval", "0,30 * * * *", "America/New_York", "2027-11-07T04:40:00Z", []Occurrence{
			{At: instant(t, "2027-11-07T05:00:00Z"), Mark: MarkRepeated, Pass: 1},
			{At: instant(t, "2027-11-07T05:30:00Z"), Mark: MarkRepeated, Pass: 1},
			{At: instant(t, "2027-11-07T06:00:00Z"), Mark: MarkRepeated, Pass: 2},
			{At: instant(t, "2027-11-07T06:30:00Z"), Mark: MarkRepeated, Pass: 2},
			{At: instant(t, "2027-11-07T07:00:00Z")},
		}},
		{"a skipped day", "30 23 * * *", "Pacific/Apia", "2011-12-30T09:00:00Z", []Occurrence{
			{At: instant(t, "2011-12-30T09:30:00Z")},
			{At: instant(t, "2011-12-30T10:00:00Z"), Mark: MarkGap},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mustParse(t, tt.expr, tt.zone).Occurrences(instant(t, tt.after), len(tt.want))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Occurrences(%q, %q) after %s (-want +got):\n%s", tt.expr, tt.zone, tt.after, diff)
			}
		})
	}
}

func TestCountStopsAtLimit(t *testing.T) {
	s := mustParse(t, "0 * * * *", "UTC")
	from, to := instant(t, "2027-01-01T00:00:00Z"), instant(t, "2027-01-01T10:00:00Z")
	tests := []struct {
		name  string
		limit int
		want  int
		more  bool
	}{
		{"room", 100, 9, false},
		{"exactly", 9, 9, false},
		{"one too few", 8, 8, true},
		{"nothing", 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n, more := s.Count(from, to, tt.limit); n != tt.want || more != tt.more {
				t.Errorf("Count(%v, %v, %d) = %d, %v, want %d, %v", from, to, tt.limit, n, more, tt.want, tt.more)
			}
		})
	}
	if n, more := s.Count(to, from, 5); n != 0 || more {
		t.Errorf("Count(%v, %v, 5) = %d, %v, want 0, false", to, from, n, more)
	}
}

func TestLast(t *testing.T) {
	tests := []struct{ name, expr, zone, after, notAfter, want string }{
		{"every second of a month", "* * * * * *", "UTC", "2027-01-01T00:00:00Z", "2027-01-31T12:34:56.7Z", "2027-01-31T12:34:56Z"},
		{"the end counts", "0 0 * * *", "UTC", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z", "2027-01-02T00:00:00Z"},
		{"the beginning does not", "0 0 * * *", "UTC", "2027-01-01T00:00:00Z", "2027-01-01T23:59:59Z", ""},
		{"a century of leap days", "0 0 29 2 *", "UTC", "2000-01-01T00:00:00Z", "2103-01-01T00:00:00Z", "2096-02-29T00:00:00Z"},
		{"moved out of a gap", "30 2 14 3 *", "America/New_York", "2027-01-01T00:00:00Z", "2027-12-01T00:00:00Z", "2027-03-14T07:00:00Z"},
		{"an empty interval", "* * * * * *", "UTC", "2027-01-02T00:00:00Z", "2027-01-01T00:00:00Z", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if at, ok := mustParse(t, tt.expr, tt.zone).Last(instant(t, tt.after), instant(t, tt.notAfter)); ok {
				got = at.Format(time.RFC3339)
			}
			if got != tt.want {
				t.Errorf("Last(%q, %s, %s) = %q, want %q", tt.expr, tt.after, tt.notAfter, got, tt.want)
			}
		})
	}
}
