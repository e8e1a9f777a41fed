package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// problem is an error worded for the reader: what happened, what was not done, and the next step. What the log says is
// the error it came from.
type problem struct {
	status  int
	title   text.Text
	what    text.Text
	notDone text.Text
	next    text.Text
	cause   error

	// What only some have.
	kind       string // a stable word
	diagnostic string // names the log line and the audit row
	pairs      []templates.Pair
	command    string         // to be copied
	back       templates.Link // the overview, if not set
	retryAfter time.Duration
	form       templates.Form // that may be sent next
	field      string         // of a filter that it is about, if it is about one
}

func newProblem(status int, title, what, notDone, next text.Text, cause error) problem {
	return problem{status: status, title: title, what: what, notDone: notDone, next: next, cause: cause}
}

func (p problem) Error() string { return p.title.String() + ": " + p.what.String() }
func (p problem) Unwrap() error { return p.cause }

const unavailableFor = 5 * time.Second

var nothing = text.Of("Nothing was changed.")

// badQuery is a filter, a cursor or a query string that cannot be understood.
func badQuery(what text.Text) problem {
	return newProblem(http.StatusBadRequest, text.Of("Bad request"), what, text.Of("Nothing was looked up."),
		text.Of("Correct the address, or begin again from the list without filters."), nil)
}

// badField is a field of a filter that cannot be understood.
func badField(name string, what text.Text) problem {
	p := badQuery(what)
	p.field = name
	return p
}

func wrongHost(right string) problem {
	return newProblem(http.StatusMisdirectedRequest, text.Of("Wrong host name"), text.Of("This console does not answer under the name in the address bar."),
		text.Of("Nothing was looked up or changed."), text.Of("Open %s instead.", right), nil)
}

func foreignForm(cause error) problem {
	return newProblem(http.StatusForbidden, text.Of("Sent from elsewhere"), text.Of("A page of another site made your browser send this."), nothing,
		text.Of("Open the console yourself, and do it there."), cause)
}

func tooOften(wait time.Duration) problem {
	p := newProblem(http.StatusTooManyRequests, text.Of("Too often"), text.Of("Signing in was tried too often from here in a short time."), nothing,
		text.Of("Try again in %s.", duration(roundUp(wait).Milliseconds())), nil)
	p.retryAfter = roundUp(wait)
	return p
}

// roundUp rounds to whole seconds, which is all that a header can say.
func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// problemOf words err. What it does not know is a bare 500.
func (s *server) problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	if ended, ok := errors.AsType[*oidc.Ended](err); ok {
		return s.signedOutProblem(ended)
	}
	if refusal, ok := errors.AsType[*oidc.Refusal](err); ok {
		return refused(refusal)
	}
	switch {
	case errors.Is(err, run.ErrNotFound):
		return newProblem(http.StatusNotFound, text.Of("No such Run"), text.Of("There is no Run with this id in the Projects you may see."),
			nothing, text.Of("Check the id, or look for the Run in the list."), err)
	case errors.Is(err, scheduler.ErrNotFound):
		return newProblem(http.StatusNotFound, text.Of("No such Schedule"), text.Of("There is no Trigger with this name in the Projects you may see."),
			nothing, text.Of("Check the name, or look for it among the Schedules."), err)
	case pg.Unavailable(err), errors.Is(err, context.Canceled):
		p := newProblem(http.StatusServiceUnavailable, text.Of("Database unavailable"),
			text.Of("The console cannot reach its database, or got no answer in time. Replicas that can reach it go on admitting Runs."),
			text.Of("This page could not be read. Nothing was changed."), text.Of("Try again in a moment. If it lasts, see whether the database is up."), err)
		p.retryAfter = unavailableFor
		return p
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return problemOfRouter(e)
	}
	return newProblem(http.StatusInternalServerError, text.Of("Something went wrong"), text.Of("The console failed to make this page. The reason is in its log."),
		nothing, text.Of("Try again. If it fails again, report the request id below."), err)
}

func problemOfRouter(e *echo.HTTPError) problem {
	switch e.Code {
	case http.StatusNotFound:
		return newProblem(e.Code, text.Of("Not found"), text.Of("There is no page at this address."), nothing, text.Of("Check the address, or begin at the overview."), e)
	case http.StatusMethodNotAllowed:
		return newProblem(e.Code, text.Of("Method not allowed"), text.Of("This address does not take this kind of request."), nothing, text.Of("Open it as a page, with GET."), e)
	case http.StatusRequestEntityTooLarge:
		return newProblem(e.Code, text.Of("Request too large"), text.Of("What was sent is larger than the console takes."), nothing, text.Of("Send less."), e)
	case http.StatusUnsupportedMediaType:
		return newProblem(e.Code, text.Of("Not a form"), text.Of("This address takes forms, as a browser's page sends them, and nothing else."), nothing,
			text.Of("Open the console in a browser, and do it there."), e)
	}
	return newProblem(e.Code, text.Data(http.StatusText(e.Code)), text.Of("The request was refused."), nothing, text.Of("Begin at the overview."), e)
}

// heading is the status and the title of a page that refuses.
type heading struct {
	status int
	title  text.Text
}

// refusals are those of each kind of refusal. None is the console's failure.
var refusals = map[oidc.Kind]heading{
	oidc.UnknownState:        {http.StatusBadRequest, text.Of("This sign-in is not known here")},
	oidc.AlreadyUsed:         {http.StatusBadRequest, text.Of("This answer was used before")},
	oidc.Expired:             {http.StatusBadRequest, text.Of("The sign-in took too long")},
	oidc.Cancelled:           {http.StatusForbidden, text.Of("The sign-in was cancelled")},
	oidc.ProviderError:       {http.StatusBadRequest, text.Of("The identity provider refused")},
	oidc.ProviderUnavailable: {http.StatusServiceUnavailable, text.Of("The identity provider cannot be reached")},
	oidc.WrongIssuer:         {http.StatusBadRequest, text.Of("The answer is another provider's")},
	oidc.BadToken:            {http.StatusUnauthorized, text.Of("Who you are could not be verified")},
	oidc.WrongNonce:          {http.StatusBadRequest, text.Of("The answer is another sign-in's")},
	oidc.Disabled:            {http.StatusForbidden, text.Of("This account is disabled")},
	oidc.NoIdentity:          {http.StatusUnauthorized, text.Of("Nobody is signed in")},
	oidc.AmbiguousIdentity:   {http.StatusBadRequest, text.Of("The proxy names several users")},
}

// refused words a refusal of internal/oidc.
func refused(r *oidc.Refusal) problem {
	known, ok := refusals[r.Kind]
	if !ok {
		known.status, known.title = http.StatusBadRequest, text.Of("Refused")
	}
	p := newProblem(known.status, known.title, r.Found.Map(visible), text.Of("No session was begun. Nothing was changed."), r.Next, r)
	p.kind, p.diagnostic = string(r.Kind), r.Diagnostic
	p.pairs = []templates.Pair{{Name: text.Of("Kind"), Mono: p.kind}}
	if p.diagnostic != "" {
		p.pairs = append(p.pairs, templates.Pair{Name: text.Of("Diagnostic"), Mono: p.diagnostic})
	}
	if p.status == http.StatusServiceUnavailable {
		p.retryAfter = 30 * time.Second
	}
	return p
}

// fail is where an error becomes a status, a page and a log line. Only here.
func (s *server) fail(err error, c echo.Context) {
	p := s.problemOf(err)
	s.logProblem(c, p, err)
	if c.Response().Committed {
		return
	}
	if p.status == http.StatusServiceUnavailable && p.form.Action == "" && p.kind == "" {
		if p.form = s.resend(c); p.form.Action != "" {
			p.notDone, p.next = nothing, text.Of("Send the same form again in a moment: it is carried out once at most.")
		}
	}
	if p.retryAfter > 0 {
		setRetryAfter(c, p.retryAfter)
	}
	if err := s.writeProblem(c, p); err != nil {
		s.Log.ErrorContext(c.Request().Context(), "error page failed", "request", requestID(c), "err", err)
	}
}

// logProblem names the route's pattern, never the query: what people typed is not the log's business, and what a reader
// is told may quote it.
func (s *server) logProblem(c echo.Context, p problem, err error) {
	level := slog.LevelDebug
	switch {
	case errors.Is(err, context.Canceled): // the client left
	case p.status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case p.status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	if _, worded := errors.AsType[problem](err); worded {
		if err = p.cause; err == nil {
			err = errors.New(p.title.String())
		}
	}
	s.Log.Log(c.Request().Context(), level, "request failed", "method", c.Request().Method, "route", c.Path(), "status", p.status,
		"request", requestID(c), "err", err)
}

func setRetryAfter(c echo.Context, d time.Duration) {
	c.Response().Header().Set("Retry-After", strconv.Itoa(int(d/time.Second)))
}

func (s *server) writeProblem(c echo.Context, p problem) error {
	if s.wantsJSON(c) || p.status == http.StatusUnauthorized && !asksByName(c.Request().Header, htmlType) {
		return writeJSON(c, p.status, problemType, problemDetails{Type: "about:blank", Title: p.title.String(), Status: p.status,
			Detail: p.what.String() + " " + p.next.String(), Kind: p.kind, Diagnostic: p.diagnostic, RequestID: requestID(c)})
	}
	return writeHTML(c, p.status, s.problemPage(c, p))
}

func (s *server) problemPage(c echo.Context, p problem) templ.Component {
	if p.back.URL == "" {
		p.back = templates.Link{Text: text.Of("Overview"), URL: s.links.url("/", nil)}
	}
	return templates.ProblemPage(templates.Problem{
		Page:   s.page(c, p.title, "", 0),
		Status: "HTTP " + strconv.Itoa(p.status), What: p.what, NotDone: p.notDone, Next: p.next, Command: p.command, Pairs: p.pairs, Back: p.back, Form: p.form,
	})
}

// problemDetails is an error as RFC 9457 has it.
type problemDetails struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Kind       string `json:"kind,omitempty"`       // a stable word
	Diagnostic string `json:"diagnostic,omitempty"` // names the log line and the audit row
	RequestID  string `json:"requestId"`
}
