package calendar

import (
	"testing"
	"time"
)

func TestCalendar(t *testing.T) {
	now := time.Date(2026, 3, 29, 21, 40, 30, 0, time.UTC) // 23:40:30 in Berlin, whose clock skipped 02:00 to 03:00 that day
	tests := []struct{ name, zone, in, since, until string }{
		{"nothing", "Europe/Berlin", "", "", ""},
		{"how long ago", "Europe/Berlin", "-90m", "2026-03-29T20:10:30Z", "2026-03-29T20:10:30Z"},
		{"how long ago, without a sign", "Europe/Berlin", "2d", "2026-03-27T21:40:30Z", "2026-03-27T21:40:30Z"},
		{"an instant", "Europe/Berlin", "2026-03-01T08:00:00+08:00", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"a time that was today", "Europe/Berlin", "23:30", "2026-03-29T21:30:00Z", "2026-03-29T21:30:00Z"},
		{"a time that is still to come was yesterday", "Europe/Berlin", "23:50", "2026-03-28T22:50:00Z", "2026-03-28T22:50:00Z"},
		{"the same in another zone", "Asia/Shanghai", "23:50", "2026-03-29T15:50:00Z", "2026-03-29T15:50:00Z"},
		{"seconds", "UTC", "9:05:07", "2026-03-29T09:05:07Z", "2026-03-29T09:05:07Z"},
		{"today is until its end", "Europe/Berlin", "today", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"yesterday", "Europe/Berlin", " Yesterday ", "2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z"},
		{"a time of yesterday", "Europe/Berlin", "yesterday 23:30", "2026-03-28T22:30:00Z", "2026-03-28T22:30:00Z"},
		{"a day", "Europe/Berlin", "2026-03-01", "2026-02-28T23:00:00Z", "2026-03-01T23:00:00Z"},
		{"a time of a day", "Europe/Berlin", "2026-03-01 23:30", "2026-03-01T22:30:00Z", "2026-03-01T22:30:00Z"},
		{"as programs write it", "Europe/Berlin", "2026-03-01T23:30", "2026-03-01T22:30:00Z", "2026-03-01T22:30:00Z"},
		{"in Chinese", "Asia/Shanghai", "昨天 23：30", "2026-03-29T15:30:00Z", "2026-03-29T15:30:00Z"},
		{"in Chinese without a gap", "Asia/Shanghai", "昨天8:00", "2026-03-29T00:00:00Z", "2026-03-29T00:00:00Z"},
		{"in UTC", "UTC", "yesterday 23:30", "2026-03-28T23:30:00Z", "2026-03-28T23:30:00Z"},
		{"no time", "UTC", "25:00", "no time", "no time"},
		{"no day", "UTC", "2026-02-30", "no time", "no time"},
		{"two times", "UTC", "23:30 23:40", "no time", "no time"},
		{"a day to come", "UTC", "tomorrow", "no time", "no time"},
		{"before everything", "UTC", "1960-01-01", "no time", "no time"},
		{"the host's zone", "Local", "23:30", "no time zone", "no time zone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := func(of func(Calendar) (int64, error)) string {
				c, err := In(tt.zone, now.UnixMilli())
				if err != nil {
					return err.Error()
				}
				switch ms, err := of(c); {
				case err != nil:
					return err.Error()
				case ms == 0:
					return ""
				default:
					return time.UnixMilli(ms).UTC().Format(time.RFC3339)
				}
			}
			if got := read(func(c Calendar) (int64, error) { return c.Since(tt.in) }); got != tt.since {
				t.Errorf("since %q in %s = %q, want %q", tt.in, tt.zone, got, tt.since)
			}
			if got := read(func(c Calendar) (int64, error) { return c.Until(tt.in) }); got != tt.until {
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
	c, err := In("America/Sao_Paulo", 1_764_439_082_000)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		since, err := c.Since(s)
		until, again := c.Until(s)
		if (err == nil) != (again == nil) || err == nil && (since < 0 || until < since) {
			t.Errorf("%q is since %d, %v, and until %d, %v", s, since, err, until, again)
		}
	})
}
