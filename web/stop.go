package web

import (
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// stop is what stopping would be for who shows a good proof, and before that the question why.
func (s *server) stop(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	m, err := s.managed(c, stopping)
	if err != nil {
		return err
	}
	return s.showStop(c, m, correction{})
}

func (s *server) showStop(c echo.Context, m managed, again correction) error {
	who, ok := s.who(c, m.acting, m.run.ID)
	if !ok {
		return s.ask(c, m, asking{again: again})
	}
	p, err := s.Runs.PreviewStop(c.Request().Context(), who, m.run.ProjectID, m.run.ID)
	if err != nil {
		return s.askAgain(c, m, err)
	}
	page := s.stopPage(c, m, p)
	page.Submit = again.in(page.Submit)
	return writeHTML(c, again.status(), templates.PreviewPage(page))
}

func (s *server) stopPage(c echo.Context, m managed, p runmgmt.StopPreview) templates.Preview {
	page := templates.Preview{
		Page: s.page(c, m.title(), "/runs", p.NowMS), Name: m.title(), Status: runStatuses[p.Source.Status],
		Proof: proof(m, p.Level, p.LeftMS), Heading: text.Of("Now"), Since: runSentences(m.run, p.NowMS), Facts: s.askFacts(m), Checks: []templates.Check{check(text.Of("The Run can be stopped."), p.Refusal)},
		Again: s.verifyAgain(m.deed, m.run.ID, p.Words), Back: s.notNow(m),
	}
	if p.Refusal == nil {
		page.Submit = templates.Form{Action: s.links.deed(m.deed, m.run.ID), Button: m.say.button, Back: s.notNow(m), Note: m.say.submits, AsksReason: true, Reason: p.Words, Fields: []templates.Field{
			{Name: "mutation", Value: uuid.NewString()}, {Name: "version", Value: strconv.FormatInt(p.Source.Version, 10)}}}
	}
	return page
}

// submitStop asks the Run to stop, or says why not.
func (s *server) submitStop(c echo.Context) error {
	m, f, err := s.submitted(c, stopping)
	if err != nil {
		return err
	}
	again, wrong := m.correct(f)
	who, _ := s.who(c, m.acting, m.run.ID)
	made, err := s.Runs.Stop(c.Request().Context(), runmgmt.Stop{Who: who, MutationID: f.mutation, ProjectID: m.run.ProjectID, RunID: m.run.ID,
		Version: f.version, Words: f.reason})
	if wrong && refusedFor(err, runmgmt.Invalid) {
		return s.showStop(c, m, again)
	}
	if err != nil {
		return s.mutationProblem(c, m, f, err)
	}
	return s.doneTo(c, m, made)
}
