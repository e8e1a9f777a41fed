package web

import (
	"slices"
	"strings"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// maxTicks is how many round times a timeline names after its beginning: a phone has room for them.
const maxTicks = 4

// steps are the distances between round times, in milliseconds: none whose multiples take two units to say.
var steps = []int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 60_000, 120_000, 300_000, 600_000, 900_000,
	3_600_000, 2 * 3_600_000, 3 * 3_600_000, 6 * 3_600_000, 86_400_000, 2 * 86_400_000, 7 * 86_400_000,
}

// A scale places instants between from and to, which are apart.
type scale struct{ from, to, step int64 }

// scaleOf is the scale of what lasts from one instant to the other. One that goes on has room up to the next round time,
// so that it grows within its drawing, and the drawing does not shrink around it with every look.
func scaleOf(from, to int64, goesOn bool) scale {
	long := max(to-from, 1)
	step := steps[len(steps)-1]
	for _, s := range slices.Backward(steps) {
		if long <= s*maxTicks {
			step = s
		}
	}
	for long > step*maxTicks {
		step *= 2
	}
	if goesOn {
		long = (long + step - 1) / step * step
	}
	return scale{from, from + long, step}
}

// at places an instant; one beside the scale stands at its end.
func (s scale) at(ms int64) string {
	ms = min(max(ms, s.from), s.to)
	return percent(float64(ms-s.from), float64(s.to-s.from))
}

func (s scale) span(kind string, from, to int64) templates.Span {
	from, to = min(max(from, s.from), s.to), min(max(to, s.from), s.to)
	return templates.Span{X: s.at(from), Width: percent(float64(max(to-from, 0)), float64(s.to-s.from)), Kind: kind}
}

// ticks name round times since the beginning. The words of the last stand to its left when there is no room to its right.
func (s scale) ticks() []templates.Tick {
	list := []templates.Tick{{X: s.at(s.from), Anchor: "start", Text: text.Data("0")}}
	for ms := s.from + s.step; ms <= s.to; ms += s.step {
		anchor := "middle"
		if 10*(s.to-ms) < s.to-s.from {
			anchor = "end"
		}
		list = append(list, templates.Tick{X: s.at(ms), Anchor: anchor, Text: duration(ms - s.from)})
	}
	return list
}

// lasting is a time in which something lasted.
type lasting struct{ from, to int64 }

func long(list []lasting) (ms int64) {
	for _, x := range list {
		ms += max(x.to-x.from, 0)
	}
	return ms
}

// ranAndWaited are when a Run ran and when it waited, in turn, from its creation until end.
func ranAndWaited(d run.Detail, end int64) (ran, waited []lasting) {
	since := d.CreatedAtMS
	for _, a := range d.Attempts {
		if a.StartedAtMS == nil {
			continue
		}
		waited = append(waited, lasting{since, *a.StartedAtMS})
		since = min(orNow(a.FinishedAtMS, end), end)
		ran = append(ran, lasting{*a.StartedAtMS, since})
	}
	if since < end {
		waited = append(waited, lasting{since, end})
	}
	return ran, waited
}

func orNow(ms *int64, nowMS int64) int64 {
	if ms == nil {
		return nowMS
	}
	return *ms
}

// timeline draws from when a Run was due, or made, until it ended, or until nowMS.
func timeline(d run.Detail, nowMS int64) templates.Timeline {
	from, end := d.CreatedAtMS, max(orNow(d.FinishedAtMS, nowMS), d.CreatedAtMS)
	if d.ScheduledForMS != nil {
		from = min(from, *d.ScheduledForMS)
	}
	s := scaleOf(from, end, !d.Status.Terminal())
	chart := templates.Timeline{Ticks: s.ticks(), Summary: text.Of("To scale, from when it was made until now: %s.", duration(end-from))}
	if d.Status.Terminal() {
		chart.Summary = text.Of("To scale, from when it was made until it ended: %s.", duration(end-from))
	}
	if d.ScheduledForMS != nil {
		chart.Summary = text.Of("To scale, from when it was due until now: %s.", duration(end-from))
		if d.Status.Terminal() {
			chart.Summary = text.Of("To scale, from when it was due until it ended: %s.", duration(end-from))
		}
		chart.Lines = append(chart.Lines, templates.TimeLine{Name: text.Of("Late"), Value: duration(d.CreatedAtMS - from), Spans: []templates.Span{s.span("late", from, d.CreatedAtMS)}})
	}
	ran, waited := ranAndWaited(d, end)
	chart.Lines = append(chart.Lines, s.line(text.Of("Waiting"), "wait", waited), s.line(text.Of("Running"), runStatuses[d.Status].Tone, ran))
	if len(ran) == 0 {
		chart.Lines[len(chart.Lines)-1].Value = notYet(d)
	}
	return withMarks(chart, s, d)
}

// notYet says of what has not come whether it still may.
func notYet(d run.Detail) text.Text {
	if d.Status.Terminal() {
		return text.Of("never")
	}
	return text.Of("not yet")
}

func (s scale) line(name text.Text, kind string, list []lasting) templates.TimeLine {
	line := templates.TimeLine{Name: name, Value: duration(long(list))}
	for _, x := range list {
		line.Spans = append(line.Spans, s.span(kind, x.from, x.to))
	}
	return line
}

// withMarks adds the Events. Those at one place of the drawing are one mark, which names them all.
func withMarks(chart templates.Timeline, s scale, d run.Detail) templates.Timeline {
	line := templates.TimeLine{Name: text.Of("Events"), Value: text.Data(count(len(d.Events), !d.EventsAreAll))}
	for _, e := range d.Events {
		m := templates.Mark{X: s.at(e.CreatedAtMS), Tone: eventTone(e.Type), Title: text.Of("%s +%s", eventWord(e.Type), duration(max(e.CreatedAtMS-s.from, 0)))}
		if n := len(line.Marks); n > 0 && line.Marks[n-1].X == m.X {
			m.Title = text.Join(text.Of(", "), line.Marks[n-1].Title, m.Title)
			line.Marks = line.Marks[:n-1]
		}
		line.Marks = append(line.Marks, m)
	}
	chart.Lines = append(chart.Lines, line)
	return chart
}

// eventTone is the tone of the status that an Event tells of, if it tells of one.
func eventTone(kind string) string {
	if kind == "run.cancel_requested" {
		return "warn"
	}
	return runStatuses[run.Status(strings.TrimPrefix(kind, "run."))].Tone
}
