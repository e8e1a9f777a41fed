package web

import (
	"fmt"
	"slices"
	"time"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// percent is a length as SVG wants it.
func percent(part, whole float64) string { return fmt.Sprintf("%.2f%%", 100*part/whole) }

// admissions draws one bar a minute.
func admissions(h run.Hour, nowMS int64) templates.Bars {
	least, most := slices.Min(h.ByMinute[:]), slices.Max(h.ByMinute[:])
	chart := templates.Bars{
		Summary: text.Of("%s to %s a minute", least, most), To: text.Of("now"),
		From: relative(time.Hour.Milliseconds()),
	}
	for i, n := range h.ByMinute {
		if n > 0 {
			chart.Bars = append(chart.Bars, templates.Bar{X: percent(float64(i), 60), Width: percent(0.72, 60),
				Y: percent(float64(most-n), float64(most)), Height: percent(float64(n), float64(most))})
		}
	}
	return chart
}

// outcomes draws what became of the last hour's Runs as parts of one bar, each a way to its list.
func (s *server) outcomes(h run.Hour) templates.Shares {
	chart := templates.Shares{Summary: text.Of("No Run was admitted in the last hour.")}
	total := 0
	for _, n := range h.ByStatus {
		total += n
	}
	var words []text.Text
	before := 0
	for _, status := range []run.Status{run.Succeeded, run.Running, run.Dispatching, run.Queued, run.Created, run.WaitingApproval,
		run.RetryWait, run.Cancelled, run.Lost, run.TimedOut, run.Failed} {
		n := h.ByStatus[status]
		if n == 0 {
			continue
		}
		part := templates.Share{
			X: percent(float64(before), float64(total)), Width: percent(float64(n), float64(total)), Status: runStatuses[status],
			Count: count(n, false), URL: s.links.runs("status", string(status), "since", "-1h"),
		}
		chart.Parts = append(chart.Parts, part)
		words = append(words, text.Of("%s %s", part.Count, part.Status.Word))
		before += n
	}
	if len(words) > 0 {
		chart.Summary = text.Of("Runs of the last hour: %s", text.Join(text.Of(", "), words...))
	}
	return chart
}

const (
	maxLabels = 6
	labelRoom = 16.0 // percent of the axis that a label takes
	dotRoom   = 1.0  // percent between two dots: closer ones are one
)

// upcoming draws the next hour: a dot for each instant, and a name for those of Schedules that are due once in it.
func upcoming(list []scheduler.Expected, nowMS int64) templates.Axis {
	axis := templates.Axis{
		Summary: text.Count(len(list), "1 occurrence expected in the next hour", "%s occurrences expected in the next hour"),
		From:    instant(nowMS, nowMS), To: instant(nowMS+time.Hour.Milliseconds(), nowMS),
		Empty: templates.Empty{Why: text.Of("Nothing falls due in the next hour."), What: text.Of("Later occurrences are among the Schedules.")},
	}
	lastDot, labelEnd, labels := -1.0, -1.0, 0
	for _, e := range list {
		at := 100 * float64(e.AtMS-nowMS) / float64(time.Hour.Milliseconds())
		left, anchor := at, "start"
		if at > 70 {
			left, anchor = at-labelRoom, "end"
		}
		if !e.Frequent && labels < maxLabels && left >= labelEnd {
			axis.Spots = append(axis.Spots, templates.Spot{X: percent(at, 100), Anchor: anchor,
				Label: text.Of("%s %s", shorten(e.TriggerID, 24), relative(nowMS-e.AtMS))})
			labelEnd, labels = left+labelRoom, labels+1
			continue
		}
		if at >= lastDot+dotRoom {
			axis.Spots = append(axis.Spots, templates.Spot{X: percent(at, 100)})
			lastDot = at
		}
	}
	return axis
}
