package web

import (
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	pausePath  = schedulePath + "/pause"
	resumePath = schedulePath + "/resume"

	pausesShown  = 10
	resumedQuery = "resume" // says on the page that resuming led here
)

// holding is what may be done to hold the Schedule back or let it go on, and when it was held back before.
func (s *server) holding(c echo.Context, v viewer, d scheduler.Detail, plan scheduler.Plan, again correction) (h templates.Holding, err error) {
	ctx := c.Request().Context()
	if isEmbedded(c) {
		return h, nil
	}
	pauses, err := catalog.Pauses(ctx, s.DB, d.ProjectID, d.TriggerID)
	if err != nil {
		return h, err
	}
	h.History, h.Done = pastPauses(pauses, d.NowMS), resumed(c, pauses)
	decided := v.access.Decide(d.ProjectID, pausing.action)
	switch {
	case !decided.Allowed && d.PauseID != nil:
		h.Why = mayNot(pausing, decided)
		return h, nil
	case !decided.Allowed || s.Runs == nil:
		return h, nil
	case d.PauseID == nil:
		h.Pause = again.in(templates.Form{Action: s.links.hold(pausing, d.ProjectID, d.TriggerID), Button: pauseWords.button, Label: pauseWords.why, AsksReason: true,
			Note:   text.Of("Nothing of it is admitted until somebody resumes it. Runs that are going on are not touched; publishing does not end the pause."),
			Fields: []templates.Field{{Name: "mutation", Value: uuid.NewString()}}})
		return h, nil
	}
	hold, err := catalog.ReadHold(ctx, s.DB, d.ProjectID, d.TriggerID)
	if err != nil {
		return h, err
	}
	h.Resume = again.in(s.resumeForm(d.ProjectID, d.TriggerID, *d.PauseID, ""))
	h.Now, h.Once = resumptions(hold, plan)
	return h, nil
}

// resumed says what resuming came to, to who did it alone, and as long as nobody has paused it again.
func resumed(c echo.Context, pauses []catalog.Pause) text.Text {
	session, err := oidc.Current(c.Request().Context())
	if err != nil || c.QueryParam(resumedQuery) == "" || len(pauses) == 0 || pauses[0].ResumedMS == nil || pauses[0].Resumer() != session.UserID {
		return text.Text{}
	}
	if *pauses[0].CaughtUp {
		return text.Of("You resumed this Trigger. One Run is made at once, for the last instant that was missed; it stands for all of them. The account below says which Run that is.")
	}
	return text.Of("You resumed this Trigger from then on. What was missed is passed over and never runs.")
}

func (s *server) resumeForm(project, trigger string, pause uuid.UUID, reason string) templates.Form {
	return templates.Form{Action: s.links.hold(resuming, project, trigger), Button: resumeWords.button, Label: resumeWords.why, Reason: reason,
		Fields: []templates.Field{{Name: "mutation", Value: pause.String()}}}
}

// resumptions say what either way of resuming means, in numbers.
func resumptions(h catalog.Hold, plan scheduler.Plan) (now, once text.Text) {
	next := text.Text{}
	if list := plan.After(h.NowMS, 1); len(list) > 0 {
		next = text.Of("The next one is %s.", instant(list[0].At.UnixMilli(), h.NowMS).Text)
	}
	m := h.Missed
	if m.Count == 0 {
		return text.Join(text.Data(" "), text.Of("Nothing was missed."), next), text.Text{}
	}
	missed, last := count(m.Count, m.AtLeast), instant(m.LastMS, h.NowMS).Text
	if m.Count == 1 && !m.AtLeast {
		now = text.Join(text.Data(" "), text.Of("The one that was missed, of %s, is passed over and never runs.", last), next)
		return now, text.Of("One Run, at once, for the one that was missed, of %s.", last)
	}
	now = text.Join(text.Data(" "), text.Of("What was missed is passed over and never runs: %s, from %s to %s.", missed, instant(m.FirstMS, h.NowMS).Text, last), next)
	return now, text.Of("One Run, at once, for the last one, of %s; it stands for all %s that were missed.", last, missed)
}

func pastPauses(list []catalog.Pause, nowMS int64) []templates.PastPause {
	var rows []templates.PastPause
	for _, p := range list {
		if p.ResumedMS == nil || len(rows) == pausesShown {
			continue
		}
		row := templates.PastPause{At: instant(p.AtMS, nowMS), Until: instant(*p.ResumedMS, nowMS), By: visible(p.ByName), Reason: linked(p.Reason), How: text.Of("resumed from then on")}
		if p.ResumedBy != nil {
			row.To = visible(*p.ResumedBy)
		}
		if p.CaughtUp != nil && *p.CaughtUp {
			row.How = text.Of("resumed with one Run for what was missed")
		}
		rows = append(rows, row)
	}
	return rows
}

func (l links) hold(d deed, project, trigger string) string {
	return l.schedule(project, trigger) + "/" + d.path
}

// held is a Schedule that the session's user may pause and resume, as of this request, and the form they sent.
type held struct {
	acting
	project, trigger string
	form             submitted
}

func (s *server) held(c echo.Context, d deed) (h held, err error) {
	if h.acting, err = s.acting(c, d); err != nil {
		return h, err
	}
	found, err := scheduler.Get(c.Request().Context(), s.DB, h.viewer.sees(""), c.Param("project"), c.Param("trigger"))
	if err != nil {
		return h, err
	}
	h.project, h.trigger = found.ProjectID, found.TriggerID
	if err := s.mayAct(c, h.acting, aim{project: h.project, back: s.toSchedule(h)}); err != nil {
		return h, err
	}
	h.form, err = readForm(c)
	return h, err
}

func (s *server) toSchedule(h held) templates.Link {
	return templates.Link{Text: text.Of("To the Schedule"), URL: s.links.schedule(h.project, h.trigger)}
}

func (h held) who() runmgmt.Who {
	return runmgmt.Who{Actor: h.actor(), SessionID: h.session.ID}
}

// pause holds a Trigger back. One that is held already stays so, with the pause that its page then shows.
func (s *server) pause(c echo.Context) error {
	h, err := s.held(c, pausing)
	if err != nil {
		return err
	}
	_, err = s.Runs.Pause(c.Request().Context(), runmgmt.Pause{Who: h.who(), ID: h.form.mutation, ProjectID: h.project, TriggerID: h.trigger, Words: h.form.reason})
	if err != nil {
		return s.holdProblem(c, h, err)
	}
	return c.Redirect(http.StatusSeeOther, s.links.schedule(h.project, h.trigger))
}

// resume lets a Trigger go on.
func (s *server) resume(c echo.Context) error {
	h, err := s.held(c, resuming)
	if err != nil {
		return err
	}
	how := c.Request().PostForm.Get("catchup")
	if how != "now" && how != "once" {
		return s.holdAgain(c, h, badForm(text.Of("Say from where it goes on: from now on, or once for what was missed.")))
	}
	_, err = s.Runs.Resume(c.Request().Context(), runmgmt.Resume{Who: h.who(), PauseID: h.form.mutation, ProjectID: h.project, TriggerID: h.trigger,
		CatchUp: how == "once", Words: h.form.reason})
	if err != nil {
		return s.holdProblem(c, h, err)
	}
	return c.Redirect(http.StatusSeeOther, withQuery(s.links.schedule(h.project, h.trigger), url.Values{resumedQuery: {"made"}}))
}

// holdAgain shows the Schedule's page with the form as it was sent and what is wrong with it, which p says to a client
// that asks for no page.
func (s *server) holdAgain(c echo.Context, h held, p problem) error {
	p.back = s.toSchedule(h)
	if s.mediumOf(c) != asHTML {
		return p
	}
	again := correction{wrong: text.Join(text.Data(" "), p.what, h.many.notDone), reason: h.form.reason}
	found, err := s.scheduleWith(c, again)
	if err != nil {
		return err
	}
	return writeHTML(c, again.status(), found.page())
}

// holdProblem words why it was not done. A reason that is missing or too long can be written there and then.
func (s *server) holdProblem(c echo.Context, h held, err error) error {
	refusal, p, ok := s.refusedAs(c, h.many, err)
	switch {
	case !ok:
		return err
	case refusal != nil && refusal.Reason == runmgmt.NotFound:
		return scheduler.ErrNotFound
	}
	if refusal != nil && refusal.Reason == runmgmt.Invalid && h.form.mutation != uuid.Nil {
		return s.holdAgain(c, h, p)
	}
	p.back = s.toSchedule(h)
	return p
}
