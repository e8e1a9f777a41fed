package run_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

// ended puts a Run into the database that was admitted ago before now and ended so.
func (w *world) ended(project, trigger string, ago time.Duration, status run.Status, code string) uuid.UUID {
	w.t.Helper()
	at := w.nowMS - ago.Milliseconds()
	id := runtest.Admit(w.t, w.Database, project, trigger, at, at)
	w.exec(`UPDATE runs SET status = $2, error_code = nullif($3, ''), started_at_ms = queued_at_ms, finished_at_ms = CASE WHEN $2 <> 'lost' THEN queued_at_ms END WHERE id = $1`,
		id, string(status), code)
	return id
}

func TestIncident(t *testing.T) {
	w := newWorld(t)
	q := w.Pool(t, migrations.RoleConsole)
	w.ended("ops", "nightly", 5*time.Hour, run.Failed, "before")
	first := w.ended("ops", "hourly", 3*time.Hour, run.Failed, "bank_down")
	w.ended("ops", "hourly", 150*time.Minute, run.Succeeded, "")
	second := w.ended("ops", "hourly", 2*time.Hour, run.TimedOut, "deadline")
	lost := w.ended("ops", "hourly", time.Hour, run.Lost, "worker_gone")
	w.ended("ops", "nightly", 80*time.Minute, run.Cancelled, "")
	digest := w.ended("growth", "daily", 90*time.Minute, run.Failed, "bank_down")
	alice := person(t, w.super, "Alice", "alice@example.org")
	again := retryOf(t, w.super, digest, alice, run.Failed, w.nowMS-1000)
	retryOf(t, w.super, second, alice, run.Succeeded, w.nowMS-500)

	filter := run.Filter{Projects: []string{"ops", "growth"}, SinceMS: w.nowMS - 4*3_600_000}
	incident, err := run.ReadIncident(t.Context(), q, filter)
	if err != nil || incident.More {
		t.Fatalf("ReadIncident() = more %v, %v", incident.More, err)
	}
	var got []string
	for _, x := range incident.Tasks {
		got = append(got, fmt.Sprint(x.Failures(), x.Failed, x.TimedOut, x.Lost, x.Retried, " ", *x.First.ErrorCode, " ", x.First.RunID, " ", x.Newest.RunID))
	}
	want := []string{fmt.Sprint(3, 1, 1, 1, 1, " bank_down ", first, " ", lost), fmt.Sprint(2, 2, 0, 0, 1, " bank_down ", digest, " ", again)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadIncident() (-want +got):\n%s", diff)
	}

	ids, more, err := run.Unanswered(t.Context(), q, filter, 50)
	if diff := cmp.Diff([]uuid.UUID{first, again}, ids); diff != "" || more || err != nil {
		t.Errorf("Unanswered() = more %v, %v (-want +got):\n%s", more, err, diff)
	}
	ids, more, err = run.Unanswered(t.Context(), q, filter, 1)
	if diff := cmp.Diff([]uuid.UUID{again}, ids); diff != "" || !more || err != nil {
		t.Errorf("Unanswered() of one = more %v, %v (-want +got):\n%s", more, err, diff)
	}
	filter.Projects = []string{"growth"}
	if of, err := run.ReadIncident(t.Context(), q, filter); err != nil || len(of.Tasks) != 1 || of.Tasks[0].TaskID != "digest" {
		t.Errorf("ReadIncident() of growth = %+v, %v, want its Task alone", of, err)
	}
	if none, err := run.ReadIncident(t.Context(), q, run.Filter{Projects: []string{}}); err != nil || len(none.Tasks) != 0 || none.Tasks == nil {
		t.Errorf("ReadIncident() of no Project = %+v, %v, want an empty one", none, err)
	}
}

// An incident of any size looks at the newest failures and says that there are more.
func TestIncidentIsBounded(t *testing.T) {
	w := newWorld(t)
	q := w.Pool(t, migrations.RoleConsole)
	id := w.ended("ops", "hourly", time.Hour, run.Failed, "bank_down")
	w.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'created_at_ms', created_at_ms + n, 'queued_at_ms', queued_at_ms + n,
		'started_at_ms', started_at_ms + n, 'finished_at_ms', finished_at_ms + n, 'scheduled_for_ms', scheduled_for_ms + n,
		'idempotency_key', 'ql3:cron:v1:hourly:' || trigger_revision || ':' || scheduled_for_ms + n))).* FROM runs r, generate_series(1, $2::int) n WHERE id = $1`, id, run.IncidentCap)
	incident, err := run.ReadIncident(t.Context(), q, run.Filter{Projects: []string{"ops"}})
	if err != nil || !incident.More || len(incident.Tasks) != 1 || incident.Tasks[0].Failures() != run.IncidentCap || incident.Tasks[0].First.RunID == id {
		t.Errorf("ReadIncident() = %+v, %v, want the newest %d of one Task and more", incident, err, run.IncidentCap)
	}
	ids, more, err := run.Unanswered(t.Context(), q, run.Filter{Projects: []string{"ops"}}, 50)
	if err != nil || !more || len(ids) != 50 || slices.Contains(ids, id) {
		t.Errorf("Unanswered() = %d, more %v, %v, want the newest 50 and more", len(ids), more, err)
	}
}
