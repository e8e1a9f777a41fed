package web

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/qinglong/console/internal/policy"
)

func TestCalendar(t *testing.T) {
	now := time.Date(2026, 3, 29, 21, 40, 30, 0, time.UTC) // 23:40:30 in Berlin, whose clock skipped 02:00 to 03:00 that day
	tests := []struct{ name, zone, in, since, until string }{
		{"nothing", "Europe/Berlin", "", "", ""},
		{"how long ago", "Europe/Berlin", "-90m", "2026-03-29T20:10:30Z", "2026-03-29T20:10:30Z"},
		{"an instant", "Europe/Berlin", "2026-03-01T08:00:00+08:00", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"a time that was today", "Europe/Berlin", "23:30", "2026-03-29T21:30:00Z", "2026-03-29T21:30:00Z"},
		{"a time that is still to come was yesterday", "Europe/Berlin", "23:50", "2026-03-28T22:50:00Z", "2026-03-28T22:50:00Z"},
		{"the same in another zone", "Asia/Shanghai", "23:50", "2026-03-29T15:50:00Z", "2026-03-29T15:50:00Z"},
		{"seconds", "", "9:05:07", "2026-03-29T09:05:07Z", "2026-03-29T09:05:07Z"},
		{"today is until its end", "Europe/Berlin", "today", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"yesterday", "Europe/Berlin", " Yesterday ", "2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z"},
		{"a time of yesterday", "Europe/Berlin", "yesterday 23:30", "2026-03-28T22:30:00Z", "2026-03-28T22:30:00Z"},
		{"a day", "Europe/Berlin", "2026-03-01", "2026-02-28T23:00:00Z", "2026-03-01T23:00:00Z"},
		{"a time of a day", "Europe/Berlin", "2026-03-01 23:30", "2026-03-01T22:30:00Z", "2026-03-01T22:30:00Z"},
		{"as programs write it", "Europe/Berlin", "2026-03-01T23:30", "2026-03-01T22:30:00Z", "2026-03-01T22:30:00Z"},
		{"in Chinese", "Asia/Shanghai", "昨天 23：30", "2026-03-29T15:30:00Z", "2026-03-29T15:30:00Z"},
		{"in Chinese without a gap", "Asia/Shanghai", "昨天8:00", "2026-03-29T00:00:00Z", "2026-03-29T00:00:00Z"},
		{"in UTC where no zone is named", "", "yesterday 23:30", "2026-03-28T23:30:00Z", "2026-03-28T23:30:00Z"},
		{"no time", "", "25:00", "wrong", "wrong"},
		{"no day", "", "2026-02-30", "wrong", "wrong"},
		{"two times", "", "23:30 23:40", "wrong", "wrong"},
		{"a day to come", "", "tomorrow", "wrong", "wrong"},
		{"before everything", "", "1960-01-01", "wrong", "wrong"},
		{"the host's zone", "Local", "23:30", "wrong", "wrong"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := func(of func(calendar) (int64, error)) string {
				c, err := calendarOf(url.Values{"zone": {tt.zone}}, now.UnixMilli())
				ms := int64(0)
				if err == nil {
					ms, err = of(c)
				}
				if wrong, ok := errors.AsType[problem](err); ok && wrong.field != "" {
					return "wrong"
				}
				if err != nil || ms == 0 {
					return ""
				}
				return rfc3339(ms)
			}
			if got := read(func(c calendar) (int64, error) { return c.since("since", tt.in) }); got != tt.since {
				t.Errorf("since %q in %s = %q, want %q", tt.in, tt.zone, got, tt.since)
			}
			if got := read(func(c calendar) (int64, error) { return c.until("until", tt.in) }); got != tt.until {
				t.Errorf("until %q in %s = %q, want %q", tt.in, tt.zone, got, tt.until)
			}
		})
	}
}

// Whatever is read as a moment is one after 1970, and until a day is never before since it.
func FuzzCalendar(f *testing.F) {
	for _, s := range []string{"", "-2h", "-999999d", "2025-11-29T18:00:00Z", "9999-12-31", "0000-01-01 00:00", "yesterday 2:30", "昨天8：00", "today t1"} {
		f.Add(s)
	}
	c, err := calendarOf(url.Values{"zone": {"America/Sao_Paulo"}}, 1_764_439_082_000)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		since, err := c.since("since", s)
		until, again := c.until("until", s)
		if (err == nil) != (again == nil) || err == nil && (since < 0 || until < since) {
			t.Errorf("%q is since %d, %v, and until %d, %v", s, since, err, until, again)
		}
	})
}

// Nothing that somebody typed into a filter is lost to a mistake in one field of it.
func TestWrongFilterKeepsItsForm(t *testing.T) {
	o := newOperator(t, policy.Admin, "ops")
	page := o.get("/runs?since=nonsense&q=night&task=report&status=failed&origin=retry&project=ops")
	page.says(t, http.StatusBadRequest, `value="nonsense"`, `aria-invalid="true"`, "is no time. Write one like 23:30", "Nothing was looked up.", `name="q" value="night"`, `name="task" value="report"`,
		`name="status" value="failed"`, `value="retry" selected`, `value="ops" selected`)
	hasNot(t, "the page", page, "data-row=", `class="chips"`, "live.js")
	o.get("/runs?status=nope&task=report").says(t, http.StatusBadRequest, "There is no status", `name="task" value="report"`)
	o.get("/audit?since=25:00&run=1234&action=run.retry").says(t, http.StatusBadRequest, `value="25:00"`, `name="run" value="1234"`, `value="run.retry" selected`)
	o.get("/audit?run=1234").says(t, http.StatusBadRequest, "is not an id", `name="run" value="1234"`)
	hasNot(t, "who named no zone", page, "in the zone")
	o.get("/runs?since=nonsense&zone=Asia/Shanghai").says(t, http.StatusBadRequest, "here in the zone Asia/Shanghai")
	o.get("/runs?since=23:30&zone=Mars/Olympus").says(t, http.StatusBadRequest, "There is no time zone")
	if res := get(t, o.handler(), "/runs.json?since=nonsense"); res.StatusCode != http.StatusBadRequest || res.Header.Get("Content-Type") != problemType {
		t.Errorf("as JSON it is %d of %s, want problem details", res.StatusCode, res.Header.Get("Content-Type"))
	}
	has(t, "what a day means", o.get("/runs?since=2026-11-29&zone=Asia/Shanghai"), `datetime="2026-11-28T16:00:00.000Z"`, `name="zone" value="Asia/Shanghai"`)
	has(t, "a list from an instant on", o.get("/runs.json?until=2001-01-01"), `"runs": []`)
	if csv := readCSV(t, o.get("/runs.csv?since=yesterday&zone=Asia/Shanghai")); len(csv) != 2 {
		t.Errorf("the CSV since yesterday has %d Runs, want 1", len(csv)-1)
	}
}
