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
	"github.com/qinglong/console/web/templates"
)

// How many characters of a name, and of another free text, a list shows; the detail page has them whole.
const (
	listName = 60
	listText = 120
)

// visible makes what a reader cannot see, or what would rearrange the text around it, a visible mark: control
// characters and the invisible and bidirectional formatting characters. The joiner inside an emoji stays.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x20:
			return 0x2400 + r // its picture
		case r == 0x7f:
			return '␡'
		case r == '\u200d':
			return r
		case unicode.In(r, unicode.Cf, unicode.Cc, unicode.Zl, unicode.Zp):
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// shorten returns the first n characters of s.
func shorten(s string, n int) string {
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
func relative(ms int64) string {
	switch {
	case ms > -1000 && ms < 1000:
		return "now"
	case ms > 0:
		return coarse(ms) + " ago"
	}
	return "in " + coarse(-ms)
}

// coarse is duration in whole seconds below a minute, and in whole minutes above: what it words changes while it is read.
func coarse(ms int64) string {
	if ms < 60_000 {
		return duration(ms - ms%1000)
	}
	return duration(ms - ms%60_000)
}

// duration words ms to a useful digit: 8 ms, 1.3 s, 42 s, 1 min 12 s, 11 h 27 min, 3 d 4 h.
func duration(ms int64) string {
	s := ms / 1000
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case s < 10 && ms%1000 >= 100:
		return fmt.Sprintf("%d.%d s", s, ms%1000/100)
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return twoUnits(s, 60, "min", 1, "s")
	case s < 86400:
		return twoUnits(s, 3600, "h", 60, "min")
	}
	return twoUnits(s, 86400, "d", 3600, "h")
}

func twoUnits(s, large int64, name string, small int64, smallName string) string {
	text := fmt.Sprintf("%d %s", s/large, name)
	if rest := s % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// count words a number, with "+" when counting stopped there.
func count(n int, capped bool) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if capped {
		return digits + "+"
	}
	return digits
}

// plural words n things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n, false) + " " + many
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

// capital begins s, which begins with an ASCII letter, with a capital.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// markdown escapes s for a line of Markdown in a chat: it stays the text it is.
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
	run.Created:         {Word: "created", Shape: "ring", Tone: "idle"},
	run.WaitingApproval: {Word: "waiting for approval", Shape: "pause", Tone: "warn"},
	run.Queued:          {Word: "queued", Shape: "ring", Tone: "idle"},
	run.Dispatching:     {Word: "dispatching", Shape: "half", Tone: "run"},
	run.Running:         {Word: "running", Shape: "arrow", Tone: "run"},
	run.RetryWait:       {Word: "waiting to retry", Shape: "pause", Tone: "warn"},
	run.Lost:            {Word: "lost", Shape: "diamond", Tone: "warn"},
	run.Succeeded:       {Word: "succeeded", Shape: "disc", Tone: "ok"},
	run.Failed:          {Word: "failed", Shape: "triangle", Tone: "bad"},
	run.Cancelled:       {Word: "cancelled", Shape: "square", Tone: "idle"},
	run.TimedOut:        {Word: "timed out", Shape: "hourglass", Tone: "warn"},
	run.Claimed:         {Word: "claimed", Shape: "ring", Tone: "idle"},
	run.Starting:        {Word: "starting", Shape: "half", Tone: "run"},
}

var scheduleStates = map[scheduler.State]templates.Status{
	scheduler.Paused:   {Word: "paused", Shape: "pause", Tone: "warn"},
	scheduler.Disabled: {Word: "disabled", Shape: "square", Tone: "idle"},
	scheduler.Blocked:  {Word: "blocked", Shape: "triangle", Tone: "bad"},
	scheduler.Claimed:  {Word: "claimed", Shape: "half", Tone: "run"},
	scheduler.Due:      {Word: "due", Shape: "arrow", Tone: "run"},
	scheduler.NeverRun: {Word: "never run", Shape: "ring", Tone: "idle"},
	scheduler.Waiting:  {Word: "waiting", Shape: "ring", Tone: "idle"},
}
