package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const goRunPath = "/go/run"

var goRunQuery = []string{"project", "trigger", "at"}

// noRunJSON is what a client is told where there is no Run to lead to.
type noRunJSON struct {
	ProjectID string             `json:"projectId"`
	TriggerID string             `json:"triggerId"`
	At        string             `json:"at"`   // as it was asked for
	AtMS      int64              `json:"atMs"` // what it means, 0 if the Trigger has not been expected to fire yet
	Instant   *scheduler.Instant `json:"instant"`
}

// asked is what a runbook's link asks for, and what it means.
type asked struct {
	scheduler.Meant
	schedule scheduler.Detail
	at       string
}

// goRun is a runbook's door: it leads to the Run that somebody means, or says why there is none.
func (s *server) goRun(c echo.Context) error {
	q, err := query(c, goRunQuery...)
	if err != nil {
		return err
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	a, err := s.askedFor(c.Request().Context(), v, q)
	if err != nil {
		return err
	}
	if a.RunID != uuid.Nil {
		return c.Redirect(http.StatusSeeOther, withQuery(s.links.run(a.RunID), url.Values{viewParameter: {q.Get(viewParameter)}}))
	}
	return s.answer(func(c echo.Context) (reply, error) {
		d := a.schedule
		return reply{
			json: func() any { return noRunJSON{d.ProjectID, d.TriggerID, a.at, a.AtMS, a.Instant} },
			page: func() templ.Component { return templates.NoticePage(s.noRunPage(c, v, a)) },
		}, nil
	})(c)
}

func (s *server) askedFor(ctx context.Context, v viewer, q url.Values) (a asked, err error) {
	project, trigger := q.Get("project"), q.Get("trigger")
	if project == "" || trigger == "" {
		return a, badDoor(text.Of("The address names no Project, or no Trigger."))
	}
	if a.at = q.Get("at"); a.at == "" {
		return a, badDoor(text.Of("The address does not say which of the Trigger's Runs is meant."))
	}
	at, err := scheduler.ParseAt(a.at)
	if err != nil {
		return a, badDoor(text.Of("The parameter at is %s, which names no Run.", cited(a.at)))
	}
	if a.Meant, err = scheduler.Find(ctx, s.DB, v.sees(""), project, trigger, at); err == nil {
		a.schedule, err = scheduler.Get(ctx, s.DB, v.sees(""), project, trigger)
	}
	if errors.Is(err, scheduler.ErrNotFound) {
		p := s.problemOf(err)
		p.next = text.Of("The Trigger may have been renamed since the runbook was written. Look for it among the Schedules, and correct the runbook.")
		p.back = templates.Link{Text: text.Of("Look for %s", visible(shorten(trigger, listName))), URL: s.links.url(schedulesPath, url.Values{"q": {trigger}})}
		return a, p
	}
	return a, err
}

// badDoor is an address that a runbook spells wrongly.
func badDoor(what text.Text) problem {
	p := badQuery(what)
	p.next = text.Of("Correct the runbook's link: at is an instant like 2026-11-29T03:00:00Z, a time of day like 03:00 in the Trigger's zone, latest or latest-failed.")
	p.command = goRunPath + "?project=PROJECT&trigger=TRIGGER&at=03:00"
	return p
}

func (s *server) noRunPage(c echo.Context, v viewer, a asked) templates.Notice {
	d := a.schedule
	page := templates.Notice{Page: s.page(c, text.Of("There is no such Run"), schedulesPath, v.nowMS), Sentences: []templates.Sentence{noRunSentence(a, v.nowMS)}}
	page.Pairs = []templates.Pair{
		{Name: text.Of("Trigger"), Link: templates.Link{Text: text.Data(d.TriggerID), URL: s.links.schedule(d.ProjectID, d.TriggerID)}, Note: text.Data(d.ProjectID), Tone: "soft"},
		{Name: text.Of("Asked for"), Mono: visible(a.at)},
	}
	if a.AtMS > 0 {
		page.Pairs = append(page.Pairs, s.instantPairs(a, v.nowMS)...)
		around := url.Values{"from": {rfc3339(a.AtMS - 12*time.Hour.Milliseconds())}, "to": {rfc3339(a.AtMS + 12*time.Hour.Milliseconds())}}
		if a.AtMS > v.nowMS-scheduler.AccountHorizon.Milliseconds() && a.AtMS-12*time.Hour.Milliseconds() < v.nowMS {
			page.Links = append(page.Links, templates.Link{Text: text.Of("What became of the instants around it"), URL: s.links.account(d.ProjectID, d.TriggerID, around)})
		}
	}
	page.Links = append(page.Links, templates.Link{Text: text.Of("The Schedule"), URL: s.links.schedule(d.ProjectID, d.TriggerID)},
		templates.Link{Text: text.Of("All Runs of this Trigger"), URL: s.links.runs("project", d.ProjectID, "trigger", d.TriggerID)})
	return page
}

func noRunSentence(a asked, nowMS int64) templates.Sentence {
	switch {
	case a.at == "latest-failed":
		return templates.Sentence{Lead: text.Of("No Run of this Trigger has failed."), Rest: text.Of("None that is kept failed, timed out or was lost."), Tone: "ok"}
	case a.AtMS == 0:
		return templates.Sentence{Lead: text.Of("This Trigger has no Run yet:"), Rest: text.Of("it has not been expected to fire since it was published.")}
	case a.AtMS > nowMS:
		return templates.Sentence{Lead: text.Of("That instant is still to come."), Rest: text.Of("Its Run appears when it is admitted.")}
	case a.Instant != nil:
		return templates.Sentence{Lead: text.Of("The Trigger was expected to fire, and there is no Run."), Rest: why([]scheduler.Instant{*a.Instant}), Tone: verdictStatuses[a.Instant.Verdict].Tone}
	case a.AtMS < nowMS-scheduler.AccountHorizon.Milliseconds():
		return templates.Sentence{Lead: text.Of("No Run is kept for that instant."), Rest: text.Of("What became of an instant is known for 90 days.")}
	}
	return templates.Sentence{Lead: text.Of("The Trigger was not expected to fire at that instant."), Rest: publishedSince(a)}
}

// publishedSince says that nothing could be expected before the Trigger was there. Of what an earlier revision expected, a
// later one says nothing.
func publishedSince(a asked) text.Text {
	if a.schedule.Revision > 1 || a.AtMS >= a.schedule.PublishedAtMS {
		return text.Text{}
	}
	return text.Of("It was published only after that.")
}

// instantPairs is the line that the account has of the instant.
func (s *server) instantPairs(a asked, nowMS int64) []templates.Pair {
	list := []templates.Pair{{Name: text.Of("Instant"), Instant: instant(a.AtMS, nowMS)}}
	if plan, _ := a.schedule.Plan(); plan.Location() != time.UTC { // one that cannot be read is in UTC
		list = append(list, templates.Pair{Name: text.Of("On its clock"), Note: dated(time.UnixMilli(a.AtMS).In(plan.Location()))})
	}
	i := a.Instant
	if i == nil && !publishedSince(a).Empty() {
		return append(list, templates.Pair{Name: text.Of("Published"), Instant: instant(a.schedule.PublishedAtMS, nowMS)})
	}
	if i == nil {
		return list
	}
	became := verdictStatuses[i.Verdict]
	pair := templates.Pair{Name: text.Of("What became of it"), Note: became.Word, Tone: became.Tone}
	if i.RunID != nil {
		pair.Link = templates.Link{Text: runStatuses[run.Status(i.RunStatus)].Word, URL: s.links.run(*i.RunID)}
	}
	return append(list, pair, templates.Pair{Name: text.Of("Why"), Note: why([]scheduler.Instant{*i})})
}
