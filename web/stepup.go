package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const stepUpTestPath = "/account/step-up-test"

// stepUpCallback takes the provider's answer to a step-up, and leads to the preview. Nothing runs by itself.
func (s *server) stepUpCallback(c echo.Context) error {
	r := c.Request()
	session, err := oidc.Current(r.Context())
	if err != nil {
		return err
	}
	stepped, err := s.StepUp.Callback(r.Context(), c.Response(), s.Identity.Cookies.Binder(r), r.URL.Query(), session, s.client(c))
	if err != nil {
		return s.stepUpProblem(c, err, templates.Form{})
	}
	if stepped.Test != nil {
		return writeHTML(c, http.StatusOK, templates.ReportPage(s.reportPage(c, session, *stepped.Test)))
	}
	there, ok := s.links.route(stepped.Route)
	if !ok {
		there = s.links.url("/", nil)
	}
	return c.Redirect(http.StatusSeeOther, there)
}

// stepUpKinds are those of what is not worded like a sign-in.
var stepUpKinds = map[oidc.Kind]heading{
	oidc.UnknownState: {http.StatusBadRequest, text.Of("This verification is not known here")},
	oidc.Expired:      {http.StatusBadRequest, text.Of("The verification took too long")},
	oidc.WrongNonce:   {http.StatusBadRequest, text.Of("The answer is another verification’s")},
	oidc.Cancelled:    {http.StatusForbidden, text.Of("The verification was cancelled")},
	oidc.SessionEnded: {http.StatusForbidden, text.Of("Your session has changed")},
	oidc.WrongSubject: {http.StatusForbidden, text.Of("Somebody else verified")},
	oidc.TooWeak:      {http.StatusForbidden, text.Of("The verification was too weak")},
	oidc.Unreadable:   {http.StatusForbidden, text.Of("The provider’s answer cannot be judged")},
	oidc.NoAuthTime:   {http.StatusForbidden, text.Of("The provider does not say when")},
	oidc.TooOld:       {http.StatusForbidden, text.Of("The verification is too old")},
	oidc.NotNew:       {http.StatusForbidden, text.Of("This is no new verification")},
}

// again are the kinds for which the one next step is to verify again.
var again = map[oidc.Kind]text.Text{
	oidc.Expired: text.Of("Verify again; there are ten minutes for it."), oidc.Cancelled: text.Of("Verify again when you want to; your reason is kept."),
	oidc.ProviderError: text.Of("Verify again. If it happens again, tell your administrator the diagnostic id."), oidc.WrongNonce: text.Of("Verify again."),
	oidc.WrongIssuer:  text.Of("Verify again. If it happens again, tell your administrator the diagnostic id."),
	oidc.UnknownState: text.Of("Open the Run, and begin again there."), oidc.AlreadyUsed: text.Of("Go on to the page you were going to."),
	oidc.ProviderUnavailable: text.Of("Verify again in a minute."),
}

// stepUpProblem words a refusal: what was found, that nothing was done, and the one next step with the reason kept.
func (s *server) stepUpProblem(c echo.Context, err error, form templates.Form) error {
	refusal, ok := errors.AsType[*oidc.Refusal](err)
	if !ok {
		return err
	}
	p := refused(refusal)
	p.notDone = text.Of("Nothing was run, and your session is as it was.")
	if known, ok := stepUpKinds[refusal.Kind]; ok {
		p.status, p.title = known.status, known.title
	}
	if next, ok := again[refusal.Kind]; ok {
		p.next = next
	}
	p.form = form
	if refusal.Route == nil {
		return p
	}
	if there, ok := s.links.route(*refusal.Route); ok {
		p.back = templates.Link{Text: text.Of("Go on"), URL: there}
	}
	if p.form.Action == "" && refusal.Kind != oidc.AlreadyUsed {
		p.form = s.verifyRoute(*refusal.Route, refusal.Words)
	}
	return p
}

// verifyRoute verifies again for the page that a step-up was to lead to.
func (s *server) verifyRoute(r oidc.Route, reason string) templates.Form {
	if r.Name == stepUpTestName {
		return s.testForm()
	}
	id, err := uuid.Parse(r.IDs["id"])
	if err != nil {
		return templates.Form{}
	}
	if r.Name == submissionName {
		return s.verifyBatchAgain(id, r.Query.Get("only"))
	}
	if d, ok := deedOf(r.Name); ok {
		return s.verifyAgain(d, id, reason)
	}
	return templates.Form{}
}

const stepUpTestName = "step-up-test"

func (s *server) testForm() templates.Form {
	return templates.Form{Action: s.links.url(stepUpTestPath, nil), Button: text.Of("Run the test")}
}

// stepUpTest is the page of the test, which never makes a proof.
func (s *server) stepUpTest(c echo.Context) error {
	if _, err := s.viewer(c); err != nil {
		return err
	}
	if s.StepUp == nil {
		return newProblem(http.StatusServiceUnavailable, text.Of("No step-up"), text.Of("This replica has no step-up configured."), nothing, text.Of("Configure one: see docs/configuration.md."), nil)
	}
	page := templates.Report{Page: s.page(c, text.Of("Step-up test"), "", 0), Form: s.testForm(),
		Sentences: []templates.Sentence{{Lead: text.Of("Verify once, and see what the provider really sends,"), Rest: text.Of("rule by rule. No proof is made of it, and nothing can be done with it.")}}}
	if err := s.StepUp.Status(); err != nil {
		page.Sentences = append(page.Sentences, templates.Sentence{Lead: text.Of("The identity provider cannot be reached at present."), Tone: "warn"})
	}
	return writeHTML(c, http.StatusOK, templates.ReportPage(page))
}

func (s *server) startStepUpTest(c echo.Context) error {
	if _, err := s.viewer(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	session, err := oidc.Current(ctx)
	if err != nil {
		return err
	}
	there, err := s.StepUp.Start(ctx, s.Identity.Cookies.EnsureBinder(c.Response(), c.Request()), oidc.Ask{Session: session, Client: s.client(c), Route: oidc.Route{Name: stepUpTestName}})
	if err != nil {
		return s.stepUpProblem(c, err, s.testForm())
	}
	return s.goOn(c, there)
}

func (s *server) reportPage(c echo.Context, session oidc.Session, r oidc.Report) templates.Report {
	page := templates.Report{Page: s.page(c, text.Of("Step-up test"), "", session.NowMS), Form: s.testForm(), Sentences: reportSentences(r),
		Pairs: []templates.Pair{{Name: text.Of("Issuer"), Mono: visible(r.Issuer)}, {Name: text.Of("Client"), Mono: visible(r.ClientID)},
			sent("acr", r.ACR), sent("amr", strings.Join(r.AMR, ", ")), sent("acrs", strings.Join(r.ACRS, ", "))}}
	authTime := sent("auth_time", "")
	if r.AuthTimeS > 0 {
		authTime = templates.Pair{Name: authTime.Name, Instant: instant(r.AuthTimeS*1000, session.NowMS)}
	}
	page.Pairs = append(page.Pairs, authTime)
	for _, rule := range r.Rules {
		page.Rules = append(page.Rules, templates.Check{Status: met(rule.Met), What: rule.Rule.Map(visible)})
	}
	return page
}

func reportSentences(r oidc.Report) []templates.Sentence {
	if r.Problem != nil {
		return []templates.Sentence{{Lead: text.Of("This would have been refused."), Rest: text.Join(text.Data(" "), r.Problem.Found.Map(visible), r.Problem.Next), Tone: "bad"}}
	}
	return []templates.Sentence{{Lead: text.Of("This would have been a proof,"), Rest: text.Of("by %s.", levels[r.Level]), Tone: "ok"}}
}

// sent is a claim as the provider sent it.
func sent(claim, value string) templates.Pair {
	if value == "" {
		return templates.Pair{Name: text.Data(claim), Note: text.Of("not sent")}
	}
	return templates.Pair{Name: text.Data(claim), Mono: shorten(visible(value), 300)}
}

func met(ok bool) templates.Status {
	if ok {
		return templates.Status{Word: text.Of("met"), Shape: "disc", Tone: "ok"}
	}
	return templates.Status{Word: text.Of("not met"), Shape: "ring", Tone: "idle"}
}

// levels are how strong a proof is, in words.
var levels = map[string]text.Text{"multi_factor": text.Of("two factors"), "hardware": text.Of("a hardware key")}
