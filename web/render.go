package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/web/static"
	"github.com/qinglong/console/web/templates"
)

// compressible is the size from which compressing saves a packet.
const compressible = 1400

// sections are the main navigation, in its order; the key follows g.
var sections = []struct{ text, path, key string }{
	{"Overview", "/", "o"},
	{"Schedules", "/schedules", "s"},
	{"Runs", "/runs", "r"},
}

// page is what surrounds a page's content; signed out, there is no way anywhere. nowMS is the database clock, or 0 on a page made from memory.
func (s *server) page(c echo.Context, title, section string, nowMS int64) templates.Page {
	p := templates.Page{
		Title: title, Home: s.links.url("/", nil), Banner: s.Banner, Version: s.Version, RequestID: requestID(c),
		Stylesheet: s.asset("console.css"), Script: s.asset("console.js"), Icon: s.asset("favicon.svg"),
	}
	if session, err := oidc.Current(c.Request().Context()); err == nil {
		p.Who = templates.Who{Name: userName(session), URL: s.links.url(profilePath, nil), SignOut: s.links.url(signOutPath, nil)}
	}
	for _, x := range sections {
		if p.Who.Name != "" {
			p.Nav = append(p.Nav, templates.NavLink{Text: x.text, URL: s.links.url(x.path, nil), Key: x.key, Current: x.text == section})
		}
	}
	if nowMS > 0 {
		p.AsOf = instant(nowMS, nowMS)
	}
	return p
}

func (s *server) asset(name string) string { return s.links.url("/"+static.URL(name), nil) }

// answer writes body as JSON to a client that asks for it, and the page to everybody else. Only the one is made.
func answer(c echo.Context, body func() any, page func() templ.Component) error {
	if wantsJSON(c) {
		return writeJSON(c, http.StatusOK, "application/json", body())
	}
	return writeHTML(c, http.StatusOK, page())
}

// wantsJSON tells whether the address or the client asks for JSON.
func wantsJSON(c echo.Context) bool {
	return strings.HasSuffix(c.Request().URL.Path, ".json") || strings.HasSuffix(c.Path(), "/:trigger"+accountPath) || acceptsJSON(c)
}

// acceptsJSON tells clients that ask for JSON from browsers, which ask for HTML and for everything else.
func acceptsJSON(c echo.Context) bool {
	accept := strings.ToLower(c.Request().Header.Get("Accept"))
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}

// writeHTML writes page only if all of it rendered, so that a failure can still be a 500.
func writeHTML(c echo.Context, status int, page templ.Component) error {
	b, err := render(c, page)
	if err != nil {
		return err
	}
	return write(c, status, echo.MIMETextHTMLCharsetUTF8, b)
}

// render waits for nothing, and the page that says the time is over must itself render after that.
func render(c echo.Context, page templ.Component) ([]byte, error) {
	var buf bytes.Buffer
	err := page.Render(context.WithoutCancel(c.Request().Context()), &buf)
	return buf.Bytes(), err
}

func writeJSON(c echo.Context, status int, contentType string, body any) error {
	b, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		return err
	}
	return write(c, status, contentType, append(b, '\n'))
}

// write sends body, compressed if the client takes that. A compressed length tells what repeats in a body, so no page
// may hold a secret beside words from its address; none but [server.goOn]'s, which is not compressed, holds one at all.
func write(c echo.Context, status int, contentType string, body []byte) error {
	h := c.Response().Header()
	h.Set("Vary", "Accept, Accept-Encoding")
	if len(body) < compressible || !static.AcceptsGzip(c.Request().Header.Get("Accept-Encoding")) {
		return c.Blob(status, contentType, body)
	}
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	zw.Write(body) // a bytes.Buffer does not fail
	zw.Close()
	h.Set("Content-Encoding", "gzip")
	return c.Blob(status, contentType, buf.Bytes())
}
