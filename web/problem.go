package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/web/templates"
)

// problem is an error worded for the reader: what happened, what was not done, and the next step. What the log says is
// the error it came from.
type problem struct {
	status  int
	title   string
	what    string
	notDone string
	next    string
	cause   error
}

func (p problem) Error() string { return p.title + ": " + p.what }
func (p problem) Unwrap() error { return p.cause }

const nothing = "Nothing was changed."

// badQuery is a filter, a cursor or a query string that cannot be understood.
func badQuery(what string) problem {
	return problem{status: http.StatusBadRequest, title: "Bad request", what: what, notDone: "Nothing was looked up.",
		next: "Correct the address, or begin again from the list without filters."}
}

func wrongHost(right string) problem {
	return problem{status: http.StatusMisdirectedRequest, title: "Wrong host name",
		what:    "This console does not answer under the name in the address bar.",
		notDone: "Nothing was looked up or changed.", next: "Open " + right + " instead."}
}

// problemOf words err. What it does not know is a bare 500.
func problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, run.ErrNotFound):
		return problem{http.StatusNotFound, "No such Run", "There is no Run with this id in the Projects you may see.",
			nothing, "Check the id, or look for the Run in the list.", err}
	case errors.Is(err, scheduler.ErrNotFound), errors.Is(err, scheduler.ErrNoSchedule):
		return problem{http.StatusNotFound, "No such Schedule", "There is no Trigger with this name in the Projects you may see.",
			nothing, "Check the name, or look for it among the Schedules.", err}
	case pg.Unavailable(err), errors.Is(err, context.Canceled):
		return problem{http.StatusServiceUnavailable, "Database unavailable",
			"The console cannot reach its database, or got no answer in time. Replicas that can reach it go on admitting Runs.",
			"This page could not be read. " + nothing, "Try again in a moment. If it lasts, see whether the database is up.", err}
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return problemOfRouter(e)
	}
	return problem{http.StatusInternalServerError, "Something went wrong", "The console failed to make this page. The reason is in its log.",
		nothing, "Try again. If it fails again, report the request id below.", err}
}

func problemOfRouter(e *echo.HTTPError) problem {
	switch e.Code {
	case http.StatusNotFound:
		return problem{e.Code, "Not found", "There is no page at this address.", nothing, "Check the address, or begin at the overview.", e}
	case http.StatusMethodNotAllowed:
		return problem{e.Code, "Method not allowed", "This address does not take this kind of request.", nothing, "Open it as a page, with GET.", e}
	case http.StatusRequestEntityTooLarge:
		return problem{e.Code, "Request too large", "What was sent is larger than the console takes.", nothing, "Send less.", e}
	}
	return problem{e.Code, http.StatusText(e.Code), "The request was refused.", nothing, "Begin at the overview.", e}
}

// fail is where an error becomes a status, a page and a log line. Only here.
func (s *server) fail(err error, c echo.Context) {
	p := problemOf(err)
	s.logProblem(c, p, err)
	if c.Response().Committed {
		return
	}
	if p.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", "5")
	}
	if err := s.writeProblem(c, p); err != nil {
		s.Log.ErrorContext(c.Request().Context(), "error page failed", "request", requestID(c), "err", err)
	}
}

// logProblem names the route's pattern, never the query: what people typed is not the log's business.
func (s *server) logProblem(c echo.Context, p problem, err error) {
	level := slog.LevelDebug
	switch {
	case errors.Is(err, context.Canceled): // the client left
	case p.status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case p.status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	s.Log.Log(c.Request().Context(), level, "request failed", "method", c.Request().Method, "route", c.Path(), "status", p.status,
		"request", requestID(c), "err", err)
}

func (s *server) writeProblem(c echo.Context, p problem) error {
	if wantsJSON(c) {
		return writeJSON(c, p.status, "application/problem+json", problemDetails{
			Type: "about:blank", Title: p.title, Status: p.status, Detail: p.what + " " + p.next, RequestID: requestID(c)})
	}
	return writeHTML(c, p.status, s.problemPage(c, p))
}

func (s *server) problemPage(c echo.Context, p problem) templ.Component {
	return templates.ProblemPage(templates.Problem{
		Page:   s.page(c, p.title, "", 0),
		Status: "HTTP " + strconv.Itoa(p.status), What: p.what, NotDone: p.notDone, Next: p.next,
		Back: templates.Link{Text: "Overview", URL: s.links.url("/", nil)},
	})
}

// problemDetails is an error as RFC 9457 has it.
type problemDetails struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	RequestID string `json:"requestId"`
}
