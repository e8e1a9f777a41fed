package web

import (
	"errors"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// occurrence is what the Run's family comes from: the Run that everything is a retry of, and false if no Trigger made it.
func (f runFacts) occurrence() (run.Member, bool) {
	if len(f.Family) == 0 || f.Family[0].TriggerID == nil || f.Family[0].ScheduledForMS == nil {
		return run.Member{}, false
	}
	return f.Family[0], true
}

// pauseOf is what holds the Trigger back that a Run's family comes from, or nil.
func (s *server) pauseOf(c echo.Context, f runFacts) (*catalog.Pause, error) {
	root, ok := f.occurrence()
	if !ok {
		return nil, nil
	}
	p, err := catalog.CurrentPause(c.Request().Context(), s.DB, f.ProjectID, *root.TriggerID)
	if errors.Is(err, catalog.ErrNotPaused) {
		return nil, nil
	}
	return &p, err
}

// heldBack says that somebody holds the Run's Trigger back: who, since when and why.
func (s *server) heldBack(f runFacts, nowMS int64) templates.Held {
	root, ok := f.occurrence()
	if !ok || f.Pause == nil {
		return templates.Held{}
	}
	return templates.Held{Trigger: templates.Link{Text: text.Data(*root.TriggerID), URL: s.links.schedule(f.ProjectID, *root.TriggerID)}, By: visible(f.Pause.ByName),
		Since: instant(f.Pause.AtMS, nowMS), Reason: linked(f.Pause.Reason)}
}

// authorOf is what the Task's author says of running it again. A Run that goes on has it too: put in when it fails, it would
// move the page, and so wait, and the button with it. Of one that succeeded it is no question.
func authorOf(d run.Detail) templates.Author {
	if d.Status == run.Succeeded {
		return templates.Author{}
	}
	return authorSays(catalog.RetryContent{Safe: optional(d.RetrySafe), Note: optional(d.RetryNote)})
}

func authorSays(r catalog.RetryContent) templates.Author {
	return templates.Author{Unsafe: r.Unsafe(), Note: visible(r.Note)}
}

func (s *server) runOrigin(f runFacts, nowMS int64) []templates.Pair {
	d, list := f.Detail, s.retryOrigin(f, nowMS)
	if d.ScheduledForMS != nil {
		late, _ := d.Late()
		list = append(list,
			templates.Pair{Name: text.Of("Occurrence"), Instant: instant(*d.ScheduledForMS, nowMS), Note: inZone(*d.ScheduledForMS, d.Timezone), Tone: "soft"},
			templates.Pair{Name: text.Of("Admitted"), Note: text.Of("%s late", duration(late))},
			templates.Pair{Name: text.Of("Trigger"), Link: templates.Link{Text: text.Data(*d.TriggerID), URL: s.links.schedule(d.ProjectID, *d.TriggerID)},
				Note: text.Of("revision %s", *d.TriggerRevision), Mono: digest(*d.TriggerDigest), Title: *d.TriggerDigest})
	}
	list = append(list,
		templates.Pair{Name: text.Of("Task"), Link: templates.Link{Text: text.Data(d.TaskID), URL: s.links.runs("project", d.ProjectID, "task", d.TaskID)},
			Note: text.Of("revision %s", d.TaskRevision), Mono: digest(d.TaskDigest), Title: d.TaskDigest},
		templates.Pair{Name: text.Of("Project"), Link: templates.Link{Text: text.Data(d.ProjectID), URL: s.links.runs("project", d.ProjectID)}})
	if d.RunbookURL == "" && d.LogsURL == "" {
		list = append(list, templates.Pair{Name: text.Of("Links"), Note: text.Of("This Task names no runbook and no logs. Its manifest may: %s.", "runbook:, logs:"), Tone: "soft"})
	}
	return list
}

// retryOrigin says which retry of what a Run is, by whom and why.
func (s *server) retryOrigin(f runFacts, nowMS int64) []templates.Pair {
	if f.RetryOf == nil {
		return nil
	}
	list := []templates.Pair{{Name: text.Of("Retry of"), Link: templates.Link{Text: text.Data(f.RetryOf.String()), URL: s.links.run(*f.RetryOf)}, Note: placeOf(f), Tone: "soft"}}
	if root, ok := f.occurrence(); ok {
		if root.ID != *f.RetryOf {
			list = append(list, templates.Pair{Name: text.Of("First Run"), Link: templates.Link{Text: text.Data(root.ID.String()), URL: s.links.run(root.ID)}})
		}
		list = append(list,
			templates.Pair{Name: text.Of("Its occurrence"), Instant: instant(*root.ScheduledForMS, nowMS), Note: inZone(*root.ScheduledForMS, root.Timezone), Tone: "soft"},
			templates.Pair{Name: text.Of("Its Trigger"), Link: templates.Link{Text: text.Data(*root.TriggerID), URL: s.links.schedule(f.ProjectID, *root.TriggerID)}})
	}
	if id, ok := f.Batch(); ok {
		list = append(list, templates.Pair{Name: text.Of("Batch"), Link: templates.Link{Text: text.Data(id.String()), URL: s.links.batch(id)}, Note: text.Of("made with others"), Tone: "soft"})
	}
	i := slices.IndexFunc(f.Family, func(m run.Member) bool { return m.ID == f.ID })
	if i < 0 {
		return list
	}
	if by := f.Family[i].By; by != nil {
		list = append(list, templates.Pair{Name: text.Of("Retried by"), Note: text.Data(visible(*by))})
	}
	if reason := f.Family[i].Reason; reason != nil {
		list = append(list, templates.Pair{Name: text.Of("Why"), Words: linked(*reason)})
	}
	return list
}

// placeOf says which of its source's retries a Run is.
func placeOf(f runFacts) text.Text {
	nth, all := 0, 0
	for _, m := range f.Family {
		if m.RetryOf != nil && *m.RetryOf == *f.RetryOf {
			if all++; m.ID == f.ID {
				nth = all
			}
		}
	}
	if all < 2 || nth == 0 {
		return text.Text{}
	}
	return text.Of("retry %s of %s", nth, all)
}

// inZone words an instant on the Trigger's own clock.
func inZone(ms int64, zone *string) text.Text {
	if zone == nil || *zone == "UTC" { // said already
		return text.Text{}
	}
	loc, err := time.LoadLocation(*zone)
	if err != nil {
		return text.Text{}
	}
	local := time.UnixMilli(ms).In(loc)
	return text.Of("· %s %s %s", weekdays[local.Weekday()], local.Format("15:04:05"), *zone)
}
