package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// prefer sends the form of preferences and returns where it leads and the cookie it set.
func prefer(t *testing.T, h http.Handler, form url.Values) (int, string, *http.Cookie) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "https://console.example"+preferencesPath, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var cookie *http.Cookie
	for _, c := range w.Result().Cookies() {
		cookie = c
	}
	return w.Code, w.Header().Get("Location"), cookie
}

func TestPreferences(t *testing.T) {
	h := New(config(t, nil, ""))
	tests := []struct {
		name   string
		form   url.Values
		status int
		there  string
		value  string
	}{
		{"a language", url.Values{"language": {"zh-CN"}}, http.StatusSeeOther, "/", "zh-CN"},
		{"a theme, and back", url.Values{"theme": {"dark"}, "to": {"to=runs&q.status=failed"}}, http.StatusSeeOther, "/runs?status=failed", "dark"},
		{"the system's theme is no choice", url.Values{"theme": {"system"}}, http.StatusSeeOther, "/", ""},
		{"a language that there is not", url.Values{"language": {"tlh"}}, http.StatusBadRequest, "", ""},
		{"nothing", url.Values{}, http.StatusBadRequest, "", ""},
		{"back to another site", url.Values{"theme": {"dark"}, "to": {"https://evil.example/"}}, http.StatusSeeOther, "/", "dark"},
		{"back to what is no page", url.Values{"theme": {"dark"}, "to": {"to=nothing"}}, http.StatusSeeOther, "/", "dark"},
		{"back with what the page does not have", url.Values{"theme": {"dark"}, "to": {"to=runs&q.evil=1"}}, http.StatusSeeOther, "/", "dark"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, there, cookie := prefer(t, h, tt.form)
			if status != tt.status || there != tt.there {
				t.Errorf("POST %v = %d to %q, want %d to %q", tt.form, status, there, tt.status, tt.there)
			}
			if (cookie == nil) != (tt.status != http.StatusSeeOther) || cookie != nil && cookie.Value != tt.value {
				t.Errorf("POST %v set %v, want %q", tt.form, cookie, tt.value)
			}
		})
	}
}

func TestPagesAreInTheReadersLanguageAndTheme(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	_, _, chinese := prefer(t, h, url.Values{"language": {"zh-CN"}})
	_, _, dark := prefer(t, h, url.Values{"theme": {"dark"}})
	tests := []struct {
		name    string
		headers []string
		lang    string
		theme   string
	}{
		{"nothing is asked for", nil, "en", ""},
		{"the browser asks", []string{"Accept-Language", "zh-CN,zh;q=0.9"}, "zh-CN", ""},
		{"the reader chose", []string{"Cookie", chinese.String() + "; " + dark.String()}, "zh-CN", "dark"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, page := range append(w.pages(), "/nowhere", "/account") {
				body := get(t, h, page, append(tt.headers, "Accept", "text/html")...).body
				if !strings.Contains(body, `<html lang="`+tt.lang+`"`) || strings.Contains(body, `data-theme="dark"`) != (tt.theme == "dark") {
					t.Errorf("%s begins %.120q", page, body)
				}
				if tt.lang == "zh-CN" {
					seemsChinese(t, page, body)
				}
			}
		})
	}
}

var (
	tags    = regexp.MustCompile(`(?s)<(script|code|time|pre)[ >].*?</(script|code|time|pre)>|<[^>]*>`)
	english = regexp.MustCompile(`\b(the|is|are|of|not|with|when|from|was|has|this|that|nothing|Runs?|Schedules?|Triggers?)\b`)
)

// seemsChinese reports English words that a page says, other than those of the database.
func seemsChinese(t *testing.T, page, body string) {
	t.Helper()
	said := tags.ReplaceAllString(body, "\n")
	for line := range strings.SplitSeq(said, "\n") {
		if line = strings.TrimSpace(line); english.MatchString(line) && !strings.Contains(line, hostileName) && !strings.HasSuffix(line, " of reader") {
			t.Errorf("%s says %q", page, line)
		}
	}
}

// hostileName is in the name of the Task, which is nobody's to translate.
const hostileName = "alert(1)"

func TestEmbeddedPages(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "/x")
	for _, page := range w.pages() {
		body := get(t, h, "/x"+page+"?view=embed").body
		if !strings.Contains(body, `<base target="_top">`) {
			t.Errorf("links of %s?view=embed stay in the frame", page)
		}
		if strings.Contains(body, `class="side"`) || !strings.Contains(body, `target="_top"`) || !strings.Contains(body, `href="/x`+page+`"`) {
			t.Errorf("%s?view=embed has what surrounds a page, or no way to the whole one", page)
		}
	}
	for target, want := range map[string]int{"/x/runs?view=whole": 400, "/x/runs?view=embed&status=failed": 200, "/x/runs.json?view=embed": 200, "/x/account?view=embed": 200} {
		if res := get(t, h, target); res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", target, res.StatusCode, want)
		}
	}
}
