package web

import (
	"context"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	// offered is how many ids a field has to choose from: a few kilobytes, which compress well.
	offered = 50
	// nearest is how many are named where the one that was typed is none.
	nearest = 5
	// idName is how much of a name stands beside an id.
	idName = 40
)

// idsFor reads what a page offers at its fields; nothing else has any, and a stream leaves them as they are.
func (s *server) idsFor(c echo.Context, projects []string) (search.IDs, error) {
	if s.mediumOf(c) != asHTML {
		return search.IDs{}, nil
	}
	return share(c.Request().Context(), s.recent, "ids", projects, func(ctx context.Context) (search.IDs, error) { return search.List(ctx, s.DB, projects, offered) })
}

// offer puts the ids of what the reader may see at the fields that want one whole.
func offer(page templates.Runs, ids search.IDs) templates.Runs {
	tasks, triggers := map[string]bool{}, map[string]bool{}
	for _, t := range ids.Tasks {
		if !tasks[t.ID] { // another Project may have the same id
			page.Tasks = append(page.Tasks, option(t.ID, text.Of("%s in %s", shorten(visible(t.Name), idName), t.ProjectID), ""))
		}
		tasks[t.ID] = true
	}
	for _, t := range ids.Triggers {
		if !triggers[t.ID] {
			page.Triggers = append(page.Triggers, option(t.ID, text.Of("in the Project %s", t.ProjectID), ""))
		}
		triggers[t.ID] = true
	}
	return page
}

// noSuchID says of a filter by id that its reader sees nothing of that id, and what there is that is like it. It is nil if
// there is something.
func (s *server) noSuchID(ctx context.Context, q url.Values, f run.Filter) (*templates.Empty, error) {
	switch {
	case f.TaskID != "":
		near, err := search.NearTasks(ctx, s.DB, f.Projects, f.TaskID)
		return s.instead(q, "task", f.TaskID, text.Of("None of the Tasks that you may see here has the id %s.", cited(f.TaskID)), near), err
	case f.TriggerID != "":
		near, err := search.NearTriggers(ctx, s.DB, f.Projects, f.TriggerID)
		return s.instead(q, "trigger", f.TriggerID, text.Of("None of the Triggers that you may see here has the id %s.", cited(f.TriggerID)), near), err
	}
	return nil, nil
}

// instead leads from a field whose id is among none of near to those that are.
func (s *server) instead(q url.Values, field, id string, why text.Text, near []search.ID) *templates.Empty {
	if slices.ContainsFunc(near, func(n search.ID) bool { return n.ID == id }) {
		return nil
	}
	e := &templates.Empty{Why: why, What: text.Of("An id is asked for whole. A part of a name goes into the first field."), Link: templates.Link{Text: text.Of("Every Run"), URL: s.links.runs()}}
	if len(near) > 0 {
		e.What = text.Of("Perhaps one of these was meant:")
	}
	for _, n := range near[:min(len(near), nearest)] {
		e.Near = append(e.Near, templates.Link{Text: text.Of("%s in %s", n.ID, n.ProjectID), URL: s.links.url(runsPath, with(with(without(q, "after", "before", "select"), "project", n.ProjectID), field, n.ID))})
	}
	return e
}
