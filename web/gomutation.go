package web

import (
	"errors"
	"net/http"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// submissionJSON is whether a submission happened.
type submissionJSON struct {
	MutationID uuid.UUID         `json:"mutationId"`
	Happened   bool              `json:"happened"`
	Action     policy.Permission `json:"action,omitempty"`
	RunID      *uuid.UUID        `json:"runId,omitempty"` // that it made, or asked to stop
	SourceID   *uuid.UUID        `json:"sourceRunId,omitempty"`
	AtMS       int64             `json:"atMs,omitempty"`
}

// mutation says whether a submission happened, and which Run it made.
func (s *server) mutation(c echo.Context) (reply, error) {
	if _, err := query(c); err != nil {
		return reply{}, err
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return reply{}, newProblem(http.StatusNotFound, text.Of("No such submission"), text.Of("This is no submission's id."), text.Of("Nothing was looked up."), text.Of("Check the address."), err)
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	found, err := runmgmt.FindSubmission(c.Request().Context(), s.DB, v.sees(""), id)
	happened := err == nil
	if err != nil && !errors.Is(err, run.ErrNotFound) {
		return reply{}, err
	}
	body := submissionJSON{MutationID: id, Happened: happened}
	if happened {
		body.Action, body.RunID, body.SourceID, body.AtMS = found.Action, &found.RunID, &found.Source, found.AtMS
	}
	return reply{json: func() any { return body }, page: func() templ.Component { return templates.NoticePage(s.submissionPage(c, v, found, happened)) }}, nil
}

func (s *server) submissionPage(c echo.Context, v viewer, found runmgmt.Submission, happened bool) templates.Notice {
	page := templates.Notice{Page: s.page(c, text.Of("Did it happen?"), "", v.nowMS)}
	if !happened {
		page.Sentences = []templates.Sentence{{Lead: text.Of("No:"), Rest: text.Of("nothing has come of this submission so far, in the Projects you may see.")}}
		page.Warning = text.Of("If it was sent only a moment ago, look again. Sending the same form again is safe: it is carried out once at most.")
		page.Links = []templates.Link{{Text: text.Of("Look again"), URL: s.links.mutation(uuid.MustParse(c.Param("id")))}}
		return page
	}
	page.Sentences = []templates.Sentence{{Lead: text.Of("Yes:"), Rest: text.Of("it made a new Run."), Tone: "ok"}}
	if found.Action == policy.StopRun {
		page.Sentences[0].Rest = text.Of("the Run was asked to stop.")
	}
	page.Pairs = []templates.Pair{{Name: text.Of("When"), Instant: instant(found.AtMS, v.nowMS)}}
	if found.Source != found.RunID {
		page.Pairs = append(page.Pairs, templates.Pair{Name: text.Of("Retry of"), Link: templates.Link{Text: text.Data(found.Source.String()), URL: s.links.run(found.Source)}})
	}
	page.Links = []templates.Link{{Text: text.Of("To the Run"), URL: s.links.run(found.RunID)}}
	return page
}
