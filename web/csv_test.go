package web

import (
	"encoding/csv"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestHarmless(t *testing.T) {
	got := harmless([]string{"", "plain", "=1+1", "+1", "-1", "@x", "\tx", "\rx", "a=b", "'"})
	want := []string{"", "plain", "'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "a=b", "'"}
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
		t.Errorf("GET /runs.csv has %d rows, %v first; want the columns and %d Runs, the newest first", len(rows), rows[:2], 1+more)
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		seen[row[0]] = true
	}
	if len(seen) != 1+more {
		t.Errorf("it has %d different Runs, want %d", len(seen), 1+more)
	}
	if rows := readCSV(t, get(t, h, "/runs.csv?status=failed")); len(rows) != 2 || !strings.Contains(rows[1][11], hostile) {
		t.Errorf("GET /runs.csv?status=failed = %v, want the one Run, its summary as it is", rows)
	}
	for _, target := range []string{"/schedules.csv", "/schedules/ops/nightly/account.csv"} {
		if rows := readCSV(t, get(t, h, target)); len(rows) < 2 || len(rows[0]) != len(rows[1]) {
			t.Errorf("GET %s = %v", target, rows)
		}
	}
	if res := get(t, h, "/runs.csv?status=nonsense"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("GET /runs.csv with a status that there is not = %d, want 400", res.StatusCode)
	}
	growth := readCSV(t, get(t, reader(t, w.Database, "", "growth"), "/runs.csv"))
	if len(growth) != 1 {
		t.Errorf("somebody else's export has %v", growth)
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
