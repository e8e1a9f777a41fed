package web

import (
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
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
func (s *server) mutation(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return newProblem(http.StatusNotFound, "No such submission", "This is no submission's id.", "Nothing was looked up.", "Check the address.", err)
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	found, err := runmgmt.FindSubmission(c.Request().Context(), s.DB, v.sees(""), id)
	happened := err == nil
	if err != nil && !errors.Is(err, run.ErrNotFound) {
		return err
	}
	body := submissionJSON{MutationID: id, Happened: happened}
	if happened {
		body.Action, body.RunID, body.SourceID, body.AtMS = found.Action, &found.RunID, &found.Source, found.AtMS
	}
	if wantsJSON(c) {
		return writeJSON(c, http.StatusOK, "application/json", body)
	}
	return writeHTML(c, http.StatusOK, templates.NoticePage(s.submissionPage(c, v, found, happened)))
}

func (s *server) submissionPage(c echo.Context, v viewer, found runmgmt.Submission, happened bool) templates.Notice {
	page := templates.Notice{Page: s.page(c, "Did it happen?", "", v.nowMS)}
	if !happened {
		page.Sentences = []templates.Sentence{{Lead: "No:", Rest: "nothing has come of this submission so far, in the Projects you may see."}}
		page.Warning = "If it was sent only a moment ago, look again. Sending the same form again is safe: it is carried out once at most."
		page.Links = []templates.Link{{Text: "Look again", URL: s.links.mutation(uuid.MustParse(c.Param("id")))}}
		return page
	}
	page.Sentences = []templates.Sentence{{Lead: "Yes:", Rest: "it made a new Run.", Tone: "ok"}}
	if found.Action == policy.StopRun {
		page.Sentences[0].Rest = "the Run was asked to stop."
	}
	page.Pairs = []templates.Pair{{Name: "When", Instant: instant(found.AtMS, v.nowMS)}}
	if found.Source != found.RunID {
		page.Pairs = append(page.Pairs, templates.Pair{Name: "Retry of", Link: templates.Link{Text: found.Source.String(), URL: s.links.run(found.Source)}})
	}
	page.Links = []templates.Link{{Text: "To the Run", URL: s.links.run(found.RunID)}}
	return page
}
