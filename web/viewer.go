package web

import (
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/scheduler"
)

// viewer is who asks, as far as reading goes: the Projects they may see, and the database clock when they asked, by
// which everything on their page is judged.
type viewer struct {
	projects []scheduler.Project
	nowMS    int64
}

// everyProject is the viewer of every request until people sign in: one who may see every Project.
func (s *server) everyProject(c echo.Context) (viewer, error) {
	projects, nowMS, err := scheduler.Projects(c.Request().Context(), s.DB)
	return viewer{projects: projects, nowMS: nowMS}, err
}

// sees returns the ids of the viewer's Projects, restricted to one unless only is empty. A Project that does not exist
// and one that the viewer may not see both leave none.
func (v viewer) sees(only string) []string {
	ids := []string{}
	for _, p := range v.projects {
		if only == "" || p.ID == only {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
