package web

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/scheduler"
)

const fuzzNowMS = 1_764_439_082_000

// saysWhy holds a refusal to being one: the reader's own fault, with words that are text.
func saysWhy(t *testing.T, what string, err error) {
	t.Helper()
	p, ok := errors.AsType[problem](err)
	if !ok || p.status != http.StatusBadRequest || p.what.Empty() || !utf8.ValidString(p.what.String()) || strings.ContainsRune(p.what.String(), 0) {
		t.Errorf("%s is refused with %#v, want a bad request that says why", what, err)
	}
}

// askedWith is a request with that query, as a handler has it.
func askedWith(rawQuery string) echo.Context {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/", RawQuery: rawQuery}, Header: http.Header{}}
	return echo.New().NewContext(r, httptest.NewRecorder())
}

// Whatever a query holds, it is refused with a reason, or is what its page may be asked for, each once, and means the same
// when it is written anew.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "status=failed,lost&since=-2h", "status=failed,failed,", "project=ops&task=a%20b&q=%E5%8F%91", "after=1764439082000_0198c1a2-0000-7000-8000-000000000001", "before=1",
		"view=embed", "view=embed&view=embed", "status=failed;origin=retry", "q=%00", "q=%ff", "q=a&q=b", "color=red", "since=2025-11-29T18:00:00%2B08:00", "until=-0h", "%zz", "account=week",
		"from=-2h&to=-1h", "from=-1h&to=-2h", "from=-90d", "state=due&after=1_ops/nightly", "outcome=denied&run=0198c1a2-0000-7000-8000-000000000001&user=x", "group=error", "status=" + strings.Repeat("failed,", 40)} {
		f.Add(s)
	}
	names := slices.Concat(runsQuery, auditQuery, schedulesQuery, scheduleQuery)
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := query(askedWith(raw), names...)
		if err != nil {
			saysWhy(t, fmt.Sprintf("the query %q", raw), err)
			return
		}
		for name, values := range q {
			if !slices.Contains(append(names, viewParameter), name) || len(values) != 1 || len(values[0]) > maxValue || !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0) {
				t.Errorf("query(%q) lets %q=%q through", raw, name, values)
			}
		}
		again, err := query(askedWith(q.Encode()), names...)
		if diff := cmp.Diff(q, again); len(q.Encode()) <= maxQuery && (err != nil || diff != "") {
			t.Errorf("query(%q), written anew: %v (-first +second)\n%s", raw, err, diff)
		}
		readFilters(t, q)
	})
}

// readFilters reads what every list reads of a query.
func readFilters(t *testing.T, q url.Values) {
	t.Helper()
	v := viewer{nowMS: fuzzNowMS, projects: []policy.Binding{{ProjectID: "ops"}, {ProjectID: "growth"}}}
	runs, runsErr := runFilter(q, v)
	_, auditErr := auditFilter(q, v)
	_, schedulesErr := scheduleFilter(q, v)
	account, accountErr := rangeOf(q, fuzzNowMS)
	at, afterErr := place("after", q, pg.ParseCursor)
	_, beforeErr := place("before", q, scheduler.ParseCursor)
	for _, err := range []error{runsErr, auditErr, schedulesErr, accountErr, afterErr, beforeErr} {
		if err != nil {
			saysWhy(t, fmt.Sprint(q), err)
		}
	}
	if runsErr == nil {
		again, err := anyOf("status", spelled(runs.Statuses), run.RunStatuses())
		if err != nil || !slices.Equal(again, runs.Statuses) || runs.SinceMS < 0 || runs.UntilMS < 0 {
			t.Errorf("runFilter(%v) = %+v, whose statuses written anew are %v, %v", q, runs, again, err)
		}
		if len(runs.Projects) > 1 && q.Get("project") != "" {
			t.Errorf("runFilter(%v) looks into %q", q, runs.Projects)
		}
	}
	if accountErr == nil && (account.fromMS > account.toMS || account.fromMS > fuzzNowMS) {
		t.Errorf("rangeOf(%v) = %+v", q, account)
	}
	if afterErr == nil && at != nil && at.String() != q.Get("after") {
		t.Errorf("the place %q is spelled %q", q.Get("after"), at)
	}
}

// Whatever a form holds, it is refused with a reason, or has one reason that is text, and Runs that are named as the console
// names them.
func FuzzForm(f *testing.F) {
	const id = "0198c1a2-0000-7000-8000-000000000001"
	for _, s := range []string{"", "reason=because&mutation=" + id + "&status=failed&version=3&newest=" + id, "reason=%0d%0aa%0d%0a", "reason=%ff", "reason=a&reason=b", "version=9999999999999999999", "version=-1",
		"action=retry&run=" + id + "&unsafe=" + id + "/" + id + "&sure=1", "action=delete", "run=" + strings.ToUpper(id), "run={" + id + "}", "run=" + id + "/", "run=urn:uuid:" + id, "asked=1", "%zz=", "a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		form, err := readChoice(echo.New().NewContext(r, httptest.NewRecorder()))
		if err != nil {
			saysWhy(t, fmt.Sprintf("the form %q", body), err)
			return
		}
		if !utf8.ValidString(form.reason) || strings.ContainsRune(form.reason, 0) || form.reason != strings.TrimSpace(form.reason) || strings.Contains(form.reason, "\r\n") {
			t.Errorf("the form %q has the reason %q", body, form.reason)
		}
		if len(form.runs) != len(r.PostForm["run"])+len(r.PostForm["unsafe"]) {
			t.Errorf("the form %q names %d Runs", body, len(form.runs))
		}
		for i, value := range slices.Concat(r.PostForm["run"], r.PostForm["unsafe"]) {
			if one := form.runs[i]; chosenValue(one.Run, one.NewestRetry) != value {
				t.Errorf("the form %q: %q is taken for %+v", body, value, one)
			}
		}
	})
}

// Places in a batch are refused, or are places of it.
func FuzzParsePlaces(f *testing.F) {
	for _, s := range []string{"", "1", "1,3", "3,1,1", "0", "4", "+1", "01", "1,", ",", "99999999999999999999", "-1", "１"} {
		f.Add(s)
	}
	members := make([]runmgmt.BatchMember, 3)
	for i := range members {
		members[i].RunID = uuid.UUID{15: byte(i + 1)}
	}
	f.Fuzz(func(t *testing.T, places string) {
		x, ok := parsePlaces(places, members)
		if !ok {
			return
		}
		again, ok := parsePlaces(x.places(members), members)
		if len(x) > len(members) || !ok || x.places(members) != again.places(members) {
			t.Errorf("parsePlaces(%q) = %v, and written anew %v, %t", places, x, again, ok)
		}
		for id := range x {
			if !slices.ContainsFunc(members, func(m runmgmt.BatchMember) bool { return m.RunID == id }) {
				t.Errorf("parsePlaces(%q) chooses %s, which is no Run of the batch", places, id)
			}
		}
	})
}

// What an address is, no header changes: an export stays one, JSON stays JSON, and only what a stream keeps current is streamed,
// and never to a browser that asks for a page.
func FuzzMedium(f *testing.F) {
	for _, accept := range []string{"", "text/html", "application/json", "TEXT/EVENT-STREAM", "text/event-stream, text/html", "application/problem+json;q=0.1", "*/*", "jsonp,\x00"} {
		f.Add(accept, "GET", "")
		f.Add(accept, "HEAD", "empty")
	}
	s := newServer(config(f, nil, "/x"))
	f.Fuzz(func(t *testing.T, accept, method, dest string) {
		for key, r := range s.declared {
			of, path, _ := strings.Cut(key, " ")
			if of != method {
				continue
			}
			request := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"Accept": {accept}, "Sec-Fetch-Dest": {dest}}}
			c := echo.New().NewContext(request, httptest.NewRecorder())
			c.SetPath(path)
			got := s.mediumOf(c)
			asksPage := strings.Contains(strings.ToLower(accept), "text/html")
			switch {
			case (got == asCSV) != r.csv, (r.json || strings.HasSuffix(path, ".json")) && got != asJSON:
				t.Errorf("%s with Accept %q is medium %d", key, accept, got)
			case got == asStream && (!r.live || method != http.MethodGet || asksPage):
				t.Errorf("%s with Accept %q is a stream", key, accept)
			case s.isVisit(c) && (got == asJSON || dest == "empty"):
				t.Errorf("%s with Accept %q for %q is taken for a page that somebody opens", key, accept, dest)
			}
		}
	})
}

// A cell comes back from a file as it was written, but for carriage returns, which encoding/csv writes at the end of lines
// alone, and is no formula to a spreadsheet.
func FuzzHarmlessCell(f *testing.F) {
	for _, s := range []string{"", "plain", "=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1", "\"=1", "a,b", "a\"b", " =1", "'=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		if !utf8.ValidString(cell) {
			return // the database has none
		}
		want := harmless([]string{cell, "last"})
		if got := want[0]; got != cell && got != "'"+cell || strings.IndexAny(got, "=+-@\t\r\n＝＋－＠") == 0 {
			t.Errorf("harmless(%q) = %q", cell, got)
		}
		var file strings.Builder
		w := csv.NewWriter(&file)
		w.UseCRLF = true
		w.Write(want)
		w.Flush()
		got, err := csv.NewReader(strings.NewReader(file.String())).Read()
		if err != nil || len(got) != 2 || strings.ReplaceAll(got[0], "\r", "") != strings.ReplaceAll(want[0], "\r", "") {
			t.Errorf("the cell %q is read back as %q, %v", cell, got, err)
		}
	})
}

// What a reader prefers leads back to a page of this console and to no other, and is remembered in one of the words that
// there are.
func FuzzPreferences(f *testing.F) {
	for _, s := range []string{"language=zh-CN", "theme=dark&to=to%3Druns", "theme=system", "theme=dark&to=https%3A%2F%2Fevil.example%2F", "language=tlh", "to=//evil.example&theme=light", "language=en&language=zh-CN", "%zz"} {
		f.Add(s)
	}
	s := newServer(config(f, nil, "/x/y"))
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/x/y"+preferencesPath, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if err := s.prefer(echo.New().NewContext(r, w)); err != nil {
			saysWhy(t, fmt.Sprintf("the form %q", body), err)
			return
		}
		if there := w.Header().Get("Location"); w.Code != http.StatusSeeOther || !below("/x/y", there) {
			t.Errorf("the form %q leads to %q", body, there)
		}
		for _, cookie := range w.Result().Cookies() {
			if !slices.Contains([]string{"", "light", "dark", "en", "zh-CN"}, cookie.Value) {
				t.Errorf("the form %q sets %v", body, cookie)
			}
		}
	})
}
