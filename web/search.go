package web

import (
	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const searchPath = "/search"

// search finds what the viewer may see by a part of its name.
func (s *server) search(c echo.Context) (reply, error) {
	if _, err := query(c, "q"); err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	return reply{json: func() any { return nil }, page: func() templ.Component {
		return templates.NoticePage(templates.Notice{Page: s.page(c, text.Of("Search"), "", v.nowMS)})
	}}, nil
}
