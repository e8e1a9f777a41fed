package web

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/a-h/templ"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/messages"
	"github.com/qinglong/console/web/static"
	"github.com/qinglong/console/web/templates"
)

// compressible is the size from which compressing saves a packet.
const compressible = 1400

// sections are the main navigation, in its order; the key follows g. One leads where not everybody may go: those who may
// not are not shown it.
var sections = []struct {
	text      text.Text
	path, key string
	need      policy.Permission
}{
	{text.Of("Overview"), "/", "o", policy.Read},
	{text.Of("Schedules"), schedulesPath, "s", policy.Read},
	{text.Of("Claims"), claimsPath, "c", policy.Read},
	{text.Of("Runs"), runsPath, "r", policy.Read},
	{text.Of("Audit"), auditPath, "a", policy.ReadAudit},
}

// page is what surrounds a page's content; in is the path of the section it belongs to, if any; signed out, there is no
// way anywhere. nowMS is the database clock, or 0 on a page made from memory.
func (s *server) page(c echo.Context, title text.Text, in string, nowMS int64) templates.Page {
	p := templates.Page{
		Title: title, Home: s.links.url("/", nil), Banner: s.Banner, Version: s.Version, RequestID: requestID(c), Theme: s.theme(c),
		Stylesheet: s.asset("console.css"), Script: s.asset("console.js"), LiveScript: s.asset("live.js"), PickScript: s.asset("pick.js"), Icon: s.asset("favicon.svg"),
		Live: nowMS > 0 && s.routeOf(c).live, Choices: s.preferences(c),
	}
	if isEmbedded(c) {
		p.Embed, p.Whole = true, s.whole(c)
	}
	if nowMS > 0 {
		p.AsOf = instant(nowMS, nowMS)
	}
	session, err := oidc.Current(c.Request().Context())
	if err != nil {
		return p
	}
	p.Search, p.Who = s.links.url(searchPath, nil), templates.Who{Name: userName(session), URL: s.links.url(profilePath, nil), SignOut: s.links.url(signOutPath, nil)}
	access, _ := c.Get(accessKey).(policy.Access) // a page made from memory knows none
	for _, x := range sections {
		if x.need != policy.Read && !access.Somewhere(x.need) {
			continue
		}
		p.Nav = append(p.Nav, templates.NavLink{Text: x.text, URL: s.links.url(x.path, nil), Key: x.key, Current: x.path == in})
	}
	return p
}

// whole is the page that a frame shows without what surrounds it. It is made anew from what the address means, as what a
// browser takes an address for that is no page's, such as //elsewhere, may be anywhere.
func (s *server) whole(c echo.Context) string {
	going, _ := s.goingTo(c)
	there, _ := s.links.route(going)
	return there
}

func (s *server) asset(name string) string { return s.links.url("/"+static.URL(name), nil) }

// writeHTML writes page only if all of it rendered, so that a failure can still be a 500.
func writeHTML(c echo.Context, status int, page templ.Component) error {
	buf := templ.GetBuffer()
	defer templ.ReleaseBuffer(buf)
	if _, err := render(c, page, buf, false); err != nil {
		return err
	}
	return write(c, status, echo.MIMETextHTMLCharsetUTF8, buf.Bytes())
}

// render writes page, and returns its live parts, with their HTML if that is wanted. It waits for nothing, and the page that says the time is over must
// itself render after that.
func render(c echo.Context, page templ.Component, w io.Writer, html bool) (templates.Fragments, error) {
	ctx := context.WithoutCancel(c.Request().Context())
	ctx, parts := templates.Recording(messages.In(ctx, messages.From(ctx)), html) // asked for by every word: near at hand
	return parts, page.Render(ctx, w)
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
	h.Set("Vary", "Accept, Accept-Encoding, Accept-Language, Cookie")
	if len(body) < compressible || !static.AcceptsGzip(c.Request().Header.Get("Accept-Encoding")) {
		return c.Blob(status, contentType, body)
	}
	buf := templ.GetBuffer()
	defer templ.ReleaseBuffer(buf)
	zw := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zw)
	zw.Reset(buf)
	zw.Write(body) // a bytes.Buffer does not fail
	zw.Close()
	h.Set("Content-Encoding", "gzip")
	return c.Blob(status, contentType, buf.Bytes())
}

// compressors are used again and again: each needs more memory than a hundred pages.
var compressors = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	return zw
}}
