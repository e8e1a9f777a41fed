// Package calendar reads what a person writes for a moment: an instant, how long ago, a day, a time of a day, or both.
//
// What the words mean depends on a clock and a zone, which the caller names, and on nothing else: the same words at the same
// moment in the same zone are the same instant, on a page, in a link and on the command line. Whatever is read is an instant
// after 1970, and a day ends after it begins.
package calendar

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/qinglong/console/internal/cron"
)

var (
	// ErrNoTime reports words that are no moment.
	ErrNoTime = errors.New("no time")
	// ErrNoZone reports a name that is no time zone's.
	ErrNoZone = errors.New("no time zone")
)

// Calendar is what words for a moment are read by.
type Calendar struct {
	now time.Time // in its zone
}

// In is the calendar of a zone, by its IANA name, at now in UTC milliseconds.
func In(zone string, now int64) (Calendar, error) {
	loc, err := cron.LoadZone(zone)
	if err != nil {
		return Calendar{}, ErrNoZone
	}
	return Calendar{time.UnixMilli(now).In(loc)}, nil
}

// Since reads the moment at which something begins, in UTC milliseconds. No words are 0.
func (c Calendar) Since(words string) (int64, error) {
	at, _, err := c.moment(words)
	return at, err
}

// Until reads the moment before which something ends: a day that is named is meant to its end.
func (c Calendar) Until(words string) (int64, error) {
	at, day, err := c.moment(words)
	if day {
		at = c.endOfDay(at)
	}
	return at, err
}

// Last reads the last moment that belongs to something: of a day that is named, its end.
func (c Calendar) Last(words string) (int64, error) {
	at, day, err := c.moment(words)
	if day {
		at = c.endOfDay(at) - 1
	}
	return at, err
}

func (c Calendar) endOfDay(at int64) int64 {
	return midnight(time.UnixMilli(at).In(c.now.Location()).AddDate(0, 0, 1)).UnixMilli()
}

// ago is how long ago something was. The command line takes it without its sign, which looks like a flag there.
var ago = regexp.MustCompile(`^-?([1-9][0-9]{0,5})([smhd])$`)

func (c Calendar) moment(words string) (at int64, day bool, err error) {
	words = strings.TrimSpace(words)
	if words == "" {
		return 0, false, nil
	}
	if m := ago.FindStringSubmatch(words); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // six digits
		unit := map[string]int64{"s": 1, "m": 60, "h": 3600, "d": 86400}[m[2]]
		return max(c.now.UnixMilli()-n*unit*1000, 1), false, nil
	}
	t, err := time.Parse(time.RFC3339, words)
	if err != nil {
		var ok bool
		if t, day, ok = c.read(words); !ok {
			t = time.Time{}
		}
	}
	if t.UnixMilli() <= 0 {
		return 0, false, ErrNoTime
	}
	return t.UnixMilli(), day, nil
}

// read reads a day, a time of a day, or both. A time alone is the latest one there was.
func (c Calendar) read(value string) (at time.Time, day, ok bool) {
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

func (c Calendar) day(word string) (time.Time, bool) {
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
