package web

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
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
		return nil, badQuery("The query string is too long.")
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badQuery("The query string is not well formed.")
	}
	for name, values := range q {
		if err := checkParameter(name, values, names); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func checkParameter(name string, values, names []string) error {
	switch {
	case !slices.Contains(names, name):
		return badQuery(fmt.Sprintf("There is no parameter %q here; there are: %s.", shorten(visible(name), 40), strings.Join(names, ", ")))
	case len(values) > 1:
		return badQuery(fmt.Sprintf("The parameter %s is given more than once.", name))
	case len(values[0]) > maxValue:
		return badQuery(fmt.Sprintf("The parameter %s is longer than %d bytes.", name, maxValue))
	case strings.ContainsRune(values[0], 0) || strings.ToValidUTF8(values[0], "") != values[0]:
		return badQuery(fmt.Sprintf("The parameter %s is not text.", name))
	}
	return nil
}

// oneOf returns the value if it is empty or among choices.
func oneOf[T ~string](name, value string, choices []T) (T, error) {
	if value == "" || slices.Contains(choices, T(value)) {
		return T(value), nil
	}
	var known []string
	for _, c := range choices {
		known = append(known, string(c))
	}
	return "", badQuery(fmt.Sprintf("There is no %s %q; there are: %s.", name, shorten(visible(value), 40), strings.Join(known, ", ")))
}

var ago = regexp.MustCompile(`^-([1-9][0-9]{0,5})([smhd])$`)

// moment reads an instant in UTC milliseconds: absolute as RFC 3339, or before nowMS as -90m, -2h or -7d. Empty is 0.
func moment(name, value string, nowMS int64) (int64, error) {
	if value == "" {
		return 0, nil
	}
	if m := ago.FindStringSubmatch(value); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // six digits
		unit := map[string]int64{"s": 1, "m": 60, "h": 3600, "d": 86400}[m[2]]
		return max(nowMS-n*unit*1000, 1), nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, badQuery(fmt.Sprintf("The parameter %s is neither a time like 2026-11-29T03:00:00Z nor one like -2h.", name))
	}
	return t.UnixMilli(), nil
}
