package web

import (
	"context"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	searchPath = "/search"
	// searchFrom is how many characters are looked for: of one, everything has it.
	searchFrom = 2
	runHits    = 20
)

// searchFound is what a text was found in, of what the viewer may see.
type searchFound struct {
	search.Found
	Runs   []run.Summary `json:"runs"`  // whose id begins with the text, or that who it names has retried, newest first
	Short  bool          `json:"short"` // the text is too short to be looked for
	beside scheduler.Beside
}

// search finds what the viewer may see by a part of its name.
func (s *server) search(c echo.Context) (reply, error) {
	q, err := query(c, "q")
	if err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	f, err := s.find(c.Request().Context(), v, q.Get("q"))
	if err != nil {
		return reply{}, err
	}
	return reply{json: func() any { return f }, page: func() templ.Component { return templates.SearchPage(s.searchPage(c, v, q, f)) }}, nil
}

func (s *server) find(ctx context.Context, v viewer, words string) (f searchFound, err error) {
	f.Text = strings.TrimSpace(words)
	if f.Short = utf8.RuneCountInString(f.Text) < searchFrom; !f.Short {
		if f.Found, f.Runs, err = run.Search(ctx, s.DB, v.sees(""), words, runHits); err != nil {
			return f, err
		}
		if f.beside, err = s.readBeside(ctx, v.sees(""), f.Runs, f.Triggers...); err != nil {
			return f, err
		}
	}
	f.Projects, f.Tasks, f.Triggers, f.Users, f.Runs = nonNil(f.Projects), nonNil(f.Tasks), nonNil(f.Triggers), nonNil(f.Users), nonNil(f.Runs)
	return f, nil
}

func (s *server) searchPage(c echo.Context, v viewer, q url.Values, f searchFound) templates.Search {
	page := templates.Search{Page: s.page(c, text.Of("Search"), "", v.nowMS), Form: s.filterForm(searchPath, nil), Text: visible(strings.TrimSpace(q.Get("q"))), Empty: s.nothingFound(f)}
	page.Form.Embed, page.Form.Button = q.Get(viewParameter), text.Of("Search")
	page.JSON = s.links.url(searchPath+".json", q)
	for _, g := range []templates.HitGroup{s.runHits(f, v.nowMS), s.triggerHits(f), s.taskHits(f), s.userHits(f), s.projectHits(f)} {
		if len(g.Hits) > 0 {
			page.Groups = append(page.Groups, g)
		}
	}
	if len(page.Groups) > 0 {
		page.Runs = templates.Link{Text: text.Of("All Runs that match"), URL: s.links.runs("q", f.Text)}
	}
	if f.More {
		page.More = text.Of("There may be more than is listed. Write more of the name.")
	}
	return page
}

func (s *server) nothingFound(f searchFound) templates.Empty {
	what := text.Of("It looks for a part of the name of a Task, a Trigger or a Project, for who retried a Run, and for a Run by the first eight digits of its id. It does not look into errors: the failures by Task say those.")
	errors := templates.Link{Text: text.Of("Failures by Task"), URL: s.links.runs("group", "task")}
	switch {
	case f.Text == "":
		return templates.Empty{Why: text.Of("Nothing is looked for yet."), What: what, Link: errors}
	case f.Short:
		return templates.Empty{Why: text.Of("That is too short to look for."), What: text.Of("Write at least two characters.")}
	}
	return templates.Empty{Why: text.Of("Nothing matches in the Projects you may see."), What: what, Link: errors}
}

func (s *server) runHits(f searchFound, nowMS int64) templates.HitGroup {
	g := templates.HitGroup{ID: "runs", Title: text.Of("Runs, newest first")}
	for _, r := range f.Runs {
		g.Hits = append(g.Hits, templates.Hit{Link: templates.Link{Text: text.Data(r.ID.String()), URL: s.links.run(r.ID)}, Mono: true, Status: runStatuses[r.Status],
			Note: text.Of("%s in %s", shorten(visible(r.TaskName), listName), r.ProjectID), At: instant(r.CreatedAtMS, nowMS), Held: heldBack(f.beside, r.ProjectID, r.TriggerID)})
	}
	return g
}

func (s *server) triggerHits(f searchFound) templates.HitGroup {
	g := templates.HitGroup{ID: "triggers", Title: text.Of("Triggers")}
	for _, t := range f.Triggers {
		g.Hits = append(g.Hits, templates.Hit{Link: templates.Link{Text: text.Data(t.ID), URL: s.links.schedule(t.ProjectID, t.ID)}, Note: text.Of("in the Project %s", t.ProjectID), Held: heldBack(f.beside, t.ProjectID, &t.ID),
			Also: templates.Link{Text: text.Of("Runs"), URL: s.links.runs("project", t.ProjectID, "trigger", t.ID)}})
	}
	return g
}

func (s *server) taskHits(f searchFound) templates.HitGroup {
	g := templates.HitGroup{ID: "tasks", Title: text.Of("Tasks")}
	for _, t := range f.Tasks {
		g.Hits = append(g.Hits, templates.Hit{Link: templates.Link{Text: text.Data(shorten(visible(t.Name), listName)), URL: s.links.runs("project", t.ProjectID, "task", t.ID)},
			Note: text.Of("%s in %s", t.ID, t.ProjectID),
			Also: templates.Link{Text: text.Of("Schedules"), URL: s.links.url(schedulesPath, url.Values{"project": {t.ProjectID}, "q": {t.ID}})}})
	}
	return g
}

func (s *server) userHits(f searchFound) templates.HitGroup {
	g := templates.HitGroup{ID: "users", Title: text.Of("People who retried")}
	for _, u := range f.Users {
		name, whom := u.Name, u.Email
		if name == "" {
			name = u.Email
		}
		if whom == "" {
			whom = u.Name
		}
		g.Hits = append(g.Hits, templates.Hit{Link: templates.Link{Text: text.Data(shorten(visible(name), listName)), URL: s.links.runs("origin", string(run.Retried), "q", whom)},
			Note: text.Data(shorten(visible(u.Email), listName))})
	}
	return g
}

func (s *server) projectHits(f searchFound) templates.HitGroup {
	g := templates.HitGroup{ID: "projects", Title: text.Of("Projects")}
	for _, p := range f.Projects {
		g.Hits = append(g.Hits, templates.Hit{Link: templates.Link{Text: text.Data(shorten(visible(p.Name), listName)), URL: s.links.runs("project", p.ID)}, Note: text.Data(p.ID),
			Also: templates.Link{Text: text.Of("Schedules"), URL: s.links.url(schedulesPath, url.Values{"project": {p.ID}})}})
	}
	return g
}
