package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/messages"
	"github.com/qinglong/console/web/templates"
)

const (
	preferencesPath = "/preferences"
	languageCookie  = "language"
	themeCookie     = "theme"
	preferenceTime  = 400 * 24 * time.Hour // browsers keep no cookie longer
)

// themes by what the cookie says; the first, which has no cookie, is the system's.
var themes = []struct {
	value string
	text  text.Text
}{{"system", text.Of("System")}, {"light", text.Of("Light")}, {"dark", text.Of("Dark")}}

// speak finds the reader's language: the one they chose, or the one their browser asks for.
func (s *server) speak(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		l := messages.Choose(s.Identity.Cookies.Read(r, languageCookie), r.Header.Get("Accept-Language"))
		c.SetRequest(r.WithContext(messages.In(r.Context(), l)))
		return next(c)
	}
}

// theme is the one the reader chose, "" when they did not.
func (s *server) theme(c echo.Context) string {
	theme := s.Identity.Cookies.Read(c.Request(), themeCookie)
	if theme == "light" || theme == "dark" {
		return theme
	}
	return ""
}

// preferences are what a reader may choose about every page, on the page c asks for, to which the choice leads back.
func (s *server) preferences(c echo.Context) templates.Preferences {
	p := templates.Preferences{Action: s.links.url(preferencesPath, nil)}
	if going, ok := s.goingTo(c); ok {
		p.To = encodeRoute(going)
	}
	spoken := messages.From(c.Request().Context())
	for _, l := range messages.All() {
		p.Languages = append(p.Languages, templates.Option{Value: l.Tag, Text: text.Data(l.Name), Selected: l.Tag == spoken.Tag})
	}
	chosen := s.theme(c)
	for _, t := range themes {
		p.Themes = append(p.Themes, templates.Option{Value: t.value, Text: t.text, Selected: t.value == chosen || t.value == "system" && chosen == ""})
	}
	return p
}

// prefer keeps what the reader chose in their browser, and leads back to where they were.
func (s *server) prefer(c echo.Context) error {
	f, err := c.FormParams()
	if err != nil {
		return badForm(text.Of("The form is not well formed."))
	}
	language, theme, cookies := f.Get("language"), f.Get("theme"), s.Identity.Cookies
	switch {
	case slices.ContainsFunc(messages.All(), func(l messages.Language) bool { return l.Tag == language }):
		cookies.WriteFor(c.Response(), languageCookie, language, preferenceTime)
	case theme == "light" || theme == "dark":
		cookies.WriteFor(c.Response(), themeCookie, theme, preferenceTime)
	case theme == "system":
		cookies.Write(c.Response(), themeCookie, "")
	default:
		return badForm(text.Of("The form names no language and no theme that there is."))
	}
	there, ok := s.links.route(decodeRoute(f.Get("to")))
	if !ok {
		there = s.links.url("/", nil)
	}
	return c.Redirect(http.StatusSeeOther, there)
}
