package web

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/web/messages"
	"github.com/qinglong/console/web/templates"
)

// drawn is a timeline in lines of text: name, value, and each span or mark with its place.
func drawn(chart templates.Timeline) (lines []string) {
	for _, l := range chart.Lines {
		words := []string{l.Name.String() + " " + l.Value.String()}
		for _, x := range l.Spans {
			words = append(words, fmt.Sprintf("%s %s+%s", x.Kind, x.X, x.Width))
		}
		for _, m := range l.Marks {
			words = append(words, fmt.Sprintf("%s %s (%s)", m.Tone, m.X, m.Title))
		}
		lines = append(lines, strings.Join(words, "; "))
	}
	return lines
}

func TestTimelineIsToScale(t *testing.T) {
	ended := func(status run.Status, d run.Detail) run.Detail { d.Status, d.EventsAreAll = status, true; return d }
	tests := []struct {
		name string
		run  run.Detail
		now  int64
		want []string
	}{
		{"an occurrence that failed", ended(run.Failed, run.Detail{
			Summary:  run.Summary{ScheduledForMS: new(int64(1000)), CreatedAtMS: 1100, FinishedAtMS: new(int64(2000))},
			Attempts: []run.AttemptDetail{{StartedAtMS: new(int64(1500)), FinishedAtMS: new(int64(2000))}},
			Events:   []run.Event{{Type: "run.created", CreatedAtMS: 1100}, {Type: "run.queued", CreatedAtMS: 1100}, {Type: "run.failed", CreatedAtMS: 2000}}}), 9000,
			[]string{"Late 100 ms; late 0.00%+10.00%", "Waiting 400 ms; wait 10.00%+40.00%", "Running 500 ms; bad 50.00%+50.00%",
				"Events 3; idle 10.00% (created +100 ms, queued +100 ms); bad 100.00% (failed +1 s)"}},
		{"one that runs has room to grow", ended(run.Running, run.Detail{Summary: run.Summary{CreatedAtMS: 0, StartedAtMS: new(int64(1000))},
			Attempts: []run.AttemptDetail{{StartedAtMS: new(int64(1000))}}}), 6000,
			[]string{"Waiting 1 s; wait 0.00%+16.67%", "Running 5 s; run 16.67%+83.33%", "Events 0"}},
		{"one that waits", ended(run.Queued, run.Detail{Summary: run.Summary{CreatedAtMS: 0}, Attempts: []run.AttemptDetail{{}}}), 3000,
			[]string{"Waiting 3 s; wait 0.00%+100.00%", "Running not yet", "Events 0"}},
		{"one that never started", ended(run.Cancelled, run.Detail{Summary: run.Summary{CreatedAtMS: 0, FinishedAtMS: new(int64(50))}}), 3000,
			[]string{"Waiting 50 ms; wait 0.00%+100.00%", "Running never", "Events 0"}},
		{"two Attempts with a wait between them", ended(run.Succeeded, run.Detail{Summary: run.Summary{CreatedAtMS: 0, FinishedAtMS: new(int64(100))},
			Attempts: []run.AttemptDetail{{StartedAtMS: new(int64(10)), FinishedAtMS: new(int64(30))}, {StartedAtMS: new(int64(60)), FinishedAtMS: new(int64(100))}}}), 3000,
			[]string{"Waiting 40 ms; wait 0.00%+10.00%; wait 30.00%+30.00%", "Running 60 ms; ok 10.00%+20.00%; ok 60.00%+40.00%", "Events 0"}},
		{"one that took no time at all", ended(run.Cancelled, run.Detail{Summary: run.Summary{CreatedAtMS: 7, FinishedAtMS: new(int64(7))}}), 7,
			[]string{"Waiting 0 ms", "Running never", "Events 0"}},
		{"an Event and an end before the beginning stay inside", ended(run.Failed, run.Detail{Summary: run.Summary{CreatedAtMS: 100, FinishedAtMS: new(int64(90))},
			Events: []run.Event{{Type: "run.strange", CreatedAtMS: 5}}}), 300, []string{"Waiting 0 ms", "Running never", "Events 1;  0.00% (run.strange +0 ms)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, drawn(timeline(tt.run, tt.now))); diff != "" {
				t.Errorf("timeline (-want +got):\n%s", diff)
			}
		})
	}
}

// On the narrowest chart, and in every language, the words of two ticks are apart, and none leaves the chart.
func TestTickWordsNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := rapid.Int64Range(0, 400*86_400_000).Draw(t, "long") >> rapid.IntRange(0, 35).Draw(t, "shift")
		s := scaleOf(0, long, rapid.Bool().Draw(t, "goes on"))
		for _, l := range messages.All() {
			end := -1.0
			for _, k := range s.ticks() {
				from, to := extent(l, k)
				if from < end || from < -1 || to > narrowest+1 {
					t.Fatalf("%d ms in %s: %q takes %.0f to %.0f px after %.0f", long, l.Tag, l.Say(k.Text), from, to, end)
				}
				end = to + 2
			}
		}
	})
}

const narrowest = 288.0 // px: the chart on a phone 320 px wide

// extent is what a tick's words take of the narrowest chart, at 11 px: half of that a Latin letter, all of it a Chinese one.
func extent(l messages.Language, k templates.Tick) (from, to float64) {
	x, _ := strconv.ParseFloat(strings.TrimSuffix(k.X, "%"), 64)
	wide := 0.0
	for _, r := range l.Say(k.Text) {
		if wide += 6; utf8.RuneLen(r) > 2 {
			wide += 5
		}
	}
	x *= narrowest / 100
	switch k.Anchor {
	case "start":
		return x, x + wide
	case "end":
		return x - wide, x
	}
	return x - wide/2, x + wide/2
}
