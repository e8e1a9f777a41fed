package oidc

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestCookies(t *testing.T) {
	tests := []struct{ public, name, path string }{
		{"https://ops.example", "__Host-ql3_session", "/"},
		{"https://ops.example/", "__Host-ql3_session", "/"},
		{"https://ops.example/console", "__Secure-ql3_session", "/console"},
		{"https://ops.example/a/b/", "__Secure-ql3_session", "/a/b"},
		{"http://localhost:8080", "ql3_session_8080", "/"},
		{"http://127.0.0.1/x", "ql3_session_80", "/x"},
		{"http://ops.example", "", ""},
		{"ftp://ops.example", "", ""},
	}
	for _, tt := range tests {
		c, err := CookiesFor(must(url.Parse(tt.public)))
		if (err == nil) != (tt.name != "") {
			t.Errorf("CookiesFor(%s) = %v", tt.public, err)
		} else if err == nil && (c.Name("session") != tt.name || c.Path != tt.path || c.Secure != strings.HasPrefix(tt.public, "https")) {
			t.Errorf("CookiesFor(%s) = %s on %s, want %s on %s", tt.public, c.Name("session"), c.Path, tt.name, tt.path)
		}
	}
}

func TestBinder(t *testing.T) {
	c := must(CookiesFor(must(url.Parse(testPublic))))
	name, good := c.Name(binderCookie), random()
	tests := []struct {
		name    string
		cookies []string
		want    string
	}{
		{"none", nil, ""},
		{"one", []string{good}, good},
		{"two: one is somebody else's", []string{good, random()}, ""},
		{"short", []string{"abc"}, ""},
		{"not base64", []string{strings.Repeat("!", 43)}, ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		for _, v := range tt.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: v})
		}
		if got := c.Binder(r); got != tt.want {
			t.Errorf("Binder() with %s = %q, want %q", tt.name, got, tt.want)
		}
		recorder := httptest.NewRecorder()
		if got := c.EnsureBinder(recorder, r); got == "" || (got == good) != (tt.want != "") {
			t.Errorf("EnsureBinder() with %s = %q", tt.name, got)
		}
		if set := len(recorder.Result().Cookies()); set == 1 == (tt.want != "") {
			t.Errorf("EnsureBinder() with %s sets %d cookies", tt.name, set)
		}
	}
}
