package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	signOutPath           = "/auth/sign-out"
	signOutEverywherePath = "/auth/sign-out-everywhere"
)

func (s *server) signOut(c echo.Context) error {
	return s.end(c, s.Identity.Sessions.SignOut, templates.Sentence{Lead: text.Of("You are signed out"), Rest: text.Of("of this console, in this browser.")})
}

func (s *server) signOutEverywhere(c echo.Context) error {
	return s.end(c, s.Identity.Sessions.SignOutEverywhere, templates.Sentence{Lead: text.Of("You are signed out"), Rest: text.Of("of this console, in every browser.")})
}

// end ends the session, or more, and offers the provider's own way out.
func (s *server) end(c echo.Context, end func(context.Context, http.ResponseWriter, oidc.Client) error, say templates.Sentence) error {
	ctx := c.Request().Context()
	session, _ := oidc.Current(ctx) // the zero Session is of no provider
	if err := end(ctx, c.Response(), s.client(c)); err != nil {
		return err
	}
	page := s.signedOutPage(c)
	page.Sentences = []templates.Sentence{say}
	if s.Identity.Provider != nil {
		if there := s.Identity.Provider.EndSessionURL(session, s.publicURL(s.links.url(SignedOutPath, nil))); there != "" {
			page.Sentences = append(page.Sentences, templates.Sentence{Lead: text.Of("The identity provider"), Rest: text.Of("still knows you, and signs you in again without asking.")})
			page.Links = append(page.Links, templates.Link{Text: text.Of("Sign out at the identity provider too"), URL: there})
		}
	}
	return writeHTML(c, http.StatusOK, templates.NoticePage(page))
}

// signedOut is where an identity provider leads back to.
func (s *server) signedOut(c echo.Context) error {
	page := s.signedOutPage(c)
	page.Sentences = []templates.Sentence{{Lead: text.Of("You are signed out.")}}
	if session, err := oidc.Current(c.Request().Context()); err == nil {
		page.Page = s.page(c, text.Of("Signed in"), "", 0)
		page.Sentences = []templates.Sentence{{Lead: text.Of("You are still signed in"), Rest: text.Of("to this console, as %s.", userName(session))}}
	}
	return writeHTML(c, http.StatusOK, templates.NoticePage(page))
}

func (s *server) signedOutPage(c echo.Context) templates.Notice {
	page := templates.Notice{Page: s.page(c, text.Of("Signed out"), "", 0), Links: []templates.Link{{Text: text.Of("Open the console"), URL: s.links.url("/", nil)}}}
	page.Who, page.Nav = templates.Who{}, nil // whoever the request began as
	if s.Identity.Proxy.Enforced() {
		page.Warning = text.Of("The sign-in proxy in front of the console signs you in again when you open it. To prevent that, sign out there.")
	}
	return page
}

// A logoutAnswer is what a failed logout is answered with (Back-Channel Logout 1.0, section 2.8).
type logoutAnswer struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// backChannel ends sessions because the identity provider says so.
func (s *server) backChannel(c echo.Context) error {
	r := c.Request()
	if err := r.ParseForm(); err != nil {
		return writeJSON(c, http.StatusBadRequest, echo.MIMEApplicationJSON, logoutAnswer{"invalid_request", "The form cannot be read."})
	}
	_, err := s.Identity.BackChannel.Logout(r.Context(), r.PostForm, s.client(c))
	if err == nil {
		return c.NoContent(http.StatusOK)
	}
	if refusal, ok := errors.AsType[*oidc.Refusal](err); ok {
		return writeJSON(c, http.StatusBadRequest, echo.MIMEApplicationJSON, logoutAnswer{"invalid_request", refusal.Found.String()})
	}
	s.logProblem(c, s.problemOf(err), err)
	return writeJSON(c, http.StatusBadRequest, echo.MIMEApplicationJSON, logoutAnswer{"temporarily_unavailable", "The sessions could not be ended now."})
}
