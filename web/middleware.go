package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

const (
	bodyLimit    = 64 << 10
	requestTime  = 5 * time.Second  // a page that takes longer is answered from memory
	exportTime   = 10 * time.Minute // of a list to its end
	providerTime = 25 * time.Second // for answers that wait for the identity provider, whose every call is bounded itself
)

// nameRequest gives the request the id that its page and its log line share. One that a client sends is ignored: it
// could be chosen to mislead whoever reads the log.
func nameRequest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderXRequestID, rand.Text())
		return next(c)
	}
}

func requestID(c echo.Context) string { return c.Response().Header().Get(echo.HeaderXRequestID) }

// contentPolicy lets a page load the console's own style, script and icon, and nothing else from anywhere.
func contentPolicy(formAction, frameAncestors []string) string {
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action " +
		strings.Join(append([]string{"'self'"}, formAction...), " ") + "; frame-ancestors " + cmp.Or(strings.Join(frameAncestors, " "), "'none'")
}

func (s *server) secure(next echo.HandlerFunc) echo.HandlerFunc {
	headers := [][2]string{
		{"Content-Security-Policy", contentPolicy(s.FormAction, nil)},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "same-origin"},
		{"Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Cache-Control", "no-store"}, // the assets, which say so themselves, are the exception
	}
	if s.PublicURL.Scheme == "https" {
		headers = append(headers, [2]string{"Strict-Transport-Security", "max-age=31536000"})
	}
	framed := contentPolicy(s.FormAction, s.FrameAncestors)
	return func(c echo.Context) error {
		h := c.Response().Header()
		for _, x := range headers {
			h.Set(x[0], x[1])
		}
		if len(s.FrameAncestors) > 0 && s.routeOf(c).framable() && isEmbedded(c) {
			h.Set("Content-Security-Policy", framed)
			h.Del("X-Frame-Options") // it knows no list
		}
		return next(c)
	}
}

var errPanic = errors.New("panic")

// recoverPanic makes a panic an error like any other: nothing has been written yet, because pages are rendered whole.
func recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch r := recover(); r {
			case nil:
			case http.ErrAbortHandler:
				panic(r)
			default:
				err = fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack())
			}
		}()
		return next(c)
	}
}

// onlyAllowedHosts refuses a name that is not this console's, so that a page of another site, whose name was made to
// lead here, reads nothing.
func (s *server) onlyAllowedHosts(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if len(s.AllowedHosts) > 0 && !slices.Contains(s.AllowedHosts, hostname(c.Request().Host)) {
			return wrongHost(s.PublicURL.String())
		}
		return next(c)
	}
}

func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(host)
}

func limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.ContentLength > bodyLimit {
			return echo.ErrStatusRequestEntityTooLarge
		}
		r.Body = http.MaxBytesReader(c.Response(), r.Body, bodyLimit)
		return next(c)
	}
}

func (s *server) limitTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.mediumOf(c) == asStream {
			return limitBeginning(c, next)
		}
		limit := requestTime
		switch r := s.routeOf(c); {
		case r.csv:
			limit = exportTime
		case r.provider:
			limit = providerTime
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), limit)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// beganKey is where a stream that has not begun keeps how to say that it has.
const beganKey = "a stream began"

// limitBeginning gives a stream the time of a page until it begins. Then it goes on for as long as it is read, and each of
// its readings has that time.
func limitBeginning(c echo.Context, next echo.HandlerFunc) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	late := time.AfterFunc(requestTime, cancel)
	defer late.Stop()
	c.Set(beganKey, late)
	c.SetRequest(c.Request().WithContext(ctx))
	return next(c)
}

// goesOn says that c's stream has begun.
func goesOn(c echo.Context) {
	if late, ok := c.Get(beganKey).(*time.Timer); ok {
		late.Stop()
	}
}

// onlyOwnOrigin refuses what a page of another origin made the browser send. What an identity provider posts is sent by
// no browser.
func (s *server) onlyOwnOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.protection.Check(c.Request()); err != nil && s.routeOf(c).path != BackChannelPath {
			return foreignForm(err)
		}
		return next(c)
	}
}

// limitRate bounds what costs the identity provider, or the audit a row, before anybody is known.
func (s *server) limitRate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.routeOf(c).provider {
			if err := s.takeOne(c); err != nil {
				return err
			}
		}
		return next(c)
	}
}

func (s *server) takeOne(c echo.Context) error {
	from := s.client(c)
	allow := s.Identity.Limiter.Allow
	if s.routeOf(c).path == signInPath {
		allow = s.Identity.Limiter.AllowStart
	}
	wait, ok := allow(s.Identity.Cookies.Binder(c.Request()), cmp.Or(from.Claimed, from.Peer))
	if !ok {
		return tooOften(wait)
	}
	return nil
}

// onlyTextInPaths refuses an address with what no name holds: no database takes it either.
func onlyTextInPaths(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		for _, part := range c.ParamValues() {
			if strings.ContainsRune(part, 0) || !utf8.ValidString(part) {
				return echo.ErrNotFound
			}
		}
		return next(c)
	}
}

// onlyForms lets a declared route that changes something read forms only, which is what browsers send.
func (s *server) onlyForms(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.routeOf(c).method == http.MethodPost {
			kind, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
			if err != nil || kind != echo.MIMEApplicationForm {
				return echo.ErrUnsupportedMediaType
			}
		}
		return next(c)
	}
}
