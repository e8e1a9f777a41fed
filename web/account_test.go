package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web/templates"
)

// life is a Trigger of every minute, and half an hour of its life.
type life struct {
	*pgtest.Database
	db   *pgxpool.Pool
	zero int64 // half an hour ago, a whole minute
}

func minutely(project, trigger string) string {
	return "projects:\n  - id: ops\n    name: Ops\n" + project + "    tasks:\n      - id: report\n        name: Report\n        command: [/bin/true]\n" +
		"        triggers: [{id: minutely, cron: '* * * * *', timezone: Asia/Tokyo, misfire: skip" + trigger + "}]\n"
}

func (l life) ms(minute float64) int64 { return l.zero + int64(minute*60_000) }

// exec runs sql as superuser with triggers and foreign keys off: it moves what happened to when it is to have happened.
func (l life) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	pgtest.Force(t, l.Super(t), sql, args...)
}

func (l life) event(t testing.TB, kind string, revision int64, first, last float64, latenessMS any, reason any) {
	t.Helper()
	l.exec(t, `INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, lateness_ms, reason, created_at_ms)
		VALUES ('ops', 'minutely', $1, $2, $3, $4, 1, $5, $6, $4)`, revision, kind, l.ms(first), l.ms(last), latenessMS, reason)
}

func (l life) publishedAt(t testing.TB, revision int, minute float64) {
	t.Helper()
	l.exec(t, `UPDATE ql3.trigger_revisions SET created_at_ms = $2 WHERE revision = $1`, revision, l.ms(minute))
}

// newLife: admitted up to minute 10; frozen until 17; republished disabled and enabled again; archived; forgotten at
// 25; blocked from 26 on.
func newLife(t testing.TB) life {
	t.Helper()
	d := pgtest.New(t)
	l := life{Database: d, db: d.Pool(t, migrations.RoleConsole)}
	l.zero = (runtest.Clock(t, l.db)/60_000 - 30) * 60_000
	runtest.Publish(t, d, minutely("", ""))
	for n := range 10 {
		runtest.Admit(t, d, "ops", "minutely", l.ms(float64(n+1)), l.ms(float64(n+1))+20)
	}
	runtest.Publish(t, d, minutely("", ", enabled: false"))
	runtest.Publish(t, d, minutely("", ""))
	for revision, minute := range map[int]float64{1: 0, 2: 20.5, 3: 22.5} {
		l.publishedAt(t, revision, minute)
	}
	l.exec(t, `DELETE FROM ql3.schedule_events`)
	l.exec(t, `INSERT INTO ql3.schedule_events (type, first_at_ms, last_at_ms, created_at_ms) VALUES ('unattended', $1, $2, $2)`, l.ms(10.5), l.ms(17.5))
	l.event(t, "skipped", 1, 11, 11, 390_000, "misfire policy "+hostile)
	l.event(t, "coalesced", 1, 12, 18, 330_000, nil)
	l.event(t, "superseded", 1, 19, 20, nil, "revision 2 was published")
	l.event(t, "archived", 3, 22.7, 22.7, nil, nil)
	l.event(t, "unarchived", 3, 24.5, 24.5, nil, nil)
	l.exec(t, `UPDATE ql3.trigger_schedules SET base_at_ms = $1, next_fire_at_ms = $2, blocked_reason = $3`, l.ms(24.5), l.ms(26), hostile+"\u202e\x07")
	return l
}

func TestAccountPage(t *testing.T) {
	l := newLife(t)
	h := reader(t, l.Database, "/x")
	page := get(t, h, "/x/schedules/ops/minutely?account=hour").body
	for _, want := range []string{
		"Why did it (not) run?", "expected instants:", "1 UNACCOUNTED, ", " blocked, 10 admitted, 1 skipped, 7 coalesced, 2 superseded, 2 disabled, 2 archived.",
		"1 instant is unaccounted for,", "Became a Run, 20 ms late.", "Asia/Tokyo", " JST",
		"It was 6 min 30 s late when a replica looked, and too late to run: misfire policy &lt;script&gt;", "No replica was running then.",
		"the oldest of this backlog was 5 min 30 s late", "Due, but not yet admitted when revision 2 was published.",
		"Revision 2 of the Trigger was in force, and it or its Task was disabled.", "The Project was archived", "(1 min 48 s)",
		"Cannot be decided: &lt;script&gt;", "nothing is recorded of this instant", "6 instants", "(7 min)",
		`href="/x/schedules/ops/minutely/account.json?account=hour"`, `href="/x/schedules/ops/minutely?account=week#account"`, `class="loud"`, `class="spell"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "<script>alert") || strings.ContainsAny(page, "\u202e\x07") {
		t.Error("a recorded reason comes through as markup or as invisible controls")
	}
	if m := style.FindString(page); m != "" {
		t.Errorf("the page has inline script or style: %q", m)
	}
}

func TestAccountRangesAreInTheAddress(t *testing.T) {
	l := newLife(t)
	h := reader(t, l.Database, "")
	one, day := rfc3339(l.ms(12)), time.UnixMilli(l.zero).UTC().AddDate(0, 0, -2).Format(time.DateOnly)
	tests := []struct{ name, query, says string }{
		{"both ends belong to it", "from=" + one + "&to=" + one, "Of 1 expected instant:</b> 1 coalesced."},
		{"without an end it lasts until now", "from=" + rfc3339(l.ms(9)) + "&to=", " 2 admitted, 1 skipped, 7 coalesced"},
		{"without a beginning it is of a day", "to=" + rfc3339(l.ms(3)), "Of 3 expected instants:</b> 3 admitted."},
		{"nothing expected", "to=" + rfc3339(l.ms(0)), "No instant was expected in this range."},
		{"further back than is known", "from=-100d", "It is kept for 90 days; what is older is not known any more."},
		{"the form keeps what was asked", "from=-2h&to=-1h", `name="from" value="-2h"`},
		{"a day of the reader's own zone is to its end", "from=" + day + "&to=" + day + "&zone=Asia/Shanghai", `datetime="` + day + `T15:59:59.999Z"`},
		{"the zone is kept", "from=yesterday&zone=Europe/Berlin", `name="zone" value="Europe/Berlin"`},
		{"a time of day", "from=23:30", `name="from" value="23:30"`},
		{"usually a day", "", `aria-current="true">last day<`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := get(t, h, "/schedules/ops/minutely?"+tt.query)
			text := strings.Join(strings.Fields(res.body), " ")
			if res.StatusCode != http.StatusOK || !strings.Contains(strings.NewReplacer("<b class=\"\"> ", "", " </b>", "</b>").Replace(text), tt.says) {
				t.Errorf("GET ?%s = %d, not saying %q", tt.query, res.StatusCode, tt.says)
			}
		})
	}
}

// A range that is none is corrected where it was typed, and an address that makes no sense leads to the Schedule.
func TestWrongAccountRangeKeepsItsForm(t *testing.T) {
	l := newLife(t)
	h := reader(t, l.Database, "")
	page := "/schedules/ops/minutely"
	tests := []struct {
		name, query string
		says        []string
	}{
		{"no time", "?from=nonsense&to=23:30", []string{`value="nonsense"`, `aria-describedby="from-wrong"`, "is no time. Write one like 23:30", `name="to" value="23:30"`, "Nothing was looked up.", "Last Runs"}},
		{"no time, last", "?to=25:00", []string{`aria-describedby="to-wrong"`}},
		{"ends before it begins", "?from=-1h&to=-2h", []string{`aria-describedby="to-wrong"`, "to is earlier than from", `name="from" value="-1h"`}},
		{"both kinds of range", "?account=day&from=-1h", []string{"Give either account, or from and to.", "Nothing was looked up."}},
		{"no such parameter", "?nope=1", []string{"There is no parameter", "begin again from the Schedule", `href="/schedules/ops/minutely"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := get(t, h, page+tt.query)
			has(t, "the page", res, tt.says...)
			hasNot(t, "the page", res, "live.js", "from the list without filters")
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("GET %s = %d, want 400", tt.query, res.StatusCode)
			}
			if res := get(t, h, page+tt.query, "Accept", "application/json"); res.StatusCode != http.StatusBadRequest || res.Header.Get("Content-Type") != problemType {
				t.Errorf("as JSON it is %d of %s, want problem details", res.StatusCode, res.Header.Get("Content-Type"))
			}
		})
	}
}

// Nobody waits for a Run of a Trigger that has none coming.
func TestScheduleWithoutRunsSaysWhenOneComes(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, minutely("", ", enabled: false"))
	h := reader(t, d, "")
	has(t, "a disabled Trigger", get(t, h, "/schedules/ops/minutely"), "It is disabled: none appears until it is enabled.")
	runtest.Publish(t, d, minutely("", ""))
	has(t, "an enabled one", get(t, h, "/schedules/ops/minutely"), "The first one appears when the next occurrence is admitted.")
}

// The account as JSON: its shape is a promise.
func TestAccountJSON(t *testing.T) {
	l := newLife(t)
	h := reader(t, l.Database, "")
	query := "?from=" + rfc3339(l.ms(10)) + "&to=" + rfc3339(l.ms(12))
	want, err := os.ReadFile("testdata/account.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/schedules/ops/minutely/account", "/schedules/ops/minutely/account.json"} {
		res := get(t, h, target+query, "Accept", "text/html")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s = %d %s, want JSON", target, res.StatusCode, res.Header.Get("Content-Type"))
		}
		got := regexp.MustCompile(`"[0-9a-f-]{36}"`).ReplaceAllString(res.body, `"ID"`)
		got = regexp.MustCompile(`\b[0-9]{13}\b`).ReplaceAllString(got, "0")
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("GET %s (-want +got):\n%s", target, diff)
		}
	}
	bad := get(t, h, "/schedules/ops/minutely/account?from=-1h&to=-2h", "Accept", "text/html")
	var details problemDetails
	if err := json.Unmarshal([]byte(bad.body), &details); err != nil || details.Status != http.StatusBadRequest || !strings.Contains(details.Detail, "to is earlier than from") {
		t.Errorf("GET of a range that ends before it begins = %d %s, want problem details", bad.StatusCode, bad.body)
	}
}

// A Trigger may be called account, or end in .json: its own name comes first.
func TestAccountIsNotMistakenForATrigger(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, strings.ReplaceAll(minutely("", ""), "minutely", "account.json"))
	h := reader(t, d, "")
	for target, want := range map[string]int{"/schedules/ops/account.json": 200, "/schedules/ops/account.json/account": 200, "/schedules/ops/account.json/account.json": 200,
		"/schedules/ops/account": 404, "/schedules/ops/account/account": 404} {
		if res := get(t, h, target, "Accept", "text/html"); res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", target, res.StatusCode, want)
		}
	}
}

// The largest page an account can make: nothing to fold, every row with a Run, and every reason as long as it may be.
func TestLargestAccountIsSmall(t *testing.T) {
	a := scheduler.Account{NowMS: 1_795_000_000_000, ToMS: 1_795_000_000_000}
	for n := range int64(scheduler.MaxInstants) {
		i := scheduler.Instant{AtMS: a.NowMS - n*10_000, Revision: 1, Verdict: scheduler.WasAdmitted, LatenessMS: new(n * 37 % 9973), RunStatus: "failed"}
		if n%9 > 6 {
			i.Verdict, i.Reason = scheduler.WasSkipped, strings.Repeat(string(rune('a'+n%26)), 480)
		} else {
			i.RunID = new(uuid.New())
		}
		a.Instants = append(a.Instants, i)
	}
	for n := range int64(10) {
		a.Spells = append(a.Spells, scheduler.Spell{FromMS: a.NowMS - 300_000 + n*30_000, ToMS: a.NowMS - 280_000 + n*30_000})
	}
	page := renderAccount(t, a)
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	zw.Write(page)
	zw.Close()
	t.Logf("%d bytes, %d compressed", len(page), buf.Len())
	if buf.Len() > 40_000 {
		t.Errorf("the largest account is %d bytes compressed, want at most 40000", buf.Len())
	}
}

func renderAccount(t testing.TB, a scheduler.Account) []byte {
	t.Helper()
	s := newServer(config(t, nil, ""))
	c := echo.New().NewContext(httptest.NewRequest("GET", "/", nil), httptest.NewRecorder())
	d := scheduler.Detail{Summary: scheduler.Summary{ProjectID: "ops", TriggerID: "minutely", Content: `{"cron":"* * * * *"}`}, NowMS: a.NowMS}
	page := s.schedulePage(c, d, scheduler.Plan{})
	page.Account = s.accountSection(d, scheduler.Plan{}, accountRange{}, a, fullLane(a))
	var buf bytes.Buffer
	if err := templates.SchedulePage(page).Render(context.Background(), &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// fullLane has as many columns as a lane has, each with all that may be in one.
func fullLane(a scheduler.Account) (l scheduler.Lane) {
	part := (a.ToMS - a.FromMS) / (maxParts - 2)
	for k := range int64(maxParts - 1) {
		p := scheduler.Part{FromMS: a.FromMS + k*part, ToMS: a.FromMS + (k+1)*part, Instants: 500, Failed: int(k % 7), ByVerdict: map[scheduler.Verdict]int{}}
		for i, v := range verdicts {
			p.ByVerdict[v] = 40 + i + int(k)%11
		}
		l.Parts = append(l.Parts, p)
	}
	return l
}

// A day of a Trigger of every ten seconds, all admitted but one backlog: the page must be there within about 50 ms.
func BenchmarkAccountOfTenSeconds(b *testing.B) {
	d := pgtest.New(b)
	l := life{Database: d, db: d.Pool(b, migrations.RoleConsole)}
	runtest.Publish(b, d, strings.ReplaceAll(minutely("", ""), "'* * * * *'", "'*/10 * * * * *'"))
	l.zero = runtest.Clock(b, l.db) / 10_000 * 10_000
	first := runtest.Admit(b, d, "ops", "minutely", l.zero, l.zero+5)
	l.exec(b, `UPDATE ql3.trigger_revisions SET created_at_ms = $1`, l.ms(-1440))
	l.exec(b, `INSERT INTO ql3.runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'scheduled_for_ms', r.scheduled_for_ms - n * 10000,
		'created_at_ms', r.created_at_ms - n * 10000, 'queued_at_ms', r.queued_at_ms - n * 10000, 'idempotency_key',
			'ql3:cron:v1:minutely:1:' || r.scheduled_for_ms - n * 10000))).*
		FROM ql3.runs r, generate_series(1, 8639) n WHERE r.id = $1 AND n NOT BETWEEN 900 AND 1200`, first)
	l.exec(b, `UPDATE ql3.trigger_schedules SET next_fire_at_ms = $1, base_at_ms = $2`, l.zero+10_000, l.ms(-1440))
	l.event(b, "coalesced", 1, -1440, -1, 1, nil)
	l.exec(b, `ANALYZE ql3.runs`)
	h := reader(b, d, "")
	for b.Loop() {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "https://console.example/schedules/ops/minutely?account=day", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("GET = %d %s", w.Code, w.Body)
		}
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
}
