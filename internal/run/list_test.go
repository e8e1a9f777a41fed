package run_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/migrations"
)

// retryOf puts a retry of source, by user, into the database as it is once it has ended with status.
func retryOf(t *testing.T, super *pgxpool.Pool, source, user uuid.UUID, status run.Status, atMS int64) uuid.UUID {
	t.Helper()
	id := run.NewID(atMS)
	pgtest.Force(t, super, `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, trigger_type,
			execution_origin, triggered_by, step_up_proof_id, status, idempotency_key, created_at_ms, queued_at_ms, started_at_ms, finished_at_ms)
		SELECT $1, project_id, task_id, task_revision, task_name, task_snapshot_ref, id, 'run_manual_retry',
			'manual', $3, $1, $4, 'ql3:run-manual-retry:v1:' || $1::uuid, $5, $5, $5, $5 FROM runs WHERE id = $2`, id, source, user.String(), string(status), atMS)
	return id
}

// person puts a User into the database.
func person(t *testing.T, super *pgxpool.Pool, name, email string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	pgtest.Exec(t, super, `INSERT INTO users (id, issuer, subject, name, email, created_at_ms, updated_at_ms) VALUES ($1, 'https://idp', $2, $3, $4, 1, 1)`,
		id, id.String(), name, email)
	return id
}

func TestListByOriginAndText(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	nightly := runtest.Admit(t, d, "ops", "nightly", now-5*hour, now-5*hour)
	hourly := runtest.Admit(t, d, "ops", "hourly", now-2*hour, now-2*hour)
	daily := runtest.Admit(t, d, "growth", "daily", now-hour, now-hour)
	mei := person(t, super, "Mei Lin", "mei@example.org")
	retried := retryOf(t, super, nightly, mei, run.Succeeded, now-1000)
	elsewhere := retryOf(t, super, daily, person(t, super, "Meister", "m@example.org"), run.Failed, now-500)

	both, ops := []string{"ops", "growth"}, []string{"ops"}
	tests := []struct {
		name   string
		filter run.Filter
		want   []uuid.UUID
	}{
		{"retries", run.Filter{Projects: both, Origin: run.Retried}, []uuid.UUID{elsewhere, retried}},
		{"retries of one Project", run.Filter{Projects: ops, Origin: run.Retried}, []uuid.UUID{retried}},
		{"retries of a Task", run.Filter{Projects: both, Origin: run.Retried, TaskID: "digest"}, []uuid.UUID{elsewhere}},
		{"retries of a status", run.Filter{Projects: both, Origin: run.Retried, Statuses: []run.Status{run.Failed}}, []uuid.UUID{elsewhere}},
		{"a Trigger makes no retries", run.Filter{Projects: both, Origin: run.Retried, TriggerID: "nightly"}, nil},
		{"nor does one that the text names", run.Filter{Projects: both, Origin: run.Retried, Text: "hourly"}, nil},
		{"retries, and what names a Task and a Trigger", run.Filter{Projects: both, Origin: run.Retried, Text: "nightly"}, []uuid.UUID{retried}},
		{"scheduled", run.Filter{Projects: both, Origin: run.Scheduled}, []uuid.UUID{daily, hourly, nightly}},
		{"scheduled, of a Task and a Trigger", run.Filter{Projects: both, Origin: run.Scheduled, TaskID: "report", TriggerID: "hourly"}, []uuid.UUID{hourly}},
		{"a Trigger of another Task", run.Filter{Projects: both, TaskID: "digest", TriggerID: "hourly"}, nil},
		{"statuses and Projects named twice", run.Filter{Projects: []string{"ops", "ops"}, Statuses: []run.Status{run.Queued, run.Queued}}, []uuid.UUID{hourly, nightly}},
		{"a Task's id", run.Filter{Projects: both, Text: "report"}, []uuid.UUID{retried, hourly, nightly}},
		{"a Task's name, in capitals", run.Filter{Projects: both, Text: "NIGHTLY REPORT"}, []uuid.UUID{retried, hourly, nightly}},
		{"a Trigger's id, and a Task's name too", run.Filter{Projects: both, Text: "nightly"}, []uuid.UUID{retried, hourly, nightly}},
		{"part of a Trigger's id", run.Filter{Projects: both, Text: " hour "}, []uuid.UUID{hourly}},
		{"text and status", run.Filter{Projects: both, Text: "report", Statuses: []run.Status{run.Succeeded}}, []uuid.UUID{retried}},
		{"text and Trigger", run.Filter{Projects: both, Text: "report", TriggerID: "hourly"}, []uuid.UUID{hourly}},
		{"text and time", run.Filter{Projects: both, Text: "report", SinceMS: now - 3*hour, UntilMS: now - hour}, []uuid.UUID{hourly}},
		{"a user's name", run.Filter{Projects: both, Text: "mei lin"}, []uuid.UUID{retried}},
		{"a user's address", run.Filter{Projects: both, Text: "mei@"}, []uuid.UUID{retried}},
		{"two users", run.Filter{Projects: both, Text: "mei"}, []uuid.UUID{elsewhere, retried}},
		{"a user's retries of another Project", run.Filter{Projects: ops, Text: "meister"}, nil},
		{"an id", run.Filter{Projects: both, Text: nightly.String()}, []uuid.UUID{nightly}},
		{"the beginning of an id", run.Filter{Projects: both, Text: nightly.String()[:16]}, []uuid.UUID{nightly}},
		{"an id and a status", run.Filter{Projects: both, Text: nightly.String(), Statuses: []run.Status{run.Failed}}, nil},
		{"an id and a time", run.Filter{Projects: both, Text: nightly.String(), SinceMS: now - hour}, nil},
		{"an id in another Project", run.Filter{Projects: ops, Text: daily.String()}, nil},
		{"a Task in another Project", run.Filter{Projects: ops, Text: "digest"}, nil},
		{"a Trigger in another Project", run.Filter{Projects: ops, Text: "daily"}, nil},
		{"nothing is a wildcard", run.Filter{Projects: both, Text: "%"}, nil},
		{"blanks restrict nothing", run.Filter{Projects: ops, Text: "  "}, []uuid.UUID{retried, hourly, nightly}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page, err := run.List(t.Context(), q, tt.filter, nil, 50)
			if diff := cmp.Diff(tt.want, ids(page.Runs)); err != nil || diff != "" || page.Next != nil || page.Prev != nil {
				t.Errorf("List(%+v): %v, %v to %v, (-want +got)\n%s", tt.filter, err, page.Prev, page.Next, diff)
			}
			counts, err := run.CountByStatus(t.Context(), q, tt.filter)
			if want := tally(page.Runs); err != nil || len(tt.filter.Statuses) == 0 && cmp.Diff(want, counts) != "" {
				t.Errorf("CountByStatus(%+v) = %v, %v, want %v", tt.filter, counts, err, want)
			}
		})
	}
}

func tally(list []run.Summary) map[run.Status]run.Count {
	counts := map[run.Status]run.Count{}
	for _, r := range list {
		counts[r.Status] = run.Count{N: counts[r.Status].N + 1}
	}
	return counts
}

// asked is those of all that f asks for, as somebody would find them who read every Run there is. Only mei has retried, and
// nobody a retry.
func asked(all []run.Summary, f run.Filter) (list []run.Summary) {
	retried := map[uuid.UUID]bool{}
	for _, r := range all {
		if r.RetryOf != nil {
			retried[*r.RetryOf] = true
		}
	}
	for _, r := range all {
		words, trigger := []string{r.TaskID, strings.ToLower(r.TaskName)}, ""
		if r.RetryOf != nil {
			words = append(words, "mei lin", "mei@example.org")
		} else {
			trigger = *r.TriggerID
		}
		if slices.Contains(f.Projects, r.ProjectID) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) &&
			(f.Origin == "" || f.Origin == run.Retried == (r.RetryOf != nil)) && (f.TaskID == "" || f.TaskID == r.TaskID) &&
			(f.TriggerID == "" || f.TriggerID == trigger) && r.CreatedAtMS >= f.SinceMS && !(f.Unanswered && retried[r.ID]) &&
			slices.ContainsFunc(append(words, trigger), func(word string) bool { return strings.Contains(word, f.Text) }) {
			list = append(list, r)
		}
	}
	return list
}

// Whatever the filter and the size of the pages, a list is what its filter asks for, and its pages are the list, forwards
// and backwards.
func TestPagesOfEveryFilterAreTheList(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	user := person(t, super, "Mei Lin", "mei@example.org")
	for i := range int64(30) {
		trigger := []string{"nightly", "hourly"}[i%2]
		source := runtest.Admit(t, d, "ops", trigger, now-i*hour, now-i/4*hour) // four of each millisecond
		runtest.Admit(t, d, "growth", "daily", now-i*hour, now-i/3*hour)
		if i%3 == 0 {
			retryOf(t, super, source, user, []run.Status{run.Failed, run.Succeeded}[i%2], now-i/4*hour+1)
		}
	}
	all, err := run.List(t.Context(), q, run.Filter{Projects: []string{"growth", "ops"}}, nil, run.MaxPage)
	if err != nil || len(all.Runs) != 70 {
		t.Fatalf("List() = %d Runs, %v, want 70", len(all.Runs), err)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := run.Filter{
			Projects:   rapid.SampledFrom([][]string{{"ops"}, {"growth"}, {"ops", "growth"}}).Draw(t, "projects"),
			Statuses:   rapid.SampledFrom([][]run.Status{nil, {run.Failed}, {run.Queued, run.Succeeded}}).Draw(t, "statuses"),
			Origin:     rapid.SampledFrom(append(run.Origins(), "")).Draw(t, "origin"),
			TaskID:     rapid.SampledFrom([]string{"", "report", "digest"}).Draw(t, "task"),
			Text:       rapid.SampledFrom([]string{"", "", "mei", "nightly", "daily", "r"}).Draw(t, "text"),
			SinceMS:    rapid.SampledFrom([]int64{0, now - 4*hour}).Draw(t, "since"),
			Unanswered: rapid.Bool().Draw(t, "unanswered"),
		}
		f.TriggerID = rapid.SampledFrom([]string{"", "hourly"}).Draw(t, "trigger")
		n := rapid.IntRange(1, 9).Draw(t, "n")
		whole, err := run.List(t.Context(), q, f, nil, run.MaxPage)
		if err != nil || whole.Next != nil {
			t.Fatalf("List(%+v) = next %v, %v", f, whole.Next, err)
		}
		if diff := cmp.Diff(ids(asked(all.Runs, f)), ids(whole.Runs)); diff != "" {
			t.Errorf("%+v (-asked for +found)\n%s", f, diff)
		}
		forwards, last := pages(t, q, f, n)
		if diff := cmp.Diff(ids(whole.Runs), forwards); diff != "" {
			t.Errorf("pages of %d of %+v (-whole +pages)\n%s", n, f, diff)
		}
		if diff := cmp.Diff(ids(whole.Runs), backwards(t, q, f, last, n)); diff != "" {
			t.Errorf("pages of %d of %+v from the end (-whole +pages)\n%s", n, f, diff)
		}
	})
}

// Where the heads of the lanes end at one instant, the ids say which Runs are on the page: here all of a lane's come before
// the other's, though the other's head is of the same instant.
func TestPagesOfOneInstant(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	runtest.Admit(t, d, "ops", "hourly", now, now)
	runtest.Admit(t, d, "growth", "daily", now, now)
	pgtest.Force(t, super, `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
			trigger_content_digest, scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
		SELECT lpad(to_hex(CASE project_id WHEN 'ops' THEN n ELSE 100 + n END), 32, '0')::uuid, project_id, task_id, task_revision, task_name, task_snapshot_ref,
			trigger_id, trigger_revision, trigger_content_digest, n, 'cron', 'scheduled', 'queued', 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || n, $1, $1
		FROM runs, generate_series(1, 20) n`, now-hour)
	f := run.Filter{Projects: []string{"growth", "ops"}, Statuses: run.RunStatuses()} // which makes many lanes
	whole, err := run.List(t.Context(), q, f, nil, run.MaxPage)
	if err != nil || len(whole.Runs) != 42 {
		t.Fatalf("List() = %d Runs, %v, want 42", len(whole.Runs), err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		forwards, last := pages(t, q, f, n)
		if diff := cmp.Diff(ids(whole.Runs), forwards); diff != "" {
			t.Errorf("pages of %d (-whole +pages)\n%s", n, diff)
		}
		if diff := cmp.Diff(ids(whole.Runs), backwards(t, q, f, last, n)); diff != "" {
			t.Errorf("pages of %d from the end (-whole +pages)\n%s", n, diff)
		}
	})
}

func pages(t *rapid.T, q pg.Querier, f run.Filter, n int) (list []uuid.UUID, last run.Page) {
	var after *pg.Cursor
	for {
		page, err := run.List(t.Context(), q, f, after, n)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, ids(page.Runs)...)
		if after = page.Next; after == nil {
			return list, page
		}
	}
}

// backwards collects the list from its last page to its first, which is filled up and so overlaps the one before.
func backwards(t *rapid.T, q pg.Querier, f run.Filter, page run.Page, n int) []uuid.UUID {
	list := ids(page.Runs)
	for page.Prev != nil {
		var err error
		if page, err = run.Newer(t.Context(), q, f, *page.Prev, n); err != nil {
			t.Fatal(err)
		}
		newer := ids(page.Runs)
		newer = slices.DeleteFunc(newer, func(id uuid.UUID) bool { return slices.Contains(list, id) })
		list = append(newer, list...)
	}
	return list
}

// A page that looks at as many Runs as it may before it is full is short, and leads on.
func TestListLooksOnlySoFar(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	wanted := runtest.Admit(t, d, "ops", "hourly", now-100*hour, now-100*hour)
	pgtest.Force(t, super, `UPDATE runs SET task_id = 'moved'`)
	pgtest.Force(t, super, `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
			trigger_content_digest, scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
		SELECT gen_random_uuid(), project_id, 'report', task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
			n, 'cron', 'scheduled', 'queued', 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || n, $1, $1
		FROM runs, generate_series(1, 1200) n`, now)
	f := run.Filter{Projects: []string{"ops"}, TriggerID: "hourly", TaskID: "moved"}
	first, err := run.List(t.Context(), q, f, nil, 50)
	if err != nil || len(first.Runs) > 0 || first.Next == nil {
		t.Fatalf("List() = %d Runs, next %v, %v, want an empty page that leads on", len(first.Runs), first.Next, err)
	}
	page := first
	for tries := 0; page.Next != nil && tries < 10; tries++ {
		if page, err = run.List(t.Context(), q, f, page.Next, 50); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]uuid.UUID{wanted}, ids(page.Runs)); diff != "" {
		t.Errorf("the last page (-want +got)\n%s", diff)
	}
}

func TestCountStopsAtTheCap(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	runtest.Admit(t, d, "ops", "hourly", now, now)
	pgtest.Force(t, super, `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
			trigger_content_digest, scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms, finished_at_ms)
		SELECT gen_random_uuid(), project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
			n, 'cron', 'scheduled', 'failed', 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || n, $1, $1, $1
		FROM runs, generate_series(1, $2::int) n`, now, run.CountCap)
	want := map[run.Status]run.Count{run.Queued: {N: 1}, run.Failed: {N: run.CountCap}}
	check := func(name string, f run.Filter, want map[run.Status]run.Count) {
		t.Helper()
		f.Projects = []string{"growth", "ops"}
		got, err := run.CountByStatus(t.Context(), q, f)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: CountByStatus() = %v (-want +got)\n%s", name, err, diff)
		}
	}
	check("as many as the cap", run.Filter{}, want)
	pgtest.Force(t, super, `UPDATE runs SET status = 'failed', finished_at_ms = queued_at_ms WHERE status = 'queued'`)
	check("one more", run.Filter{}, map[run.Status]run.Count{run.Failed: {N: run.CountCap, More: true}})
	check("of a Task", run.Filter{TaskID: "report"}, map[run.Status]run.Count{run.Failed: {N: run.CountCap, More: true}})
	check("what no index has", run.Filter{Origin: run.Scheduled}, map[run.Status]run.Count{run.Failed: {N: 5000, More: true}})
	check("text", run.Filter{Text: "report"}, map[run.Status]run.Count{run.Failed: {N: 1000, More: true}})
}

func TestNewerFillsTheNewestPage(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	for i := range int64(5) {
		runtest.Admit(t, d, "ops", "hourly", now-i*hour, now-i*hour)
	}
	f := run.Filter{Projects: []string{"ops"}}
	all, err := run.List(t.Context(), q, f, nil, 50)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		before, n  int
		want       []uuid.UUID
		prev, next bool
	}{
		{before: 4, n: 2, want: ids(all.Runs[2:4]), prev: true, next: true},
		{before: 2, n: 2, want: ids(all.Runs[:2]), next: true},
		{before: 1, n: 3, want: ids(all.Runs[:3]), next: true},
	}
	for _, tt := range tests {
		at := all.Runs[tt.before]
		page, err := run.Newer(t.Context(), q, f, pg.Cursor{CreatedAtMS: at.CreatedAtMS, ID: at.ID}, tt.n)
		got := fmt.Sprint(ids(page.Runs), page.Prev != nil, page.Next != nil)
		if want := fmt.Sprint(tt.want, tt.prev, tt.next); err != nil || got != want {
			t.Errorf("Newer(%d, %d) = %s, %v, want %s", tt.before, tt.n, got, err, want)
		}
	}
}

// What stands for a Run is the newest of its family, whichever Run of it that retries; and only to who may see it.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	q := w.Pool(t, migrations.RoleConsole)
	source, other := w.ended("ops", "hourly", time.Hour, run.Failed, "a"), w.ended("ops", "nightly", time.Hour, run.Failed, "b")
	early := retryOf(t, w.super, source, uuid.New(), run.Failed, w.nowMS-40)
	late := retryOf(t, w.super, source, uuid.New(), run.Failed, w.nowMS-30)
	last := retryOf(t, w.super, early, uuid.New(), run.Failed, w.nowMS-20)
	all := []uuid.UUID{source, other, early, late, last}
	newest := run.LaterRun{ID: last, Status: run.Failed}
	got, err := run.Answers(t.Context(), q, []string{"ops"}, all)
	if diff := cmp.Diff(map[uuid.UUID]run.LaterRun{source: newest, early: newest, late: newest}, got); err != nil || diff != "" {
		t.Errorf("Answers() = %v (-want +got)\n%s", err, diff)
	}
	if got, err := run.Answers(t.Context(), q, []string{"growth"}, all); err != nil || len(got) > 0 {
		t.Errorf("Answers(by a reader of growth) = %v, %v, want none", got, err)
	}

	f := run.Filter{Projects: []string{"ops"}, Statuses: run.Troubles(), Unanswered: true}
	open, err := run.List(t.Context(), q, f, nil, 50)
	if diff := cmp.Diff([]uuid.UUID{last, other}, ids(open.Runs)); err != nil || diff != "" {
		t.Errorf("List(unanswered) = %v (-want +got)\n%s", err, diff)
	}
	chosen, _, err := run.Unanswered(t.Context(), q, run.Filter{Projects: []string{"ops"}}, 50)
	if diff := cmp.Diff([]uuid.UUID{other, last}, chosen); err != nil || diff != "" {
		t.Errorf("Unanswered() = %v, want one Run of each family (-want +got)\n%s", err, diff)
	}
	counts, err := run.CountByStatus(t.Context(), q, f)
	if diff := cmp.Diff(map[run.Status]run.Count{run.Failed: {N: 2}}, counts); err != nil || diff != "" {
		t.Errorf("CountByStatus(unanswered) = %v (-want +got)\n%s", err, diff)
	}
	incident, err := run.ReadIncident(t.Context(), q, run.Filter{Projects: []string{"ops"}})
	if err != nil || len(incident.Tasks) == 0 || incident.Tasks[0].Failures() != 5 || incident.Tasks[0].Retried != 3 {
		t.Errorf("ReadIncident() = %+v, %v, want 5 failures of which 3 are answered", incident, err)
	}
}

// However many Runs of another Project have ids that begin alike, a page and a count say nothing of them.
func TestTextSaysNothingOfOtherProjects(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, manifest)
	q, super := d.Pool(t, migrations.RoleConsole), d.Super(t)
	now := runtest.Clock(t, q)
	foreign := runtest.Admit(t, d, "ops", "hourly", now-100*hour, now-100*hour)
	pgtest.Force(t, super, `INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
			trigger_content_digest, scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
		SELECT (left(id::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision,
			trigger_content_digest, n, 'cron', 'scheduled', 'queued', 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || n, created_at_ms, created_at_ms
		FROM runs, generate_series(1, 6000) n`)
	f := run.Filter{Projects: []string{"growth"}, Text: foreign.String()[:8]}
	page, err := run.List(t.Context(), q, f, nil, 50)
	if err != nil || len(page.Runs) > 0 || page.Next != nil || page.Prev != nil {
		t.Errorf("List() = %+v, %v, want nothing, and nowhere to go on", page, err)
	}
	counts, err := run.CountByStatus(t.Context(), q, f)
	for status, n := range counts {
		if n.N > 0 || n.More {
			t.Errorf("CountByStatus() has %+v of %s, want none", n, status)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A text may name more than is looked for. Then nothing that is read by it looks like all that there is.
func TestTextThatNamesMoreThanIsLookedFor(t *testing.T) {
	d := pgtest.New(t)
	runtest.PublishMany(t, d, search.Most+1)
	q := d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	runtest.Admit(t, d, "ops", "at-00", now, now)
	runtest.Execute(t, d, run.Outcome{Status: run.Failed, Code: "exit_status"})
	for text, want := range map[string]bool{"job-": true, "at-": true, "job-0": false} {
		f := run.Filter{Projects: []string{"ops"}, Text: text}
		page, err := run.List(t.Context(), q, f, nil, 50)
		if err != nil || page.Partial != want || len(page.Runs) != 1 {
			t.Errorf("List(%s) = %d Runs, partial %t, %v, want partial %t", text, len(page.Runs), page.Partial, err, want)
		}
		newer, err := run.Newer(t.Context(), q, f, *place(page.Runs[0], -1), 50)
		if err != nil || newer.Partial != want {
			t.Errorf("Newer(%s) = partial %t, %v, want %t", text, newer.Partial, err, want)
		}
		counts, err := run.CountByStatus(t.Context(), q, f)
		if err != nil || counts[run.Failed] != (run.Count{N: 1, More: want}) {
			t.Errorf("CountByStatus(%s) = %v, %v, want more %t", text, counts, err, want)
		}
		i, err := run.ReadIncident(t.Context(), q, f)
		if err != nil || i.Partial != want || len(i.Tasks) != 1 {
			t.Errorf("ReadIncident(%s) = %+v, %v, want partial %t", text, i, err, want)
		}
	}
}

// place is where a Run stands in a list, or that many milliseconds later.
func place(r run.Summary, afterMS int64) *pg.Cursor {
	return &pg.Cursor{CreatedAtMS: r.CreatedAtMS + afterMS, ID: r.ID}
}
