package web

import (
	"net/url"
	"slices"
	"time"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	leastLaneMS = 60_000 // a shorter range is no picture
	maxMarks    = 48     // instants that are drawn one by one; more would not keep apart on a phone
	maxParts    = 122    // columns of a lane
	bandLabel   = 9.0    // percent of a lane that the name of a band takes
	laneTicks   = 8
	leastBlock  = 4.0 // percent of its plot that a block is high at least: one in a thousand is seen
)

// partLengths are what one column of a lane may stand for.
var partLengths = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// A fate is what became of an instant, as a lane tells it apart.
type fate struct {
	verdict scheduler.Verdict
	failed  bool // its Run
}

// fates in the order in which they stand in a column, from its top.
var fates = []fate{{scheduler.WasUnaccounted, false}, {scheduler.IsBlocked, false}, {scheduler.WasAdmitted, true}, {scheduler.WasSkipped, false},
	{scheduler.WasCoalesced, false}, {scheduler.WasPaused, false}, {scheduler.WasSuperseded, false}, {scheduler.WasDisabled, false},
	{scheduler.WasArchived, false}, {scheduler.IsPending, false}, {scheduler.WasAdmitted, false}}

func (f fate) status() templates.Status {
	if f.failed {
		return templates.Status{Word: text.Of("admitted, and the Run failed"), Shape: runStatuses[run.Failed].Shape, Tone: runStatuses[run.Failed].Tone}
	}
	return verdictStatuses[f.verdict]
}

// of counts f in p.
func (f fate) of(p scheduler.Part) int {
	switch {
	case f.failed:
		return p.Failed
	case f.verdict == scheduler.WasAdmitted:
		return p.ByVerdict[f.verdict] - p.Failed
	}
	return p.ByVerdict[f.verdict]
}

// columnOf is how long a part of r is, and where one of them begins on loc's clock.
func columnOf(r accountRange, loc *time.Location) (startMS, partMS int64) {
	part := partLengths[len(partLengths)-1]
	for _, p := range slices.Backward(partLengths) {
		if time.Duration(r.toMS-r.fromMS)*time.Millisecond <= (maxParts-2)*p {
			part = p
		}
	}
	_, offset := time.UnixMilli(r.toMS).In(loc).Zone()
	return -int64(offset) * 1000, part.Milliseconds()
}

// laneWords draws the lane of one account.
type laneWords struct {
	server  *server
	d       scheduler.Detail
	loc     *time.Location
	a       scheduler.Account
	l       scheduler.Lane
	from    int64 // what the picture is of
	to      int64
	anchors map[int64]bool // instants that the table has an anchor for
}

func (w laneWords) x(ms int64) float64 { return 100 * float64(ms-w.from) / float64(w.to-w.from) }

// span says where what lasts from one moment to another begins, and how wide it is, within the picture.
func (w laneWords) span(fromMS, toMS int64) (x, width float64) {
	x = max(w.x(fromMS), 0)
	return x, max(min(w.x(toMS), 100)-x, 0)
}

func (w laneWords) lane() templates.Lane {
	lane := templates.Lane{Bands: w.bands(), Ticks: timeTicks(w.from, w.to, w.loc), Legend: w.legend()}
	lane.Summary = text.Of("What became of each instant from %s to %s.", dated(time.UnixMilli(w.from).In(w.loc)), dated(time.UnixMilli(w.to).In(w.loc)))
	if !w.a.Truncated && len(w.a.Instants) <= maxMarks {
		lane.Marks, lane.Note = w.marks(), text.Of("Times are of %s.", w.loc)
		return lane
	}
	lane.Columns, lane.Table = w.columns(), w.table()
	if len(w.l.Parts) > 0 {
		lane.Note = text.Of("Each column is %s, times are of %s. Choose one to see its instants.", duration(w.l.Parts[0].ToMS-w.l.Parts[0].FromMS), w.loc)
	}
	return lane
}

func (w laneWords) marks() (list []templates.LaneMark) {
	for _, i := range slices.Backward(w.a.Instants) {
		status := fate{i.Verdict, i.Failed()}.status()
		m := templates.LaneMark{X: percent(w.x(i.AtMS), 100), Status: status, URL: w.instantURL(i),
			Title: text.Of("%s: %s. %s", dated(time.UnixMilli(i.AtMS).In(w.loc)), status.Word, end([]scheduler.Instant{i}))}
		list = append(list, m)
	}
	return list
}

// instantURL leads to the Run of i, or to where the account says why there is none.
func (w laneWords) instantURL(i scheduler.Instant) string {
	switch {
	case i.RunID != nil:
		return w.server.links.run(*i.RunID)
	case w.anchors[i.AtMS]:
		return "#" + instantAnchor(i.AtMS)
	}
	return w.server.links.instant(w.d.ProjectID, w.d.TriggerID, i.AtMS)
}

func (w laneWords) columns() (list []templates.Column) {
	most := 1
	for _, p := range w.l.Parts {
		most = max(most, p.Instants)
	}
	for _, p := range w.l.Parts {
		x, width := w.span(p.FromMS, p.ToMS)
		c := templates.Column{X: percent(x+width*0.08, 100), Width: percent(width*0.84, 100), SignX: percent(x+width/2, 100), URL: w.partURL(p), Title: w.partTitle(p)}
		base := 0.0
		for _, f := range slices.Backward(fates) {
			n := f.of(p)
			if n == 0 {
				continue
			}
			status, high := f.status(), max(100*float64(n)/float64(most), leastBlock)
			base = min(base+high, 100)
			c.Blocks = append(c.Blocks, templates.Block{Y: percent(100-base, 100), Height: percent(high, 100), Tone: status.Tone})
			if status.Tone == "bad" || status.Tone == "warn" {
				c.Sign = status // the last is the worst
			}
		}
		list = append(list, c)
	}
	return list
}

// partURL leads to the account of p alone.
func (w laneWords) partURL(p scheduler.Part) string {
	return w.server.links.account(w.d.ProjectID, w.d.TriggerID, url.Values{"from": {rfc3339(p.FromMS)}, "to": {rfc3339(p.ToMS - 1000)}})
}

func (w laneWords) partTitle(p scheduler.Part) text.Text {
	var parts []text.Text
	for _, f := range fates {
		if n := f.of(p); n > 0 {
			parts = append(parts, text.Of("%s %s", n, f.status().Word))
		}
	}
	return text.Of("%s: %s", text.Join(text.Data(" "), local(p.FromMS, p.ToMS, w.loc)...), text.Join(text.Of(", "), parts...))
}

// bands are the times in which nothing could be admitted.
func (w laneWords) bands() (list []templates.Band) {
	for _, s := range w.l.Archived {
		list = w.band(list, s, "archived", text.Of("archived"), text.Of("The Project was archived:"))
	}
	for _, p := range w.l.Paused {
		list = w.band(list, p.Spell, "paused", text.Of("paused"), text.Of("Paused by %s (%s):", visible(p.By), visible(p.Reason)))
	}
	for _, s := range w.a.Spells {
		list = w.band(list, s, "alone", text.Of("no replica"), text.Of("No replica was running:"))
	}
	if w.l.KnownFromMS > w.from {
		list = w.band(list, scheduler.Spell{FromMS: w.from, ToMS: w.l.KnownFromMS}, "unknown", text.Of("not counted"), text.Of("Too many instants to count. Choose a shorter range:"))
	}
	return list
}

func (w laneWords) band(list []templates.Band, s scheduler.Spell, kind string, label, what text.Text) []templates.Band {
	if s.ToMS <= w.from || s.FromMS >= w.to {
		return list
	}
	x, width := w.span(s.FromMS, s.ToMS)
	said := text.Join(text.Data(" "), local(s.FromMS, s.ToMS, w.loc)...)
	b := templates.Band{X: percent(x, 100), Width: percent(width, 100), LabelX: percent(x, 100), Kind: kind,
		Title: text.Of("%s %s (%s)", what, said, duration(s.ToMS-s.FromMS))}
	if width >= bandLabel {
		b.Label = label
	}
	return append(list, b)
}

// bandWords say what a band of each kind is, and of what instants it is the time if they have a verdict of their own.
var bandWords = []struct {
	kind string
	word text.Text
	of   scheduler.Verdict
}{{"alone", text.Of("no replica was running"), ""}, {"paused", text.Of("paused"), scheduler.WasPaused}, {"archived", text.Of("Project archived"), scheduler.WasArchived},
	{"unknown", text.Of("not counted: too many"), ""}}

// legend says what is in the picture; what is drawn as instants and as a band is said once.
func (w laneWords) legend() (list []templates.LegendItem) {
	bands, said := w.bands(), map[scheduler.Verdict]int{}
	for _, f := range fates {
		n := 0
		for _, p := range w.l.Parts {
			n += f.of(p)
		}
		if n > 0 {
			list = append(list, templates.LegendItem{Status: f.status(), Count: count(n, false)})
			said[f.verdict] = len(list)
		}
	}
	for _, b := range bandWords {
		switch at := said[b.of]; {
		case !slices.ContainsFunc(bands, func(x templates.Band) bool { return x.Kind == b.kind }):
		case at > 0:
			list[at-1].Kind = b.kind
		default:
			list = append(list, templates.LegendItem{Kind: b.kind, Status: templates.Status{Word: b.word}})
		}
	}
	return list
}

// table is the columns in numbers, newest first like the account.
func (w laneWords) table() templates.Table {
	var seen []fate
	for _, f := range fates {
		if slices.ContainsFunc(w.l.Parts, func(p scheduler.Part) bool { return f.of(p) > 0 }) {
			seen = append(seen, f)
		}
	}
	v := templates.Table{Head: []text.Text{text.Of("From")}}
	for _, f := range seen {
		v.Head = append(v.Head, f.status().Word)
	}
	for _, p := range slices.Backward(w.l.Parts) {
		row := templates.TableRow{At: instant(p.FromMS, w.a.NowMS), URL: w.partURL(p)}
		for _, f := range seen {
			row.Cells = append(row.Cells, text.Data(count(f.of(p), false)))
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// timeTicks names moments between two on loc's clock: whole steps of its days.
func timeTicks(fromMS, toMS int64, loc *time.Location) (list []templates.Tick) {
	span := time.Duration(toMS-fromMS) * time.Millisecond
	step := 24 * time.Hour * (span/(24*time.Hour*laneTicks) + 1)
	for _, s := range slices.Backward(partLengths) {
		if span <= laneTicks*s {
			step = s
		}
	}
	from, to := time.UnixMilli(fromMS).In(loc), time.UnixMilli(toMS)
	days := max(int(step/(24*time.Hour)), 1)
	for day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, loc); !day.After(to); day = day.AddDate(0, 0, days) {
		until := day.AddDate(0, 0, days)
		for at := day; at.Before(until); at = at.Add(step) {
			if x := 100 * float64(at.UnixMilli()-fromMS) / float64(toMS-fromMS); x >= 0 && x <= 100 {
				list = append(list, templates.Tick{X: percent(x, 100), Anchor: anchor(x), Text: tickText(at, step)})
			}
		}
	}
	return list
}

func tickText(at time.Time, step time.Duration) text.Text {
	switch {
	case at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0:
		return text.Data(at.Format("01-02"))
	case step < time.Minute:
		return text.Data(at.Format(time.TimeOnly))
	}
	return text.Data(at.Format("15:04"))
}

// anchor keeps a word at the edge of a picture within it.
func anchor(x float64) string {
	switch {
	case x < 5:
		return "start"
	case x > 95:
		return "end"
	}
	return "middle"
}
