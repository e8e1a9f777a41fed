package web

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
)

const (
	goingCookie = "going"
	goingTime   = 10 * time.Minute
	maxGoing    = 640 // bytes; with the console's other cookies it stays below 1 KB
)

// goingTo is where a request was going, if that is a page to be led back to: which one, its ids and its query, all of
// which the page itself would take.
func (s *server) goingTo(c echo.Context) (oidc.Route, bool) {
	r := s.routeOf(c)
	q, err := query(c, r.query...)
	if r.name == "" || err != nil {
		return oidc.Route{}, false
	}
	q.Del(viewParameter)
	going := oidc.Route{Name: r.name, IDs: map[string]string{}, Query: nonEmpty(q)}
	for i, name := range c.ParamNames() {
		going.IDs[name] = c.ParamValues()[i]
	}
	if _, ok := s.links.route(going); !ok {
		return oidc.Route{}, false
	}
	return going, true
}

// keepGoing remembers for a while where the window was going. The last window wins: there is one button to sign in with.
func (s *server) keepGoing(c echo.Context) {
	going, _ := s.goingTo(c)
	s.rememberRoute(c, going)
}

// rememberRoute keeps r until the sign-in page's button sends it on; the zero Route, or one that is too long, nothing.
func (s *server) rememberRoute(c echo.Context, r oidc.Route) {
	cookies, value := s.Identity.Cookies, encodeRoute(r)
	if len(value) > maxGoing || r.Name == "" {
		value = ""
	}
	if _, err := c.Request().Cookie(cookies.Name(goingCookie)); err != nil && value == "" {
		return // there is nothing to forget
	}
	cookies.WriteFor(c.Response(), goingCookie, value, goingTime)
}

// rememberedRoute is what the browser sends back of [server.rememberRoute], believed only as far as this console could
// have made it.
func (s *server) rememberedRoute(c echo.Context) oidc.Route {
	r := decodeRoute(s.Identity.Cookies.Read(c.Request(), goingCookie))
	if _, ok := s.links.route(r); !ok {
		return oidc.Route{}
	}
	return r
}

// A route in a cookie is spelled like a query: to is its name, i. begins its ids and q. its query.
func encodeRoute(r oidc.Route) string {
	v := url.Values{"to": {r.Name}}
	for name, id := range r.IDs {
		v.Set("i."+name, id)
	}
	for name, values := range r.Query {
		v["q."+name] = values
	}
	return v.Encode()
}

func decodeRoute(text string) oidc.Route {
	v, err := url.ParseQuery(text)
	if err != nil {
		return oidc.Route{}
	}
	r := oidc.Route{Name: v.Get("to"), IDs: map[string]string{}, Query: url.Values{}}
	for key, values := range v {
		if name, ok := strings.CutPrefix(key, "i."); ok {
			r.IDs[name] = values[0]
		}
		if name, ok := strings.CutPrefix(key, "q."); ok {
			r.Query[name] = values
		}
	}
	return r
}

// keepable is an id that a path can hold as it is: no dots alone, which browsers take for steps, and no slash of any kind.
var keepable = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// route leads to a page that was kept, the zero Route to the first one. It reports false for a route that this console
// could not have kept.
func (l links) route(r oidc.Route) (string, bool) {
	if r.Name == "" {
		return l.url("/", nil), len(r.IDs)+len(r.Query) == 0
	}
	page, ok := l.pages[r.Name]
	if !ok {
		return "", false
	}
	for name, values := range r.Query {
		if checkParameter(name, values, page.query) != nil {
			return "", false
		}
	}
	parts, ids := strings.Split(page.path, "/"), 0
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			ids++
			if parts[i] = r.IDs[name]; !keepable.MatchString(parts[i]) {
				return "", false
			}
		}
	}
	return l.url(strings.Join(parts, "/"), r.Query), ids == len(r.IDs)
}
