package web

import (
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// asking is what the page before a verification says beside the Run itself.
type asking struct {
	found  text.Text // why a verification that was there is no good
	reason string    // kept
	again  correction
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
		Page: s.page(c, m.title(), "/runs", m.viewer.nowMS), Name: m.title(), Status: runStatuses[m.run.Status],
		Found: a.found.Map(visible), Sentences: []templates.Sentence{m.say.consequence}, Author: authorSays(aim.Note), Pairs: s.askFacts(m), Verify: verification(m.say),
		Family: s.family(family, m.run.ID, m.viewer.nowMS), Back: s.backToRun(m),
		Form: a.again.in(templates.Form{Back: s.backToRun(m), Action: s.links.verify(m.deed, m.run.ID), Button: text.Of("Verify, then look at it"), AsksReason: true, Reason: a.reason,
			Label: m.say.why}),
	}
	if s.StepUp.Status() != nil {
		page.Warning = providerAway
	}
	if aim.Never != nil {
		page.Form, page.Sentences = templates.Form{}, []templates.Sentence{{Lead: m.say.never, Rest: aim.Never.Detail.Map(visible), Tone: "bad"}}
	}
	return writeHTML(c, a.again.status(), templates.AskPage(page))
}

var providerAway = text.Of("The identity provider cannot be reached at present, so verifying may fail. Nothing else waits for it.")

func verification(say deedWords) []templates.Pair {
	return []templates.Pair{
		{Name: text.Of("Asks for"), Note: text.Of("A fresh sign-in with a second factor, at the identity provider, although you are signed in here.")},
		{Name: text.Of("Why"), Note: say.whyVerify},
		{Name: text.Of("Good for"), Note: say.goodFor},
		{Name: text.Of("Then"), Note: text.Of("You come back here and see what would be done. Nothing is done before you submit it.")},
	}
}

func (s *server) askFacts(m managed) []templates.Pair {
	list := []templates.Pair{
		{Name: text.Of("Run"), Link: templates.Link{Text: text.Data(m.run.ID.String()), URL: s.links.run(m.run.ID)}},
		{Name: text.Of("Created"), Instant: instant(m.run.CreatedAtMS, m.viewer.nowMS)},
	}
	if m.run.FinishedAtMS != nil {
		list = append(list, templates.Pair{Name: text.Of("Finished"), Instant: instant(*m.run.FinishedAtMS, m.viewer.nowMS)})
	}
	if why := runReason(m.run.Summary); !why.Empty() {
		list = append(list, templates.Pair{Name: text.Of("Ended with"), Note: why.Map(brief)})
	}
	return append(list, templates.Pair{Name: text.Of("Project"), Link: templates.Link{Text: text.Data(m.run.ProjectID), URL: s.links.runs("project", m.run.ProjectID)}})
}

// verify starts the step-up. It answers with a page that goes on by itself, as signing in does.
func (s *server) verify(d deed) echo.HandlerFunc {
	return func(c echo.Context) error {
		m, err := s.managed(c, d)
		if err != nil {
			return err
		}
		f, err := readForm(c)
		if err != nil {
			return err
		}
		if again, ok := m.correct(f); ok {
			return s.ask(c, m, asking{again: again})
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
		Actor: m.actor(), ProjectID: m.run.ProjectID, RunID: &m.run.ID, RunVersion: m.run.Version, Words: f.reason, Detail: map[string]any{"found": never.Detail.String()}})
	if err != nil {
		return err
	}
	return s.mutationProblem(c, m, f, never)
}
