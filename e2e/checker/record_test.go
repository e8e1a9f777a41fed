package checker

import (
	"slices"
	"testing"
)

// remembered is what a good memory has of the small world.
func remembered() *Record {
	at := func(from, to int64) Window { return Window{BeganMS: begin + from, AnsweredMS: begin + to} }
	return &Record{
		Revisions: []Revision{
			{Window: at(0, 0), Project: "ops", Trigger: "second", PeriodMS: 1000, Misfire: "skip", Enabled: true},
			{Window: at(0, 0), Project: "ops", Trigger: "other", PeriodMS: 2000, Misfire: "fire_once", Enabled: true},
		},
		Pauses: []Pause{{Project: "ops", Trigger: "other", ID: "00000000-0000-4000-8000-00000000000a", Held: at(2800, 2950), Resumed: at(6850, 6910), CatchUp: true}},
		Forms: []Form{
			{Mutation: "00000000-0000-4000-8000-0000000000a1", Action: "run.retry", Run: "source", Made: true, Result: "01a3185c-6b58-0000-0000-000000000000"},
			{Mutation: "00000000-0000-4000-8000-0000000000a2", Action: "run.stop", Run: "running", Made: true, Unanswered: 1},
		},
	}
}

func TestCheckerComparesWithWhatIsRemembered(t *testing.T) {
	conn := world(t)
	const denied = `INSERT INTO ql3.security_audit_events (id, action, outcome, reason, actor_type, actor, run_id, created_at_ms)
		SELECT '00000000-0000-4000-8000-0000000000d1', 'run.retry', 'denied', 'forbidden', 'command', 'somebody', '00000000-0000-4000-8000-0000000000e1', 1`
	refused := Form{Mutation: "00000000-0000-4000-8000-0000000000a3", Action: "run.retry", Run: "00000000-0000-4000-8000-0000000000e1", Refused: 1}
	tests := []struct {
		name   string
		sql    string
		forget func(r *Record)
		want   []string
	}{
		{"everything", `SELECT`, func(*Record) {}, nil},
		{"a revision more", `SELECT`, func(r *Record) { r.Revisions = append(r.Revisions, r.Revisions[0]) }, []string{NotRemembered}},
		{"another period", `SELECT`, func(r *Record) { r.Revisions[0].PeriodMS = 5000 }, []string{NotRemembered}},
		{"published later", `SELECT`, func(r *Record) { r.Revisions[0].BeganMS += 2; r.Revisions[0].AnsweredMS += 2 }, []string{OutOfWindow}},
		{"archived", `SELECT`, func(r *Record) { r.Turns = append(r.Turns, Turn{Project: "ops", Archived: true}) }, []string{NotRemembered}},
		{"archived at another time", `INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms)
			SELECT 'ops', id, 1, 'archived', 1800000009000 FROM unnest('{second,other}'::text[]) id`,
			func(r *Record) {
				r.Turns = append(r.Turns, Turn{Window: Window{begin + 9010, begin + 9020}, Project: "ops", Archived: true})
			}, []string{OutOfWindow}},
		{"no pause", `SELECT`, func(r *Record) { r.Pauses = nil }, []string{NotRemembered}},
		{"a pause of another name", `SELECT`, func(r *Record) { r.Pauses[0].ID = "another" }, []string{NotRemembered}},
		{"resumed from then on", `SELECT`, func(r *Record) { r.Pauses[0].CatchUp = false }, []string{NotRemembered}},
		{"resumed earlier", `SELECT`, func(r *Record) { r.Pauses[0].Resumed.AnsweredMS = begin + 6890 }, []string{OutOfWindow}},
		{"another Run", `SELECT`, func(r *Record) { r.Forms[0].Result = "another" }, []string{NotDone}},
		{"a retry that is not there", `SELECT`, func(r *Record) { r.Forms[0].Mutation = refused.Mutation }, []string{NotDone}},
		{"a stop that was refused", `SELECT`, func(r *Record) { r.Forms[1].Made, r.Forms[1].Refused, r.Forms[1].Unanswered = false, 1, 0 }, []string{DoneAnyway, DeniedRows}},
		{"a stop that nobody answered", `SELECT`, func(r *Record) { r.Forms[1].Made = false }, nil},
		{"a refusal", denied, func(r *Record) { r.Forms = append(r.Forms, refused) }, nil},
		{"a refusal without its row", `SELECT`, func(r *Record) { r.Forms = append(r.Forms, refused) }, []string{DeniedRows}},
		{"a row without its refusal", denied, func(r *Record) {}, []string{DeniedRows}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := remembered()
			tt.forget(record)
			got := corrupted(t, conn, tt.sql, record).Broken()
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("broken = %q, want %q", got, tt.want)
			}
		})
	}
}
