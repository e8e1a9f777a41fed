package web

import (
	"context"
	"encoding/csv"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
)

func TestHarmless(t *testing.T) {
	got := harmless([]string{"", "plain", "=1+1", "+1", "-1", "@x", "\tx", "\rx", "\n=1", "＝1", "＋1", "－1", "＠x", "a=b", "'", "青=1"})
	want := []string{"", "plain", "'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "'\n=1", "'＝1", "'＋1", "'－1", "'＠x", "a=b", "'", "青=1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("harmless() (-want +got):\n%s", diff)
	}
}

// readCSV reads an answer as a spreadsheet does.
func readCSV(t *testing.T, res answered) [][]string {
	t.Helper()
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/csv") {
		t.Fatalf("GET = %d of %s, want CSV: %s", res.StatusCode, got, res.body)
	}
	rows, err := csv.NewReader(strings.NewReader(res.body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestCSVIsTheWholeList(t *testing.T) {
	w := newWorld(t)
	const more = exportPage + 5 // more than one reading, and more than a page
	pgtest.Exec(t, w.Super(t), `INSERT INTO ql3.runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', 'ql3:cron:v1:nightly:' || r.trigger_revision || ':' || (r.scheduled_for_ms - g),
		'scheduled_for_ms', r.scheduled_for_ms - g))).* FROM ql3.runs r CROSS JOIN generate_series(1, $1) g WHERE r.id = $2`, more, w.failed)
	h := w.handler(t, "")
	rows := readCSV(t, get(t, h, "/runs.csv?trigger=nightly"))
	if len(rows) != 1+1+more || rows[0][0] != "id" || rows[1][0] == "" {
		t.Fatalf("GET /runs.csv has %d rows, want the columns and %d Runs", len(rows), 1+more)
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		seen[row[0]] = true
	}
	if len(seen) != 1+more {
		t.Errorf("it has %d different Runs, want %d", len(seen), 1+more)
	}
	if rows := readCSV(t, get(t, h, "/runs.csv?status=failed")); len(rows) != 2+more || !strings.Contains(rows[1][11], hostile) {
		t.Errorf("GET /runs.csv?status=failed has %d rows, want %d, each with its summary as it is", len(rows), 2+more)
	}
	for target, want := range map[string]string{"/schedules.csv": "project", "/schedules/ops/nightly/account.csv": "at", "/schedules.csv?project=ops": "project"} {
		if rows := readCSV(t, get(t, h, target)); rows[0][0] != want {
			t.Errorf("GET %s begins %v, want %s", target, rows[0], want)
		}
	}
	const mark = "\ufeff"
	if res := get(t, h, "/runs.csv?project=ops&bom=1"); !strings.HasPrefix(res.body, mark+"id,") {
		t.Errorf("GET /runs.csv?bom=1 begins %.20q, want the mark", res.body)
	}
	if res := get(t, h, "/runs.csv"); strings.Contains(res.body, mark) {
		t.Error("GET /runs.csv has the mark that nobody asked for")
	}
	has(t, "the page", get(t, h, "/runs?status=failed"), `href="/runs.csv?bom=1&amp;status=failed"`)
	for _, target := range []string{"/runs?bom=1", "/runs.csv?bom=2", "/runs.csv?after=nonsense", "/runs.csv?before=nonsense", "/schedules.csv?after=nonsense", "/audit.csv?after=nonsense"} {
		if res := get(t, h, target); res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusForbidden {
			t.Errorf("GET %s = %d, want 400", target, res.StatusCode)
		}
	}
	if res := get(t, h, "/runs.csv?status=nonsense"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("GET /runs.csv with a status that there is not = %d, want 400", res.StatusCode)
	}
	c := config(t, w.Database, "")
	stranger := signIn(t, c, "stranger")
	grant(t, w.Database, stranger, policy.Viewer, "growth")
	if rows := readCSV(t, get(t, stranger.as(New(c)), "/runs.csv")); len(rows) != 1 {
		t.Errorf("the export of somebody who sees another Project has %d Runs", len(rows)-1)
	}
}

// deaf is a reader who has left.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A reader who leaves is no failure, and nothing more is read for them.
func TestCSVOfAReaderWhoLeft(t *testing.T) {
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/runs.csv", nil), deaf{httptest.NewRecorder()})
	read := 0
	err := writeCSV(c, func(yield func([]string, error) bool) {
		for read < 10*exportPage {
			if read++; !yield([]string{"a"}, nil) {
				return
			}
		}
	})
	if !errors.Is(err, context.Canceled) || read > exportPage {
		t.Errorf("writeCSV() = %v after %d rows, want context.Canceled after %d", err, read, exportPage)
	}
}

// A list that breaks off must not look whole.
func TestCSVThatBreaksOffIsNoCSV(t *testing.T) {
	broken := errors.New("the database is gone")
	after := func(n int) iter.Seq2[[]string, error] {
		return func(yield func([]string, error) bool) {
			for range n {
				if !yield([]string{"a"}, nil) {
					return
				}
			}
			yield(nil, broken)
		}
	}
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/runs.csv", nil), httptest.NewRecorder())
	if err := writeCSV(c, after(0)); !errors.Is(err, broken) || c.Response().Committed {
		t.Errorf("writeCSV() = %v before anything was written, want the error and no answer yet", err)
	}
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("writeCSV() went on after rows were written: %v", got)
		}
	}()
	_ = writeCSV(c, after(3))
}
