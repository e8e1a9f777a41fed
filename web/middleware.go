package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	bodyLimit   = 64 << 10
	requestTime = 5 * time.Second // a page that takes longer is answered from memory
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

// policy lets a page load the console's own style, script and icon, and nothing else from anywhere.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(next echo.HandlerFunc) echo.HandlerFunc {
	headers := [][2]string{
		{"Content-Security-Policy", policy},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "same-origin"},
		{"Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Cache-Control", "no-store"}, // the assets, which say so themselves, are the exception
	}
	return func(c echo.Context) error {
		for _, h := range headers {
			c.Response().Header().Set(h[0], h[1])
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

func limitTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), requestTime)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}
