package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/text"
)

const (
	maxQuery = 2048
	maxValue = 200
)

// query reads the query string. A parameter that is not among names, comes twice, or is oversized or malformed is
// refused: a misspelled filter that was ignored would show what nobody asked for.
func query(c echo.Context, names ...string) (url.Values, error) {
	raw := c.Request().URL.RawQuery
	if len(raw) > maxQuery {
		return nil, badQuery(text.Of("The query string is too long."))
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badQuery(text.Of("The query string is not well formed."))
	}
	for name, values := range q {
		if name == viewParameter && slices.Equal(values, []string{embedView}) {
			continue
		}
		if name == bomParameter && slices.Equal(values, []string{withBOM}) && strings.HasSuffix(c.Path(), ".csv") {
			continue
		}
		if err := checkParameter(name, values, names); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Every page may be asked for as a frame shows it: without what surrounds it.
const (
	viewParameter = "view"
	embedView     = "embed"
)

// isEmbedded reports whether the page is asked for as a frame shows it.
func isEmbedded(c echo.Context) bool { return c.QueryParam(viewParameter) == embedView }

// filters are the parameters of q that choose among what there is.
func filters(q url.Values) url.Values {
	chosen := nonEmpty(q)
	chosen.Del("after")
	chosen.Del("before")
	chosen.Del("select")
	chosen.Del(viewParameter)
	return chosen
}

func checkParameter(name string, values, names []string) error {
	switch {
	case !slices.Contains(names, name) && len(names) == 0:
		return badQuery(text.Of("There is no parameter %s here, nor any other.", cited(name)))
	case !slices.Contains(names, name):
		return badQuery(text.Of("There is no parameter %s here; there are: %s.", cited(name), strings.Join(names, ", ")))
	case len(values) > 1:
		return badQuery(text.Of("The parameter %s is given more than once.", name))
	case len(values[0]) > maxValue:
		return badQuery(text.Of("The parameter %s is longer than %s bytes.", name, maxValue))
	case strings.ContainsRune(values[0], 0) || strings.ToValidUTF8(values[0], "") != values[0]:
		return badQuery(text.Of("The parameter %s is not text.", name))
	}
	return nil
}

// cited shows what a query holds, which may be anything.
func cited(s string) string { return strconv.Quote(shorten(visible(s), 40)) }

// oneOf returns the value if it is empty or among choices.
func oneOf[T ~string](name, value string, choices []T) (T, error) {
	if value == "" || slices.Contains(choices, T(value)) {
		return T(value), nil
	}
	var known []string
	for _, c := range choices {
		known = append(known, string(c))
	}
	return "", badQuery(text.Of("There is no %s %s; there are: %s.", name, cited(value), strings.Join(known, ", ")))
}
