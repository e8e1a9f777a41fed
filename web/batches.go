package web

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const batchesPath = "/batches"

var (
	batchesQuery = []string{"project", "by", "after"}
	batchesOf    = []string{"me"}
)

// batchesJSON is a part of the list of batches for a client.
type batchesJSON struct {
	NowMS   int64                  `json:"nowMs"`
	Batches []runmgmt.BatchSummary `json:"batches"`
	Next    string                 `json:"next,omitempty"`
}

// batches lists what was done to many Runs at once, in the Projects that the viewer sees.
func (s *server) batches(c echo.Context) (reply, error) {
	q, err := query(c, batchesQuery...)
	if err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	after, err := place("after", q, pg.ParseCursor)
	if err != nil {
		return reply{}, err
	}
	by, err := oneOf("by", q.Get("by"), batchesOf)
	if err != nil {
		return reply{}, err
	}
	f := runmgmt.BatchFilter{Projects: v.sees(q.Get("project")), Reader: whoAsks(c), Mine: by != ""}
	found := reply{rows: s.batchTable(f)}
	if s.mediumOf(c) == asCSV {
		return found, nil
	}
	list, next, err := runmgmt.ListBatches(c.Request().Context(), s.DB, f, after, pageSize)
	if err != nil {
		return reply{}, err
	}
	found.json = func() any {
		return batchesJSON{v.nowMS, nonNil(list), onwards(s.links, batchesPath+".json", q, "after", next)}
	}
	found.page = func() templ.Component { return templates.BatchesPage(s.batchesPage(c, v, q, list, next)) }
	return found, nil
}

// whoAsks is the reader; the viewer was read from the same session.
func whoAsks(c echo.Context) uuid.UUID {
	session, _ := oidc.Current(c.Request().Context())
	return session.UserID
}

func (s *server) batchesPage(c echo.Context, v viewer, q url.Values, list []runmgmt.BatchSummary, next *pg.Cursor) templates.Batches {
	page := templates.Batches{
		Page: s.page(c, text.Of("Batches"), runsPath, v.nowMS), Filters: s.filterForm(batchesPath, q), Projects: projectOptions(v, q.Get("project")),
		By:    []templates.Option{{Text: text.Of("anybody")}, option("me", text.Of("me"), q.Get("by"))},
		Views: s.views(url.Values{"project": q["project"]}), Pages: templates.Pages{Order: templates.NewestFirst, On: onwards(s.links, batchesPath, q, "after", next)},
		Empty: templates.Empty{Why: text.Of("No batch is here."), What: text.Of("Tick Runs in their list, or choose all failures of a filter, to retry or stop many at once."),
			Link: templates.Link{Text: text.Of("Runs"), URL: s.links.runs()}},
	}
	for i := range page.Views {
		page.Views[i].Current = i == len(page.Views)-1
	}
	page.JSON, page.CSV = s.links.url(batchesPath+".json", q), s.links.csv(batchesPath, filters(q))
	if q.Get("after") != "" {
		page.Pages.First = s.links.url(batchesPath, without(q, "after"))
	}
	for _, b := range list {
		page.Rows = append(page.Rows, s.batchesRow(b, v.nowMS))
	}
	return page
}

func (s *server) batchesRow(b runmgmt.BatchSummary, nowMS int64) templates.BatchesRow {
	d, _ := deedOf(b.Action)
	n, at := b.Made, b.CreatedAtMS
	if b.SubmittedAtMS == nil {
		n = b.Selected
	} else {
		at = *b.SubmittedAtMS
	}
	name := text.Count(n, "Retry of 1 Run", "Retry of %s Runs")
	if d.stops() {
		name = text.Count(n, "Stop of 1 Run", "Stop of %s Runs")
	}
	row := templates.BatchesRow{Key: b.ID.String(), Name: templates.Link{Text: name, URL: s.links.batch(b.ID)}, Project: b.ProjectID,
		By: shorten(visible(b.By), listName), At: instant(at, nowMS), Words: text.Data(visible(b.Words)).Map(brief)}
	row.Status, row.Counts = batchStands(b, d.stops())
	return row
}

// batchStands says how a batch stands: in a word, and in numbers where there is more to say.
func batchStands(b runmgmt.BatchSummary, stops bool) (templates.Status, text.Text) {
	failed := text.Text{}
	if n := b.Unsuccessful(); n > 0 && !stops {
		failed = text.Count(n, "1 did not succeed", "%s did not succeed")
	}
	switch {
	case b.SubmittedAtMS == nil:
		return templates.Status{Word: text.Of("not submitted"), Shape: "ring", Tone: "idle"}, text.Text{}
	case b.Remaining > 0:
		return templates.Status{Word: text.Of("going on"), Shape: "arrow", Tone: "run"}, text.Join(text.Data(" · "), text.Count(b.Remaining, "1 remains", "%s remain"), failed)
	case stops:
		return templates.Status{Word: text.Of("ended"), Shape: "disc", Tone: "ok"}, text.Text{}
	case !failed.Empty():
		return templates.Status{Word: text.Of("ended"), Shape: "triangle", Tone: "bad"}, failed
	}
	return templates.Status{Word: text.Of("all succeeded"), Shape: "disc", Tone: "ok"}, text.Text{}
}

var batchColumns = []string{"id", "action", "project", "by", "reason", "created_at", "submitted_at", "selected", "made", "succeeded", "remaining"}

// batchTable is every batch that f lets through, for an export.
func (s *server) batchTable(f runmgmt.BatchFilter) func(context.Context) iter.Seq2[[]string, error] {
	return func(ctx context.Context) iter.Seq2[[]string, error] {
		return export(batchColumns, func(after *pg.Cursor) ([]runmgmt.BatchSummary, *pg.Cursor, error) {
			return runmgmt.ListBatches(ctx, s.DB, f, after, exportPage)
		}, func(b runmgmt.BatchSummary) []string {
			return []string{b.ID.String(), string(b.Action), b.ProjectID, b.By, b.Words, cellTime(&b.CreatedAtMS), cellTime(b.SubmittedAtMS),
				strconv.Itoa(b.Selected), strconv.Itoa(b.Made), strconv.Itoa(b.Succeeded), strconv.Itoa(b.Remaining)}
		})
	}
}
