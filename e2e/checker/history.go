package checker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A trigger is everything the rows say of one Trigger. All lists are oldest first.
type trigger struct {
	project, id string
	cursorMS    *int64
	revisions   []revision
	turns       []turn
	pauses      []pause
	account     []entry
	runs        []admitted
}

func (t trigger) String() string { return t.project + "/" + t.id }

type revision struct {
	number, createdMS int64
	periodMS          int64
	misfire           string
	enabled           bool // it, and the Task revision it pins
}

// A turn is when the Project was archived, or active again.
type turn struct {
	atMS     int64
	archived bool
}

type pause struct {
	id                  string
	pausedMS, resumedMS int64 // forever while it lasts
	caughtUp            bool
	readMS              int64 // when whoever resumed it may have begun to: instants after that are nobody's to hold back
}

// forever is the end of what has not ended.
const forever = int64(1) << 62

// An entry is a row of the account that says why instants have no Run.
type entry struct {
	kind                      string
	revision, firstMS, lastMS int64
	instants                  int
	atLeast                   bool
	latenessMS, recordedMS    int64
}

func (e entry) String() string {
	return fmt.Sprintf("%s %d to %d of revision %d", e.kind, e.firstMS, e.lastMS, e.revision)
}

type admitted struct {
	id                              string
	revision, dueMS, madeMS, seenMS int64
	catchUp                         bool
}

// readTriggers reads the history of every Trigger.
func readTriggers(ctx context.Context, tx pgx.Tx) ([]*trigger, error) {
	index, list := map[string]*trigger{}, []*trigger(nil)
	each := func(sql string, scan func(t *trigger, row pgx.CollectableRow) error) error {
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			key := string(row.RawValues()[0]) + "/" + string(row.RawValues()[1])
			if index[key] == nil {
				index[key] = &trigger{}
				list = append(list, index[key])
			}
			return struct{}{}, scan(index[key], row)
		})
		return err
	}
	for _, read := range readings {
		if err := each(read.sql, read.scan); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readings fill a trigger in. Each begins with its Project and its id.
var readings = []struct {
	sql  string
	scan func(t *trigger, row pgx.CollectableRow) error
}{
	{`SELECT project_id, trigger_id, next_fire_at_ms FROM ql3.trigger_schedules ORDER BY 1, 2`,
		func(t *trigger, row pgx.CollectableRow) error { return row.Scan(&t.project, &t.id, &t.cursorMS) }},
	{`SELECT g.project_id, g.trigger_id, g.revision, g.created_at_ms, g.content::jsonb ->> 'written', g.content::jsonb ->> 'misfire',
			(g.content::jsonb ->> 'enabled')::boolean AND (t.content::jsonb ->> 'enabled')::boolean
		FROM ql3.trigger_revisions g JOIN ql3.task_definition_revisions t
			ON t.project_id = g.project_id AND t.task_id = g.task_id AND t.revision = g.task_revision ORDER BY 1, 2, 3`,
		func(t *trigger, row pgx.CollectableRow) error {
			var r revision
			var written string
			if err := row.Scan(nil, nil, &r.number, &r.createdMS, &written, &r.misfire, &r.enabled); err != nil {
				return err
			}
			var err error
			r.periodMS, err = period(written)
			t.revisions = append(t.revisions, r)
			return err
		}},
	{`SELECT project_id, trigger_id, created_at_ms, type = 'archived' FROM ql3.schedule_events WHERE type IN ('archived', 'unarchived') ORDER BY id`,
		func(t *trigger, row pgx.CollectableRow) error {
			var n turn
			err := row.Scan(nil, nil, &n.atMS, &n.archived)
			t.turns = append(t.turns, n)
			return err
		}},
	{`SELECT project_id, trigger_id, id::text, paused_at_ms, coalesce(resumed_at_ms, 1::bigint << 62), coalesce(caught_up, false) FROM ql3.trigger_pauses ORDER BY paused_at_ms`,
		func(t *trigger, row pgx.CollectableRow) error {
			var p pause
			err := row.Scan(nil, nil, &p.id, &p.pausedMS, &p.resumedMS, &p.caughtUp)
			p.readMS = p.resumedMS
			t.pauses = append(t.pauses, p)
			return err
		}},
	{`SELECT project_id, trigger_id, type, trigger_revision, first_at_ms, last_at_ms, instants, at_least, coalesce(lateness_ms, 0), created_at_ms
		FROM ql3.schedule_events WHERE type IN ('skipped', 'coalesced', 'superseded', 'paused') ORDER BY id`,
		func(t *trigger, row pgx.CollectableRow) error {
			var e entry
			err := row.Scan(nil, nil, &e.kind, &e.revision, &e.firstMS, &e.lastMS, &e.instants, &e.atLeast, &e.latenessMS, &e.recordedMS)
			t.account = append(t.account, e)
			return err
		}},
	{`SELECT r.project_id, r.trigger_id, r.id::text, r.trigger_revision, r.scheduled_for_ms, r.created_at_ms,
			coalesce((e.payload ->> 'observed_at_ms')::bigint, r.created_at_ms), coalesce((e.payload ->> 'catch_up')::boolean, false)
		FROM ql3.runs r LEFT JOIN ql3.run_events e ON e.run_id = r.id AND e.type = 'run.created' WHERE r.trigger_type = 'cron' ORDER BY r.scheduled_for_ms`,
		func(t *trigger, row pgx.CollectableRow) error {
			var a admitted
			err := row.Scan(nil, nil, &a.id, &a.revision, &a.dueMS, &a.madeMS, &a.seenMS, &a.catchUp)
			t.runs = append(t.runs, a)
			return err
		}},
}

// period is how many milliseconds lie between the instants of an expression of six fields in UTC. It knows those of
// which each instant is a multiple of the period since 1970, and no others.
func period(written string) (int64, error) {
	seconds, ok := strings.CutSuffix(written, " * * * * *")
	if ok && seconds == "*" {
		return 1000, nil
	}
	step, isStep := strings.CutPrefix(seconds, "*/")
	n, err := strconv.ParseInt(step, 10, 64)
	if !ok || !isStep || err != nil || n < 1 || 60%n != 0 {
		return 0, fmt.Errorf("the checker does not know when %q is due", written)
	}
	return n * 1000, nil
}
