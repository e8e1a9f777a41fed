package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const minutes = 60

// hourEnd is the end of the minute of nowMS: the charts of the last hour are of the clock's minutes, so that what they
// show of a minute stays as it is when the next one has come.
func hourEnd(nowMS int64) int64 { return (nowMS + 59_999) / 60_000 * 60_000 }

// backlogEnd is where the marks of the backlog end: a little before each minute does, because at its end much falls due
// and is about to be admitted.
func backlogEnd(nowMS int64) int64 { return hourEnd(nowMS) - 3000 }

// percent is a length as SVG wants it.
func percent(part, whole float64) string {
	if whole == 0 {
		return "0.00%"
	}
	return fmt.Sprintf("%.2f%%", 100*part/whole)
}

// A lastHour makes the charts of the last hour.
type lastHour struct {
	endMS, nowMS int64
}

// at is the beginning of minute i.
func (m lastHour) at(i int) int64 { return m.endMS - int64(minutes-i)*60_000 }

// chart has a place for each minute of the last hour.
func (m lastHour) chart(title text.Text) templates.Chart {
	c := templates.Chart{Title: title}
	for i, words := range []text.Text{text.Of("1 h ago"), text.Of("45 min"), text.Of("30 min"), text.Of("15 min"), text.Of("now")} {
		x := float64(25 * i)
		c.Ticks = append(c.Ticks, templates.Tick{X: percent(x, 100), Anchor: anchor(x), Text: words})
	}
	return c
}

// column is the place of minute i, with a block for each of ns, the first one lowest; most fills it.
func (m lastHour) column(i int, words text.Text, most int, tones []string, ns []int) templates.Column {
	c := templates.Column{X: percent(float64(i)+0.14, minutes), Width: percent(0.72, minutes), Title: text.Of("%s: %s", clockOf(m.at(i)), words)}
	base := 0
	for k, n := range ns {
		if n > 0 {
			base += n
			c.Blocks = append(c.Blocks, templates.Block{Tone: tones[k], Y: percent(float64(most-base), float64(most)), Height: percent(float64(n), float64(most))})
		}
	}
	return c
}

// row is minute i of a table; the newest comes first.
func (m lastHour) row(i int, cells ...text.Text) templates.TableRow {
	at := instant(m.at(i), m.nowMS)
	at.Text = strings.TrimSuffix(at.Text, ":00 UTC")
	return templates.TableRow{At: at, Cells: cells}
}

// clockOf is a moment's time of day.
func clockOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04 UTC") }

// counted draws one number a minute, from the first minute on of which it is known.
func (m lastHour) counted(title, none, head text.Text, tone string, ns [minutes]int, known int) templates.Chart {
	c := m.chart(title)
	most, peak := 0, 0
	for i, n := range ns {
		if i >= known && n > most {
			most, peak = n, i
		}
	}
	c.Summary = none
	if most > 0 {
		c.Summary, c.Top = text.Of("at most %s, at %s; now %s", most, clockOf(m.at(peak)), ns[minutes-1]), text.Data(count(most, false))
	}
	c.Table.Head = []text.Text{text.Of("Minute"), head}
	for i := range ns {
		if i < known {
			continue
		}
		c.Columns = append(c.Columns, m.column(i, text.Data(count(ns[i], false)), most, []string{tone}, ns[i:i+1]))
	}
	for i := minutes - 1; i >= known; i-- {
		c.Table.Rows = append(c.Table.Rows, m.row(i, text.Data(count(ns[i], false))))
	}
	return c
}

func (m lastHour) admissions(h run.Hour) templates.Chart {
	return m.counted(text.Of("Admissions a minute"), text.Of("none in the last hour"), text.Of("Admitted"), "run", h.ByMinute, h.KnownFrom)
}

func (m lastHour) backlog(b scheduler.Backlog) templates.Chart {
	return m.counted(text.Of("Backlog"), text.Of("nothing waited at the end of a minute"), text.Of("Waiting"), "warn", b.ByMinute, b.KnownFrom)
}

// outcomes are what an hour's Runs have become, the first one lowest.
var outcomes = []struct {
	word     text.Text
	tone     string
	statuses []run.Status
}{
	{text.Of("succeeded"), "ok", []run.Status{run.Succeeded}},
	{text.Of("under way"), "run", []run.Status{run.Created, run.WaitingApproval, run.Queued, run.Dispatching, run.Running, run.RetryWait}},
	{text.Of("cancelled"), "idle", []run.Status{run.Cancelled}},
	{text.Of("timed out or lost"), "warn", []run.Status{run.TimedOut, run.Lost}},
	{text.Of("failed"), "bad", []run.Status{run.Failed}},
}

// outcomesIn counts byStatus by outcome.
func outcomesIn(byStatus map[run.Status]int) (ns []int, total int) {
	for _, o := range outcomes {
		n := 0
		for _, s := range o.statuses {
			n += byStatus[s]
		}
		ns, total = append(ns, n), total+n
	}
	return ns, total
}

// counts words those of ns that are not zero, what is worst first.
func counts(ns []int) text.Text {
	var parts []text.Text
	for k := len(ns) - 1; k >= 0; k-- {
		if ns[k] > 0 {
			parts = append(parts, text.Of("%s %s", ns[k], outcomes[k].word))
		}
	}
	return text.Join(text.Of(", "), parts...)
}

func (m lastHour) outcomes(h run.Hour) templates.Chart {
	c := m.chart(text.Of("Outcomes by minute of admission"))
	var tones []string
	c.Table.Head = []text.Text{text.Of("Minute")}
	for _, o := range outcomes {
		tones = append(tones, o.tone)
		c.Table.Head = append(c.Table.Head, o.word)
		c.Legend = append(c.Legend, templates.Status{Word: o.word, Tone: o.tone})
	}
	most := 0
	for _, x := range h.Minutes[h.KnownFrom:] {
		_, n := outcomesIn(x.ByStatus)
		most = max(most, n)
	}
	for i := h.KnownFrom; i < minutes; i++ {
		if ns, n := outcomesIn(h.Minutes[i].ByStatus); n > 0 {
			c.Columns = append(c.Columns, m.column(i, counts(ns), most, tones, ns))
		}
	}
	for i := minutes - 1; i >= h.KnownFrom; i-- {
		ns, _ := outcomesIn(h.Minutes[i].ByStatus)
		row := m.row(i)
		for _, n := range ns {
			row.Cells = append(row.Cells, text.Data(count(n, false)))
		}
		c.Table.Rows = append(c.Table.Rows, row)
	}
	c.Summary = text.Of("none in the last hour")
	if ns, n := outcomesIn(h.ByStatus); n > 0 {
		c.Summary, c.Top = counts(ns), text.Data(count(most, false))
	}
	return c
}

func (m lastHour) lateness(h run.Hour) templates.Chart {
	c := m.chart(text.Of("Lateness"))
	c.Legend = []templates.Status{{Word: text.Of("median"), Tone: "run"}, {Word: text.Of("99th percentile"), Tone: "idle"}}
	c.Table.Head = []text.Text{text.Of("Minute"), text.Of("median"), text.Of("99th percentile")}
	c.Summary = text.Of("no Occurrence was admitted in the last hour")
	var most int64 = 1
	var medians, tails [minutes]*int64
	for i := h.KnownFrom; i < minutes; i++ {
		if x := h.Minutes[i]; x.MedianLateMS != nil && x.P99LateMS != nil {
			medians[i], tails[i], most = x.MedianLateMS, x.P99LateMS, max(most, *x.P99LateMS)
			c.Columns = append(c.Columns, m.column(i, text.Of("median %s, 99th percentile %s", duration(*x.MedianLateMS), duration(*x.P99LateMS)), 1, nil, nil))
		}
	}
	for i := minutes - 1; i >= h.KnownFrom; i-- {
		row := m.row(i, text.Data("–"), text.Data("–"))
		if medians[i] != nil {
			row.Cells = []text.Text{duration(*medians[i]), duration(*tails[i])}
		}
		c.Table.Rows = append(c.Table.Rows, row)
	}
	if h.MedianLateMS != nil && h.P99LateMS != nil {
		c.Summary, c.Top = text.Of("median %s, 99th percentile %s", duration(*h.MedianLateMS), duration(*h.P99LateMS)), duration(most)
		c.Lines = []templates.Line{{Path: stairs(tails, most, true), Tone: "idle", Area: true}, {Path: stairs(tails, most, false), Tone: "idle"}, {Path: stairs(medians, most, false), Tone: "run"}}
	}
	return c
}

// stairs are a line through ns, one step a minute, that breaks off where there is none; an area is closed at its base.
func stairs(ns [minutes]*int64, most int64, area bool) string {
	var b strings.Builder
	on := false
	for i, n := range ns {
		x := 100 * float64(i) / minutes
		if n == nil {
			if on && area {
				fmt.Fprintf(&b, "V100")
			}
			on = false
			continue
		}
		y := 100 - 100*float64(*n)/float64(most)
		switch {
		case on:
			fmt.Fprintf(&b, "V%.1f", y)
		case area:
			fmt.Fprintf(&b, "M%.2f 100V%.1f", x, y)
		default:
			fmt.Fprintf(&b, "M%.2f %.1f", x, y)
		}
		fmt.Fprintf(&b, "H%.2f", x+100.0/minutes)
		on = true
	}
	if on && area {
		b.WriteString("V100")
	}
	return b.String()
}

const (
	maxLabels     = 6
	labelRoom     = 16.0 // percent of the axis that a label takes
	dotRoom       = 1.0  // percent between two dots: closer ones are one
	upcomingShown = 50   // rows of the axis as a table
)

// upcoming draws the next hour: a dot for each instant, and a name for those of Schedules that are due once in it.
func (s *server) upcoming(list []scheduler.Expected, nowMS int64) templates.Axis {
	axis := templates.Axis{
		Summary: text.Count(len(list), "1 occurrence expected in the next hour", "%s occurrences expected in the next hour"),
		Empty:   templates.Empty{Why: text.Of("Nothing falls due in the next hour."), What: text.Of("Later occurrences are among the Schedules.")},
	}
	for i, words := range []text.Text{text.Of("now"), text.Of("in 15 min"), text.Of("in 30 min"), text.Of("in 45 min"), text.Of("in 1 h")} {
		x := float64(25 * i)
		axis.Ticks = append(axis.Ticks, templates.Tick{X: percent(x, 100), Anchor: anchor(x), Text: words})
	}
	axis.Rows, axis.More = s.upcomingRows(list, nowMS)
	lastDot, labelEnd, labels := -1.0, -1.0, 0
	for _, e := range list {
		at := 100 * float64(e.AtMS-nowMS) / float64(time.Hour.Milliseconds())
		left, side := at, "start"
		if at > 70 {
			left, side = at-labelRoom, "end"
		}
		spot := templates.Spot{X: percent(at, 100), Title: text.Of("%s: %s (%s)", clockOf(e.AtMS), e.TriggerID, e.ProjectID)}
		if !e.Frequent && labels < maxLabels && left >= labelEnd {
			spot.Anchor, spot.Label, spot.URL = side, text.Of("%s %s", shorten(e.TriggerID, 24), relative(nowMS-e.AtMS)), s.links.schedule(e.ProjectID, e.TriggerID)
			axis.Spots = append(axis.Spots, spot)
			labelEnd, labels = left+labelRoom, labels+1
			continue
		}
		if at >= lastDot+dotRoom {
			axis.Spots = append(axis.Spots, spot)
			lastDot = at
		}
	}
	return axis
}

// upcomingRows has one row for each Schedule, and how many occurrences it has within the hour.
func (s *server) upcomingRows(list []scheduler.Expected, nowMS int64) (rows []templates.UpcomingRow, more text.Text) {
	type key struct{ project, trigger string }
	var order []scheduler.Expected
	n := map[key]int{}
	for _, e := range list {
		k := key{e.ProjectID, e.TriggerID}
		if n[k]++; n[k] == 1 {
			order = append(order, e)
		}
	}
	if left := len(order) - upcomingShown; left > 0 {
		order, more = order[:upcomingShown], text.Count(left, "And 1 other Schedule.", "And %s other Schedules.")
	}
	for _, e := range order {
		rows = append(rows, templates.UpcomingRow{At: instant(e.AtMS, nowMS), Project: e.ProjectID, Count: count(n[key{e.ProjectID, e.TriggerID}], false),
			Schedule: templates.Link{Text: text.Data(e.TriggerID), URL: s.links.schedule(e.ProjectID, e.TriggerID)}})
	}
	return rows, more
}
