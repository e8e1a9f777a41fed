package web

import (
	"cmp"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// zoneParameter names the time zone in which the times of a query are meant. It is part of the address, so that a link means
// the same to everybody it is sent to; the script of a page puts the reader's there.
const zoneParameter = "zone"

// A calendar is what a reader's words for a moment are read by: the database clock, in their zone.
type calendar struct {
	now  time.Time
	zone string // as the query names it: with none it is UTC, which no reader chose
}

func calendarOf(q url.Values, nowMS int64) (calendar, error) {
	name := q.Get(zoneParameter)
	zone, err := cron.LoadZone(cmp.Or(name, "UTC"))
	if err != nil {
		return calendar{}, badField(zoneParameter, text.Of("There is no time zone %s; write one like Europe/Berlin.", cited(name)))
	}
	return calendar{time.UnixMilli(nowMS).In(zone), name}, nil
}

// since reads the moment at which something begins, in UTC milliseconds. Empty is 0.
func (c calendar) since(name, value string) (int64, error) {
	at, _, err := c.moment(name, value)
	return at, err
}

// until reads the moment before which something ends: a day that is named is meant to its end.
func (c calendar) until(name, value string) (int64, error) {
	at, day, err := c.moment(name, value)
	if day {
		at = c.endOfDay(at)
	}
	return at, err
}

func (c calendar) endOfDay(at int64) int64 {
	return midnight(time.UnixMilli(at).In(c.now.Location()).AddDate(0, 0, 1)).UnixMilli()
}

// last reads the last moment that belongs to something: of a day that is named, its end.
func (c calendar) last(name, value string) (int64, error) {
	at, day, err := c.moment(name, value)
	if day {
		at = c.endOfDay(at) - 1
	}
	return at, err
}

func (c calendar) moment(name, value string) (at int64, day bool, err error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false, nil
	}
	if m := ago.FindStringSubmatch(value); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // six digits
		unit := map[string]int64{"s": 1, "m": 60, "h": 3600, "d": 86400}[m[2]]
		return max(c.now.UnixMilli()-n*unit*1000, 1), false, nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		var ok bool
		if t, day, ok = c.read(value); !ok {
			t = time.Time{}
		}
	}
	if t.UnixMilli() <= 0 {
		return 0, false, badField(name, c.noTime(value))
	}
	return t.UnixMilli(), day, nil
}

func (c calendar) noTime(value string) text.Text {
	if c.zone == "" {
		return text.Of("%s is no time. Write one like 23:30, yesterday 23:30, 2026-11-29 or 2026-11-29 23:30, one like 2026-11-29T03:00:00Z, or how long ago, like -2h.", cited(value))
	}
	return text.Of("%s is no time. Write one like 23:30, yesterday 23:30, 2026-11-29 or 2026-11-29 23:30, here in the zone %s, one like 2026-11-29T03:00:00Z, or how long ago, like -2h.", cited(value), c.zone)
}

// read reads a day, a time of a day, or both. A time alone is the latest one there was.
func (c calendar) read(value string) (at time.Time, day, ok bool) {
	value = strings.ReplaceAll(strings.ToLower(value), "：", ":") // as a Chinese keyboard has it
	first, rest, both := strings.Cut(dayAndTime.ReplaceAllString(value, "$1 $2"), " ")
	on, named := c.day(first)
	switch {
	case named && !both:
		return midnight(on), true, true
	case named:
		at, ok = onClock(on, strings.TrimSpace(rest))
		return at, false, ok
	case both:
		return time.Time{}, false, false
	}
	if at, ok = onClock(c.now, first); ok && at.After(c.now) {
		at, ok = onClock(c.now.AddDate(0, 0, -1), first)
	}
	return at, false, ok
}

// dayAndTime is a day with a time after a T, as some programs write it, or without a gap after 昨天.
var dayAndTime = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}|昨天|今天)t?(\d)`)

func (c calendar) day(word string) (time.Time, bool) {
	switch word {
	case "today", "今天":
		return c.now, true
	case "yesterday", "昨天":
		return c.now.AddDate(0, 0, -1), true
	}
	day, err := time.ParseInLocation(time.DateOnly, word, c.now.Location())
	return day, err == nil
}

func midnight(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// onClock is a time of the day of t. One that the clock skips that day is as far after the gap as it was meant to be after
// its beginning.
func onClock(t time.Time, clock string) (time.Time, bool) {
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if of, err := time.Parse(layout, clock); err == nil {
			y, m, d := t.Date()
			return time.Date(y, m, d, of.Hour(), of.Minute(), of.Second(), 0, t.Location()), true
		}
	}
	return time.Time{}, false
}

// momentField is a field for a moment, with what it holds. What is wrong with it stands beside it, and so does what it means
// where it does not say that itself.
func momentField(name string, label text.Text, q url.Values, ms, nowMS int64, wrong problem) templates.MomentField {
	f := templates.MomentField{Name: name, Label: label, Value: visible(q.Get(name)), Options: times()}
	switch {
	case wrong.field == name:
		f.Wrong = wrong.what
	case ms > 0 && f.Value != "" && !strings.HasPrefix(f.Value, "-"):
		at := instant(ms, nowMS)
		f.Means = templates.Instant{Machine: at.Machine, Text: at.Text}
	}
	return f
}
