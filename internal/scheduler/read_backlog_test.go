package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

func TestBacklog(t *testing.T) {
	d := pgtest.New(t)
	runtest.Publish(t, d, readManifest)
	super, q := d.Super(t), d.Pool(t, migrations.RoleConsole)
	now := runtest.Clock(t, q)
	const minute = 60_000
	pgtest.Force(t, super, `UPDATE trigger_schedules SET next_fire_at_ms = $1`, now+1)
	runtest.Admit(t, d, "ops", "nightly", now-90*minute, now-57*minute) // waited before the hour, and at its first two marks
	runtest.Admit(t, d, "ops", "often", now-10*minute, now-8*minute)    // due at one mark and at the next, admitted at the third
	runtest.Admit(t, d, "ops", "often", now-10*minute+1, now-9*minute)  // never waited at a mark
	runtest.Admit(t, d, "growth", "daily", now-30*minute, now)          // another Project's
	pgtest.Force(t, super, `UPDATE trigger_schedules SET next_fire_at_ms = $1 WHERE trigger_id = 'often'`, now-minute)
	var want [60]int
	want[0], want[1] = 1, 1
	want[49], want[50] = 1, 1
	want[58], want[59] = 1, 1
	got, err := scheduler.ReadBacklog(t.Context(), q, []string{"ops"}, now)
	if diff := cmp.Diff(scheduler.Backlog{ByMinute: want}, got); err != nil || diff != "" {
		t.Errorf("ReadBacklog() = %v (-want +got)\n%s", err, diff)
	}
}
