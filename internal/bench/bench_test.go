package bench

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var small = Size{Projects: 10, Schedules: 1000, DuePerMinute: 80, Runs: 800}

func seeded(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t).Pool(t, migrations.RoleMigration)
	if err := Seed(t.Context(), pool, small, func(int) {}); err != nil {
		t.Fatal(err)
	}
	return pool
}

func TestSeedMakesWhatWasAskedFor(t *testing.T) {
	type counts struct{ Projects, Archived, Schedules, Enabled, Due, Disabled, Runs, Attempts, Events int }
	pool := seeded(t)
	rows, err := pool.Query(t.Context(), `SELECT (SELECT count(*) FROM projects), (SELECT count(*) FROM projects WHERE status = 'archived'),
		(SELECT count(*) FROM trigger_schedules), (SELECT count(*) FROM trigger_schedules WHERE enabled),
		(SELECT count(*) FROM trigger_schedules WHERE next_fire_at_ms < extract(epoch FROM now()) * 1000 + 180000),
		(SELECT count(*) FROM trigger_revisions WHERE NOT enabled), (SELECT count(*) FROM runs), (SELECT count(*) FROM run_attempts), (SELECT count(*) FROM run_events)`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[counts])
	if err != nil {
		t.Fatal(err)
	}
	want := counts{Projects: 10, Archived: 2, Schedules: 1000, Enabled: 80 + 8*45, Due: 80, Disabled: 8*45 + 2*50, Runs: 800, Attempts: 800, Events: 2400}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Seed(%+v) made (-want +got):\n%s", small, diff)
	}
	if err := Seed(t.Context(), pool, small, func(int) {}); !errors.Is(err, ErrSeeded) {
		t.Errorf("Seed() again = %v, want ErrSeeded", err)
	}
}

// The scheduler would block a Schedule whose content is not what publishing writes.
func TestSeedWritesWhatPublishingWrites(t *testing.T) {
	rows, err := seeded(t).Query(t.Context(), `
		SELECT r.content, r.content_digest, e.content, e.content_digest, k.content, k.content_digest, s.next_fire_at_ms
		FROM trigger_revisions r
		JOIN task_definition_revisions k USING (project_id, task_id)
		JOIN task_execution_revisions e USING (project_id, task_id)
		JOIN trigger_schedules s USING (project_id, trigger_id)`)
	if err != nil {
		t.Fatal(err)
	}
	var trigger, triggerDigest, execution, executionDigest, task, taskDigest string
	var nextMS *int64
	_, err = pgx.ForEachRow(rows, []any{&trigger, &triggerDigest, &execution, &executionDigest, &task, &taskDigest, &nextMS}, func() error {
		content, err := catalog.ParseTrigger(trigger)
		if err != nil {
			return err
		}
		schedule, err := cron.Parse(content.Cron, content.Timezone)
		if err != nil {
			return err
		}
		if got := schedule.Canonical(); got != content.Cron {
			t.Errorf("cron %q is not canonical: %q", content.Cron, got)
		}
		if nextMS != nil {
			if next, _ := schedule.Next(time.UnixMilli(*nextMS - 1)); next.UnixMilli() != *nextMS {
				t.Errorf("the cursor %d of %q is no instant of it", *nextMS, content.Cron)
			}
		}
		_, executionErr := catalog.ParseExecution(execution)
		_, taskErr := catalog.ParseTask(task)
		return errors.Join(executionErr, taskErr, sealed(catalog.DomainTrigger, trigger, triggerDigest),
			sealed(catalog.DomainExecution, execution, executionDigest), sealed(catalog.DomainTask, task, taskDigest))
	})
	if err != nil {
		t.Error(err)
	}
}

// sealed checks that content is canonical and matches its digest.
func sealed(domain catalog.Domain, content, digest string) error {
	canonical, err := jcs.Transform([]byte(content))
	if err != nil {
		return err
	}
	if string(canonical) != content || !json.Valid(canonical) {
		return errors.New(content + " is not canonical")
	}
	return catalog.Verify(domain, content, digest)
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		size Size
		want string
	}{
		{"no projects", Size{Schedules: 1}, "projects"},
		{"fewer schedules than projects", Size{Projects: 2, Schedules: 1}, "one each"},
		{"more due than active", Size{Projects: 5, Schedules: 100, DuePerMinute: 90}, "due a minute"},
		{"less than no runs", Size{Projects: 1, Schedules: 1, Runs: -1}, "runs"},
		{"as many due as active", Size{Projects: 5, Schedules: 100, DuePerMinute: 80}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.size.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Validate(%+v) = %v, want %q in it", tt.size, err, tt.want)
			}
		})
	}
}
