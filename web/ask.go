package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/web/templates"
)

// asking is what the page before a verification says beside the Run itself.
type asking struct {
	found  string // why a verification that was there is no good
	reason string // kept
}

// ask is the page before a verification: what it is for, and how long it is good. It shows nothing of what would run.
func (s *server) ask(c echo.Context, m managed, a asking) error {
	ctx := c.Request().Context()
	aim, err := s.Runs.Aim(ctx, m.action, m.run.ProjectID, m.run.ID)
	if err != nil {
		return s.mutationProblem(c, m, submitted{}, err)
	}
	family, err := run.Family(ctx, s.DB, m.viewer.sees(""), m.run.ID)
	if err != nil {
		return err
	}
	page := templates.Ask{
		Page: s.page(c, m.title(visible(m.run.TaskName)), "Runs", m.viewer.nowMS), Name: m.title(visible(m.run.TaskName)), Status: runStatuses[m.run.Status],
		Found: sentence(a.found), Sentences: consequences(m.deed), Note: visible(aim.Note.Note), Pairs: s.askFacts(m), Verify: verification(m.deed),
		Family: s.family(family, m.run.ID, m.viewer.nowMS), Back: s.backToRun(m),
		Form: templates.Form{Action: s.links.verify(m.deed, m.run.ID), Button: "Verify, then look at it", AsksReason: true, Reason: a.reason,
			Label: "Why is this Run " + m.done + "? It is kept in the audit, and on the Run."},
	}
	if s.StepUp.Status() != nil {
		page.Warning = "The identity provider cannot be reached at present, so verifying may fail. Nothing else waits for it."
	}
	if aim.Never != nil {
		page.Form, page.Sentences = templates.Form{}, []templates.Sentence{{Lead: "This Run cannot be " + m.done + ":", Rest: visible(aim.Never.Detail) + ".", Tone: "bad"}}
	}
	return writeHTML(c, http.StatusOK, templates.AskPage(page))
}

func consequences(d deed) []templates.Sentence {
	if d == stopping {
		return []templates.Sentence{{Lead: "Stopping asks whoever executes this Run to end it.", Rest: "What it has done until then is not undone."}}
	}
	return []templates.Sentence{{Lead: "A retry runs the same command again,", Rest: "as a new Run, and repeats whatever it does: mails are sent and bills are written a second time. This Run itself does not change."}}
}

func verification(d deed) []templates.Pair {
	return []templates.Pair{
		{Name: "Asks for", Note: "A fresh sign-in with a second factor, at the identity provider, although you are signed in here."},
		{Name: "Why", Note: "A session may be hours old, or somebody else's hands; " + d.doing + " must be you, now."},
		{Name: "Good for", Note: "This Run as it is now and " + d.doing + " it, once, within five minutes."},
		{Name: "Then", Note: "You come back here and see what would be done. Nothing is done before you submit it."},
	}
}

func (s *server) askFacts(m managed) []templates.Pair {
	list := []templates.Pair{
		{Name: "Run", Link: templates.Link{Text: m.run.ID.String(), URL: s.links.run(m.run.ID)}},
		{Name: "Created", Instant: instant(m.run.CreatedAtMS, m.viewer.nowMS)},
	}
	if m.run.FinishedAtMS != nil {
		list = append(list, templates.Pair{Name: "Finished", Instant: instant(*m.run.FinishedAtMS, m.viewer.nowMS)})
	}
	if why := runReason(m.run.Summary); why != "" {
		list = append(list, templates.Pair{Name: "Ended with", Note: shorten(why, listText)})
	}
	return append(list, templates.Pair{Name: "Project", Link: templates.Link{Text: m.run.ProjectID, URL: s.links.runs("project", m.run.ProjectID)}})
}

// verify starts the step-up. It answers with a page that goes on by itself, as signing in does.
func (s *server) verify(d deed) echo.HandlerFunc {
	return func(c echo.Context) error {
		m, err := s.managed(c, d)
		if err != nil {
			return err
		}
		f, err := readForm(c)
		if err == nil {
			err = checkReason(m, f.reason)
		}
		if err != nil {
			return err
		}
		ctx := c.Request().Context()
		aim, err := s.Runs.Aim(ctx, d.action, m.run.ProjectID, m.run.ID)
		if err != nil {
			return s.mutationProblem(c, m, f, err)
		}
		if aim.Never != nil {
			return s.neverAudited(c, m, f, aim.Never)
		}
		there, err := s.StepUp.Start(ctx, s.Identity.Cookies.EnsureBinder(c.Response(), c.Request()), oidc.Ask{Session: m.session, Purpose: aim.Purpose,
			Words: f.reason, Client: m.client, Route: oidc.Route{Name: d.path, IDs: map[string]string{"id": m.run.ID.String()}}})
		if err != nil {
			return s.stepUpProblem(c, err, s.verifyAgain(d, m.run.ID, f.reason))
		}
		return s.goOn(c, there)
	}
}

// neverAudited refuses what no verification would make possible.
func (s *server) neverAudited(c echo.Context, m managed, f submitted, never *runmgmt.Refusal) error {
	err := policy.WriteAudit(c.Request().Context(), s.DB, policy.AuditEvent{Action: string(m.action), Outcome: policy.Denied, Reason: policy.Reason(never.Reason),
		Actor: m.actor(), ProjectID: m.run.ProjectID, RunID: &m.run.ID, RunVersion: m.run.Version, Words: f.reason, Detail: map[string]any{"found": never.Detail}})
	if err != nil {
		return err
	}
	return s.mutationProblem(c, m, f, never)
}
