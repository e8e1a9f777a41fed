package run

import (
	"context"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/search"
)

// Search finds what text may mean in projects: Projects, Tasks, Triggers and Users by name, and the newest n Runs whose id
// begins with it or that one of those Users has made as a retry. The Runs of a Task or Trigger are a [List].
func Search(ctx context.Context, q pg.Querier, projects []string, text string, n int) (_ search.Found, _ []Summary, err error) {
	defer pg.Wrap(&err, "run.Search(%d projects)", len(projects))
	s, err := newStatement(ctx, q, Filter{Projects: projects, Text: text})
	if err != nil || len(s.Projects) == 0 {
		return search.Found{}, nil, err
	}
	page, err := s.page(ctx, q, s.namedWalks(), nil, false, n)
	return s.found, page.Runs, err
}
