package web

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// The paths, below the public URL, that an identity provider is told.
const (
	CallbackPath    = "/auth/callback"
	SignedOutPath   = "/auth/signed-out" // where the provider leads back to once it has signed somebody out
	BackChannelPath = "/auth/backchannel-logout"
	StepUpPath      = "/auth/step-up" // the callback of a step-up
)

const signInPath = "/auth/sign-in"

// ownSignIn reports whether people sign in here, and not at a proxy in front.
func (s *server) ownSignIn() bool { return s.Identity.SignIn != nil && !s.Identity.Proxy.Enforced() }

// signIn is the page that leads to the identity provider. It needs no cookie, and nothing begins before its button.
func (s *server) signIn(c echo.Context) error {
	page := templates.Notice{Page: s.page(c, text.Of("Sign in"), "", 0)}
	session, err := oidc.Current(c.Request().Context())
	switch {
	case err == nil:
		page.Sentences = []templates.Sentence{{Lead: text.Of("You are signed in"), Rest: text.Of("as %s.", userName(session))}}
		page.Links = []templates.Link{{Text: text.Of("Go on"), URL: s.links.url("/", nil)}}
	case !s.ownSignIn():
		page.Sentences = []templates.Sentence{{Lead: text.Of("People sign in at the proxy"), Rest: text.Of("in front of this console.")}}
		page.Links = []templates.Link{{Text: text.Of("Open the console"), URL: s.links.url("/", nil)}}
	default:
		s.offerSignIn(c, &page)
	}
	return writeHTML(c, http.StatusOK, templates.NoticePage(page))
}

func (s *server) offerSignIn(c echo.Context, page *templates.Notice) {
	page.Sentences = []templates.Sentence{{Lead: text.Of("To see what runs,"), Rest: text.Of("sign in at your identity provider.")}}
	if why := endedWords[endedReason(c.Request().Context())]; !why.Empty() {
		page.Sentences = []templates.Sentence{{Lead: why, Rest: text.Of("Sign in to go on.")}}
	}
	page.Action, page.Button = s.links.url(signInPath, nil), text.Of("Sign in")
	page.Pairs = []templates.Pair{{Name: text.Of("Identity provider"), Mono: s.Identity.Provider.Issuer()}}
	if going := s.rememberedRoute(c); going.Name != "" {
		there, _ := s.links.route(going)
		page.Pairs = append(page.Pairs, templates.Pair{Name: text.Of("Then"), Mono: there})
	}
	if s.Identity.Provider.Status() != nil {
		page.Warning = text.Of("The identity provider cannot be reached at present, so signing in may fail. Everything scheduled goes on, and so do sessions that exist.")
	}
}

// startSignIn begins a sign-in for a window. It answers with a page that goes on by itself, because browsers hold every
// redirect that follows a form to the page's form-action, and providers redirect on.
func (s *server) startSignIn(c echo.Context) error {
	if !isTop(c.Request()) {
		return foreignForm(errors.New("a sign-in was started by what is no window"))
	}
	binder := s.Identity.Cookies.EnsureBinder(c.Response(), c.Request())
	there, err := s.Identity.SignIn.Start(c.Request().Context(), binder, s.rememberedRoute(c), s.client(c))
	if err != nil {
		return s.signInProblem(c, err)
	}
	return s.goOn(c, there)
}

// goOn leads to the identity provider. The address holds what only this browser may know for the next minutes.
func (s *server) goOn(c echo.Context, there string) error {
	page := templates.Notice{Page: s.page(c, text.Of("Going on to the identity provider"), "", 0),
		Sentences: []templates.Sentence{{Lead: text.Of("Going on"), Rest: text.Of("to the identity provider.")}}, Links: []templates.Link{{Text: text.Of("Go on"), URL: there}}}
	page.Refresh = there
	var html bytes.Buffer
	if _, err := render(c, templates.NoticePage(page), &html, false); err != nil {
		return err
	}
	return c.HTMLBlob(http.StatusOK, html.Bytes())
}

// callback takes the provider's answer and leads to where the user was going.
func (s *server) callback(c echo.Context) error {
	r := c.Request()
	outcome, err := s.Identity.SignIn.Callback(r.Context(), c.Response(), s.Identity.Cookies.Binder(r), r.URL.Query(), s.client(c))
	if err != nil {
		return s.signInProblem(c, err)
	}
	s.rememberRoute(c, oidc.Route{})
	there, ok := s.links.route(outcome.Route)
	if !ok { // another version of this console kept it
		there = s.links.url("/", nil)
	}
	return c.Redirect(http.StatusSeeOther, there)
}

// signInProblem words a refusal, and keeps where its user was going for the next try.
func (s *server) signInProblem(c echo.Context, err error) error {
	refusal, ok := errors.AsType[*oidc.Refusal](err)
	if !ok {
		return err
	}
	p := refused(refusal)
	p.back = templates.Link{Text: text.Of("To the sign-in page"), URL: s.links.url(signInPath, nil)}
	if refusal.Route == nil {
		return p
	}
	s.rememberRoute(c, *refusal.Route)
	there, known := s.links.route(*refusal.Route)
	if _, err := oidc.Current(c.Request().Context()); err == nil && known {
		p.back = templates.Link{Text: text.Of("Go on"), URL: there}
	}
	return p
}
