package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// How many characters of a name, and of another free text, a list shows, and a cell that unfolds; the detail page has them
// whole.
const (
	headName = 200
	listName = 60
	listText = 120
	cellText = 40
)

// visible makes what a reader cannot see, or what would rearrange the text around it, a visible mark: control
// characters, the invisible and bidirectional formatting characters, and what has no ink of its own. What shapes the
// character before it stays after one: the joiner and the selector inside an emoji.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return s // as nearly everything is
	}
	shown := false // the rune before is one that is seen
	return strings.Map(func(r rune) rune {
		joins := r == '\u200d' || unicode.Is(unicode.Variation_Selector, r)
		switch {
		case joins && shown:
			return r
		case r < 0x20:
			r = 0x2400 + r // its picture
		case r == 0x7f:
			r = '␡'
		case joins, inkless(r):
			r = '�'
		}
		shown = !unicode.IsSpace(r)
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// inkless reports whether r shows nothing, although it is no space: as the fillers of Hangul, which are letters, and a
// pattern of Braille without a dot.
func inkless(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Cf, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// shorten returns the first n characters of s.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// instant words a time, seen at nowMS.
func instant(ms, nowMS int64) templates.Instant {
	t := time.UnixMilli(ms).UTC()
	return templates.Instant{
		Machine: t.Format("2006-01-02T15:04:05.000Z"), Text: t.Format("2006-01-02 15:04:05 UTC"),
		Relative: relative(nowMS - ms), Ago: strconv.FormatFloat(float64(nowMS-ms)/1000, 'f', -1, 64),
	}
}

// maybe is instant for a time that may not have come.
func maybe(ms *int64, nowMS int64) templates.Instant {
	if ms == nil {
		return templates.Instant{}
	}
	return instant(*ms, nowMS)
}

// relative words how long ago something was; a negative ms is in the future.
func relative(ms int64) text.Text {
	switch {
	case ms > -1000 && ms < 1000:
		return text.Of("now")
	case ms > 0:
		return text.Of("%s ago", coarse(ms))
	}
	return text.Of("in %s", coarse(-ms))
}

// coarse is duration in whole seconds below a minute, and in whole minutes above: what it words changes while it is read.
func coarse(ms int64) text.Text {
	if ms < 60_000 {
		return duration(ms - ms%1000)
	}
	return duration(ms - ms%60_000)
}

// duration words ms to a useful digit: 8 ms, 1.3 s, 42 s, 1 min 12 s, 11 h 27 min, 3 d 4 h.
func duration(ms int64) text.Text {
	s := ms / 1000
	switch {
	case ms < 1000:
		return text.Of("%s ms", ms)
	case s < 10 && ms%1000 >= 100:
		return text.Of("%s s", fmt.Sprintf("%d.%d", s, ms%1000/100))
	case s < 60:
		return text.Of("%s s", s)
	case s < 3600:
		return twoUnits(text.Of("%s min", s/60), text.Of("%s s", s%60), s%60)
	case s < 86400:
		return twoUnits(text.Of("%s h", s/3600), text.Of("%s min", s%3600/60), s%3600/60)
	}
	return twoUnits(text.Of("%s d", s/86400), text.Of("%s h", s%86400/3600), s%86400/3600)
}

func twoUnits(large, small text.Text, n int64) text.Text {
	if n == 0 {
		return large
	}
	return text.Of("%s %s", large, small)
}

// count words a number, with "+" when counting stopped there.
func count(n int, capped bool) string {
	if capped {
		return text.Digits(int64(n)) + "+"
	}
	return text.Digits(int64(n))
}

// weekdays are short; they stand beside a date.
var weekdays = [...]text.Text{text.Of("Sun"), text.Of("Mon"), text.Of("Tue"), text.Of("Wed"), text.Of("Thu"), text.Of("Fri"), text.Of("Sat")}

// clock lays out a time on its own zone's clock.
const clock = "15:04:05 MST"

// dated words a time on its own zone's clock with its day: 2026-11-29 Sun 03:00:00 CET.
func dated(t time.Time) text.Text { return onDay(t, clock) }

// onDay is dated with the time of the day laid out otherwise.
func onDay(t time.Time, layout string) text.Text {
	return text.Of("%s %s %s", t.Format(time.DateOnly), weekdays[t.Weekday()], t.Format(layout))
}

func shortID(id uuid.UUID, url string) templates.ID {
	whole := id.String()
	return templates.ID{Short: whole[:8] + "…" + whole[len(whole)-4:], Whole: whole, URL: url}
}

// digest shortens a SHA-256 in hex.
func digest(hex string) string {
	if len(hex) < 16 {
		return hex
	}
	return "sha256 " + hex[:8] + "…" + hex[len(hex)-4:]
}

// markdown escapes s, which is data, for a line of Markdown in a chat: it stays the text it is.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range visible(s) {
		if strings.ContainsRune("\\`*_{}[]()<>#+!|~@", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

var runStatuses = map[run.Status]templates.Status{
	run.Created:         {Word: run.Created.Word(), Shape: "ring", Tone: "idle"},
	run.WaitingApproval: {Word: run.WaitingApproval.Word(), Shape: "pause", Tone: "warn"},
	run.Queued:          {Word: run.Queued.Word(), Shape: "ring", Tone: "idle"},
	run.Dispatching:     {Word: run.Dispatching.Word(), Shape: "half", Tone: "run"},
	run.Running:         {Word: run.Running.Word(), Shape: "arrow", Tone: "run"},
	run.RetryWait:       {Word: run.RetryWait.Word(), Shape: "pause", Tone: "warn"},
	run.Lost:            {Word: run.Lost.Word(), Shape: "diamond", Tone: "warn"},
	run.Succeeded:       {Word: run.Succeeded.Word(), Shape: "disc", Tone: "ok"},
	run.Failed:          {Word: run.Failed.Word(), Shape: "triangle", Tone: "bad"},
	run.Cancelled:       {Word: run.Cancelled.Word(), Shape: "square", Tone: "idle"},
	run.TimedOut:        {Word: run.TimedOut.Word(), Shape: "hourglass", Tone: "warn"},
	run.Claimed:         {Word: run.Claimed.Word(), Shape: "ring", Tone: "idle"},
	run.Starting:        {Word: run.Starting.Word(), Shape: "half", Tone: "run"},
}

var scheduleStates = map[scheduler.State]templates.Status{
	scheduler.Paused:   {Word: text.Of("paused"), Shape: "pause", Tone: "warn"},
	scheduler.Disabled: {Word: text.Of("disabled"), Shape: "square", Tone: "idle"},
	scheduler.Blocked:  {Word: text.Of("blocked"), Shape: "triangle", Tone: "bad"},
	scheduler.Claimed:  {Word: text.Of("claimed"), Shape: "half", Tone: "run"},
	scheduler.Due:      {Word: text.Of("due"), Shape: "arrow", Tone: "run"},
	scheduler.NeverRun: {Word: text.Of("never run"), Shape: "ring", Tone: "idle"},
	scheduler.Waiting:  {Word: text.Of("waiting"), Shape: "ring", Tone: "idle"},
}
