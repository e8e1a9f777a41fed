// Package runtest puts definitions and Runs into a test's database, by the same code and roles as in production. It is
// for tests alone.
package runtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/migrations"
)

// Publish publishes a manifest.
func Publish(t testing.TB, d *pgtest.Database, manifest string) {
	t.Helper()
	m, err := catalog.Read(t.Name(), strings.NewReader(manifest))
	if err != nil {
		t.Fatalf("read manifest: %v", err)
	}
	if _, err := catalog.Apply(t.Context(), d.Pool(t, migrations.RoleAdmin), m, catalog.Options{}); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

// PublishMany publishes n Tasks of the Project ops, from job-00 on, each with a daily Trigger, from at-00 on.
func PublishMany(t testing.TB, d *pgtest.Database, n int) {
	t.Helper()
	var tasks []string
	for i := range n {
		tasks = append(tasks, fmt.Sprintf("{id: job-%02d, name: Job, command: [/bin/true], timeout: 1m, triggers: [{id: at-%02d, cron: \"0 3 * * *\", timezone: UTC}]}", i, i))
	}
	Publish(t, d, "projects: [{id: ops, name: Operations, tasks: ["+strings.Join(tasks, ", ")+"]}]")
}

// Clock reads the database clock.
func Clock(t testing.TB, q pg.Querier) int64 {
	t.Helper()
	var ms int64
	if err := q.QueryRow(t.Context(), "SELECT "+pg.ClockMS).Scan(&ms); err != nil {
		t.Fatalf("read the clock: %v", err)
	}
	return ms
}

// Admit admits, at atMS, one Run of the Trigger's current revision for the instant scheduledForMS.
func Admit(t testing.TB, d *pgtest.Database, project, trigger string, scheduledForMS, atMS int64) uuid.UUID {
	t.Helper()
	a := run.Admission{ProjectID: project, Actor: "replica-1", AtMS: atMS, Created: map[string]int64{"latenessMs": atMS - scheduledForMS},
		Occurrence: run.Occurrence{TriggerID: trigger, ScheduledForMS: scheduledForMS}}
	var ids []uuid.UUID
	err := pg.InTx(t.Context(), d.Pool(t, migrations.RoleRuntime), func(tx pgx.Tx) error {
		err := tx.QueryRow(t.Context(), `
			SELECT g.revision, g.content_digest, g.task_id, g.task_revision, e.id, r.name
			FROM triggers t JOIN trigger_revisions g ON g.project_id = t.project_id AND g.trigger_id = t.trigger_id AND g.revision = t.current_revision
			JOIN task_execution_revisions e ON e.project_id = g.project_id AND e.task_id = g.task_id AND e.task_revision = g.task_revision
			JOIN task_definition_revisions r ON r.project_id = g.project_id AND r.task_id = g.task_id AND r.revision = g.task_revision
			WHERE t.project_id = $1 AND t.trigger_id = $2`, project, trigger).
			Scan(&a.Occurrence.TriggerRevision, &a.Occurrence.TriggerDigest, &a.TaskID, &a.TaskRevision, &a.TaskSnapshotRef, &a.TaskName)
		if err != nil {
			return err
		}
		ids, err = run.Admit(t.Context(), tx, []run.Admission{a})
		return err
	})
	if err != nil || ids[0] == uuid.Nil {
		t.Fatalf("Admit(%s, %s, %d) = %v, %v", project, trigger, scheduledForMS, ids, err)
	}
	return ids[0]
}

// Execute hands the longest waiting Run to a worker and ends it as o says; an o without a status leaves it running.
func Execute(t testing.TB, d *pgtest.Database, o run.Outcome) uuid.UUID {
	t.Helper()
	ctx, pool := context.Background(), d.Pool(t, migrations.RoleRuntime)
	w, err := run.Dispatch(ctx, pool, "worker-1", time.Minute)
	if err != nil {
		t.Fatalf("Dispatch() = %v", err)
	}
	if err := run.Start(ctx, pool, w.Lease, time.Minute); err != nil {
		t.Fatalf("Start(%s) = %v", w.RunID, err)
	}
	if o.Status != "" {
		if err := run.Finish(ctx, pool, w.Lease, o); err != nil {
			t.Fatalf("Finish(%s, %s) = %v", w.RunID, o.Status, err)
		}
	}
	return w.RunID
}
