package web

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/qinglong/console/internal/calendar"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// zoneParameter names the time zone in which the times of a query are meant. It is part of the address, so that a link means
// the same to everybody it is sent to; the script of a page puts the reader's there.
const zoneParameter = "zone"

// moments are what the fields of a query are read by: the database clock, in the reader's zone.
type moments struct {
	calendar.Calendar
	zone string // as the query names it: with none it is UTC, which no reader chose
}

func momentsOf(q url.Values, nowMS int64) (moments, error) {
	name := q.Get(zoneParameter)
	c, err := calendar.In(cmp.Or(name, "UTC"), nowMS)
	if err != nil {
		return moments{}, badField(zoneParameter, text.Of("There is no time zone %s; write one like Europe/Berlin.", cited(name)))
	}
	return moments{c, name}, nil
}

// since, until and last read the field called name, as the calendar's methods of those names read its words.
func (m moments) since(name, words string) (int64, error) { return m.worded(name, words, m.Since) }
func (m moments) until(name, words string) (int64, error) { return m.worded(name, words, m.Until) }
func (m moments) last(name, words string) (int64, error)  { return m.worded(name, words, m.Last) }

func (m moments) worded(name, words string, read func(string) (int64, error)) (int64, error) {
	at, err := read(words)
	if err != nil {
		return 0, badField(name, m.noTime(strings.TrimSpace(words)))
	}
	return at, nil
}

func (m moments) noTime(words string) text.Text {
	if m.zone == "" {
		return text.Of("%s is no time. Write one like 23:30, yesterday 23:30, 2026-11-29 or 2026-11-29 23:30, one like 2026-11-29T03:00:00Z, or how long ago, like -2h.", cited(words))
	}
	return text.Of("%s is no time. Write one like 23:30, yesterday 23:30, 2026-11-29 or 2026-11-29 23:30, here in the zone %s, one like 2026-11-29T03:00:00Z, or how long ago, like -2h.", cited(words), m.zone)
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
