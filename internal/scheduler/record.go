package scheduler

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// event is one row of the account of a Schedule: an instant, or a series of them, that became no Run, or something
// that happened to a claim.
type event struct {
	claim     Claim
	kind      string
	first     *int64
	last      *int64
	instants  int
	atLeast   bool
	lateness  *int64
	reason    *string
	createdMS *int64 // nil: the clock of the insertion
}

// eventsOf says what of w belongs into the account.
func eventsOf(w work, now *fence, r Result) []event {
	if r.Outcome == Raced {
		return []event{{claim: w.claim, kind: "raced", first: w.claim.CursorMS, last: w.claim.CursorMS, reason: &r.Reason}}
	}
	d, at := w.decision, &now.nowMS
	var list []event
	if d.Initialized {
		cursor := d.NextMS
		if d.Kind != Initialize {
			cursor = d.DueMS
		}
		list = append(list, event{claim: w.claim, kind: "initialized", first: &cursor, last: &cursor, createdMS: at})
	}
	if d.Kind == Skip {
		lateness, reason := d.LatenessMS(), misfirePolicy+d.Misfire
		list = append(list, event{claim: w.claim, kind: "skipped", first: &d.DueMS, last: &d.DueMS, instants: 1,
			lateness: &lateness, reason: &reason, createdMS: at})
	}
	if p := d.Passed; p.Count > 0 {
		lateness := d.ObservedMS - p.FirstMS
		list = append(list, event{claim: w.claim, kind: "coalesced", first: &p.FirstMS, last: &p.LastMS, instants: p.Count,
			atLeast: p.AtLeast, lateness: &lateness, createdMS: at})
	}
	return list
}

// record writes the account of list in the transaction that makes it true.
func record(ctx context.Context, tx pgx.Tx, list []work, now []*fence, results []Result) error {
	var events []event
	for i, w := range list {
		events = append(events, eventsOf(w, now[i], results[i])...)
	}
	return insertEvents(ctx, tx, events)
}

const insertEventsSQL = `
INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, at_least,
    lateness_ms, claim_owner, claim_version, reason, created_at_ms)
SELECT project, trigger, revision, type, first, last, instants, at_least, lateness, owner, version, reason, coalesce(at, ` + pg.ClockMS + `)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::int[], $8::boolean[],
    $9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::bigint[])
AS e(project, trigger, revision, type, first, last, instants, at_least, lateness, owner, version, reason, at)`

func insertEvents(ctx context.Context, q pg.Querier, events []event) error {
	if len(events) == 0 {
		return nil
	}
	var project, trigger, kind, owner []string
	var revision, version []int64
	var first, last, lateness, at []*int64
	var instants []int
	var atLeast []bool
	var reason []*string
	for _, e := range events {
		project, trigger, kind, owner = append(project, e.claim.ProjectID), append(trigger, e.claim.TriggerID), append(kind, e.kind), append(owner, e.claim.Owner)
		revision, version = append(revision, e.claim.TriggerRevision), append(version, e.claim.Version)
		first, last, lateness, at = append(first, e.first), append(last, e.last), append(lateness, e.lateness), append(at, e.createdMS)
		instants, atLeast, reason = append(instants, e.instants), append(atLeast, e.atLeast), append(reason, e.reason)
	}
	_, err := q.Exec(ctx, insertEventsSQL, project, trigger, revision, kind, first, last, instants, atLeast, lateness, owner, version, reason, at)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// blockSQL marks a Schedule that cannot be decided while it is still under the claim. The claim stays: it is the
// back-off. A reason that is already there is not recorded again.
const blockSQL = `
WITH held AS MATERIALIZED (
    SELECT s.ctid AS tid, s.blocked_reason AS before FROM trigger_schedules s
    WHERE s.ctid = $1 AND s.claim_token = $2 AND s.claim_version = $3 FOR UPDATE
), blocked AS (
    UPDATE trigger_schedules s SET blocked_reason = $4 FROM held
    WHERE s.ctid = held.tid AND held.before IS DISTINCT FROM $4
    RETURNING s.project_id, s.trigger_id, s.trigger_revision, s.next_fire_at_ms
)
INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, claim_owner, claim_version, reason, created_at_ms)
SELECT project_id, trigger_id, trigger_revision, 'failed', next_fire_at_ms, next_fire_at_ms, $5, $3, $4, ` + pg.ClockMS + ` FROM blocked`

func block(ctx context.Context, q pg.Querier, c Claim, reason string) (err error) {
	defer pg.Wrap(&err, "block(%s/%s)", c.ProjectID, c.TriggerID)
	_, err = q.Exec(ctx, blockSQL, c.tid, c.Token, c.Version, shorten(reason, 500), c.Owner)
	return err
}

func shorten(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
