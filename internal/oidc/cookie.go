package oidc

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Cookies are the names and attributes that every cookie of the console has, which follow from its public URL.
type Cookies struct {
	Path   string // the public URL's path, "/" when it has none
	Secure bool
	prefix string
	suffix string
}

// CookiesFor derives them: __Host- at a host's root, __Secure- under a path, and on plain http, which must be loopback,
// the port in the name, for browsers share a host's cookies between its ports.
func CookiesFor(public *url.URL) (Cookies, error) {
	c := Cookies{Path: "/", Secure: public.Scheme == "https"}
	if path := strings.TrimRight(public.EscapedPath(), "/"); path != "" {
		c.Path = path
	}
	switch {
	case c.Secure && c.Path == "/":
		c.prefix = "__Host-"
	case c.Secure:
		c.prefix = "__Secure-"
	case public.Scheme != "http" || !IsLoopback(public.Hostname()):
		return Cookies{}, errors.New("the public URL is not https; plain http is for console dev alone, on loopback")
	default:
		c.suffix = "_" + portOf(public)
	}
	return c, nil
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return "80"
}

// Name is the whole name of the console's cookie that is called name.
func (c Cookies) Name(name string) string { return c.prefix + "ql3_" + name + c.suffix }

// Read is the value of a cookie, and "" when it is there twice: one of them was set by somebody else.
func (c Cookies) Read(r *http.Request, name string) string {
	cookies := r.CookiesNamed(c.Name(name))
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// Write sets a cookie that lives as long as the browser runs; "" removes it.
func (c Cookies) Write(w http.ResponseWriter, name, value string) { c.WriteFor(w, name, value, 0) }

// WriteFor sets a cookie that lives for a while, which is rounded down to seconds; 0 is as long as the browser runs.
func (c Cookies) WriteFor(w http.ResponseWriter, name, value string, d time.Duration) {
	cookie := &http.Cookie{Name: c.Name(name), Value: value, Path: c.Path, MaxAge: int(d.Seconds()), Secure: c.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

const (
	sessionCookie = "session"
	binderCookie  = "binder"
)

// Binder is the value that binds transactions to this browser, or "".
func (c Cookies) Binder(r *http.Request) string {
	binder := c.Read(r, binderCookie)
	if b, err := base64.RawURLEncoding.DecodeString(binder); err != nil || len(b) != 32 {
		return ""
	}
	return binder
}

// EnsureBinder is [Cookies.Binder], made and set when there is none.
func (c Cookies) EnsureBinder(w http.ResponseWriter, r *http.Request) string {
	if binder := c.Binder(r); binder != "" {
		return binder
	}
	binder := random()
	c.Write(w, binderCookie, binder)
	return binder
}
