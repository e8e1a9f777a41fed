package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// What the lists have in common: the choices of their filters, how many there are of each, and the ways from page to page.

func projectOptions(v viewer, selected string) []templates.Option {
	options := append(make([]templates.Option, 0, 1+len(v.projects)), templates.Option{Text: text.Of("all")})
	for _, p := range v.projects {
		name := text.Data(shorten(visible(p.ProjectName), 40))
		if !p.ProjectActive {
			name = text.Of("%s (archived)", name)
		}
		options = append(options, option(p.ProjectID, name, selected))
	}
	return options
}

func option(value string, words text.Text, selected string) templates.Option {
	return templates.Option{Value: value, Text: words, Selected: value == selected}
}

// with returns q with one value replaced.
func with(q url.Values, name, value string) url.Values {
	changed := url.Values{}
	for k, v := range q {
		changed[k] = v
	}
	changed.Set(name, value)
	return changed
}

// without returns q without some of its values.
func without(q url.Values, names ...string) url.Values {
	changed := url.Values{}
	for k, v := range q {
		if !slices.Contains(names, k) {
			changed[k] = v
		}
	}
	return changed
}

// anyOf reads values with commas between them, each among choices.
func anyOf[T ~string](name, value string, choices []T) (list []T, err error) {
	if value == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(value, ",") {
		one, err := oneOf(name, part, choices)
		if err != nil {
			return nil, err
		}
		if one != "" && !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list, nil
}

// spelled is list as [anyOf] reads it.
func spelled[T ~string](list []T) string {
	var parts []string
	for _, x := range list {
		parts = append(parts, string(x))
	}
	return strings.Join(parts, ",")
}

// toggled is chosen with one more, or without it if it was there, as [anyOf] reads it.
func toggled[T ~string](chosen []T, one T) string {
	left := slices.DeleteFunc(slices.Clone(chosen), func(x T) bool { return x == one })
	if len(left) == len(chosen) {
		left = append(left, one)
	}
	return spelled(left)
}

// place reads a place in a list, which is nowhere if q names none.
func place[C any](name string, q url.Values, parse func(string) (C, error)) (*C, error) {
	if q.Get(name) == "" {
		return nil, nil
	}
	c, err := parse(q.Get(name))
	if err != nil {
		return nil, badQuery(text.Of("The parameter %s is not a place in the list. Take it from a page's own link.", name))
	}
	return &c, nil
}

// onwards leads to another place in the list that q asks for, or nowhere from an end of it.
func onwards[C fmt.Stringer](l links, path string, q url.Values, name string, to *C) string {
	if to == nil {
		return ""
	}
	return l.url(path, with(without(q, "after", "before"), name, (*to).String()))
}

// filterForm is the form with which the list at path is filtered.
func (s *server) filterForm(path string, q url.Values) templates.FilterForm {
	f := templates.FilterForm{Action: s.links.url(path, nil), Filtered: len(without(filters(q), zoneParameter)) > 0, More: len(without(filters(q), "q", zoneParameter, "status", "state", "run", "group")) > 0,
		Embed: q.Get(viewParameter), Zone: visible(q.Get(zoneParameter)), Button: text.Of("Filter")}
	f.Clear = s.links.url(path, url.Values{viewParameter: {f.Embed}})
	return f
}

// chipsOf counts what there is of each kind. The first chip is of all of them; none leads anywhere yet.
func chipsOf[K ~string](counts map[K]run.Count, kinds []K) []templates.Chip {
	var all run.Count
	chips := []templates.Chip{{Status: templates.Status{Word: text.Of("all")}}}
	for _, k := range kinds {
		n := counts[k]
		all.N, all.More = all.N+n.N, all.More || n.More
		chips = append(chips, templates.Chip{Count: count(n.N, n.More), None: n == run.Count{}})
	}
	chips[0].Count = count(min(all.N, run.CountCap), all.More || all.N > run.CountCap)
	return chips
}

// again shows a list's page once more with what was asked for and what is wrong with it, so that nothing that somebody typed
// is lost. A client is told the problem alone, and so is everybody whose problem is another.
func (s *server) again(c echo.Context, err error, page func(problem) templ.Component) (reply, error) {
	wrong, ok := s.correctable(c, err)
	if !ok {
		return reply{}, err
	}
	return reply{status: wrong.status, page: func() templ.Component { return page(wrong) }}, nil
}

// correctable returns what is wrong with what was asked for, where a page with its form can say so, and logs it.
func (s *server) correctable(c echo.Context, err error) (problem, bool) {
	wrong, ok := errors.AsType[problem](err)
	if !ok || wrong.status != http.StatusBadRequest || s.mediumOf(c) != asHTML {
		return problem{}, false
	}
	s.logProblem(c, wrong, err)
	return wrong, true
}

// times are what one may ask a list to begin at, besides any other.
func times() []templates.Option {
	return []templates.Option{{Value: "-1h", Text: text.Of("last hour")}, {Value: "-24h", Text: text.Of("last 24 hours")}, {Value: "-7d", Text: text.Of("last 7 days")}, {Value: "today", Text: text.Of("since midnight")},
		{Value: "yesterday", Text: text.Of("since yesterday")}}
}
