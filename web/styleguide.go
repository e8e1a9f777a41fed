package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const styleguidePath = "/account/styleguide"

// styleguide shows every component in every state. Only a development instance has it.
func (s *server) styleguide(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	session, err := oidc.Current(c.Request().Context())
	if err != nil {
		return err
	}
	v := templates.Styleguide{Page: s.page(c, text.Data("Styleguide"), "", session.NowMS)}
	v.Statuses = append(statusesOf(runStatuses), statusesOf(scheduleStates)...)
	return writeHTML(c, http.StatusOK, templates.StyleguidePage(v))
}

// statusesOf are the statuses of a table, in the order of what they are of.
func statusesOf[K cmp.Ordered](table map[K]templates.Status) (list []templates.Status) {
	for _, k := range slices.Sorted(maps.Keys(table)) {
		list = append(list, table[k])
	}
	return list
}
