package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

const (
	// forgottenMS is when a replica that ended is no longer news.
	forgottenMS = 24 * 3_600_000

	maxReplicas = 100
	maxClaims   = 100

	// maxUpcoming bounds the Schedules that [Upcoming] follows, and maxEach the instants of one of them.
	maxUpcoming = 200
	maxEach     = 360
	// maxExpected bounds them all: a picture is full long before.
	maxExpected = 4000
)

// Replica is one running scheduler, or one that ran within the last day.
type Replica struct {
	ID          string `json:"id"`
	Version     string `json:"version"`
	StartedMS   int64  `json:"startedAtMs"`
	LastTickMS  int64  `json:"lastTickAtMs"`
	ClockSkewMS int64  `json:"clockSkewMs"` // its clock minus the database's
	Alive       bool   `json:"alive"`
	Schema      *int64 `json:"schemaVersion"` // that it was built for; nil for one from before version 9
}

// Replicas returns the replicas seen within a day, the most recent tick first.
func Replicas(ctx context.Context, q pg.Querier) (_ []Replica, err error) {
	defer pg.Wrap(&err, "scheduler.Replicas()")
	rows, err := q.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		SELECT r.id, r.version, r.started_at_ms, r.last_tick_at_ms, r.clock_skew_ms, r.last_tick_at_ms > clock.ms - $1, r.schema_version
		FROM replicas r CROSS JOIN clock WHERE r.last_tick_at_ms > clock.ms - $2
		ORDER BY r.last_tick_at_ms > clock.ms - $1 DESC, r.id LIMIT $3`, unattendedAfter.Milliseconds(), forgottenMS, maxReplicas)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Replica])
}

// maxSpells bounds [RecentSpells].
const maxSpells = 20

// RecentSpells returns the times of the last day in which no replica was running, the newest first, at most 20.
func RecentSpells(ctx context.Context, q pg.Querier) (_ []Spell, err error) {
	defer pg.Wrap(&err, "scheduler.RecentSpells()")
	rows, err := q.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		SELECT first_at_ms, last_at_ms FROM clock CROSS JOIN schedule_events
		WHERE type = 'unattended' AND last_at_ms > clock.ms - $1 ORDER BY first_at_ms DESC LIMIT $2`, forgottenMS, maxSpells)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Spell])
}

// Held is a live claim as a page shows it.
type Held struct {
	ProjectID  string `json:"projectId"`
	TriggerID  string `json:"triggerId"`
	Owner      string `json:"owner"`
	Token      string `json:"token"` // its first eight digits
	Version    int64  `json:"version"`
	AcquiredMS int64  `json:"acquiredAtMs"`
	ExpiresMS  int64  `json:"expiresAtMs"`
}

// claimsSQL looks only at the head of what is due in each Project: what is claimed was the first that was due.
const claimsSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms)
SELECT s.project_id, s.trigger_id, s.claim_owner, left(s.claim_token::text, 8), s.claim_version, s.updated_at_ms, s.claim_expires_at_ms
FROM clock CROSS JOIN unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
    SELECT * FROM trigger_schedules s WHERE s.project_id = p.id AND s.enabled AND coalesce(s.next_fire_at_ms, -1) <= (SELECT ms FROM clock)
    ORDER BY coalesce(s.next_fire_at_ms, -1), s.trigger_id LIMIT greatest(5000 / cardinality($1::text[]), 300)) s
WHERE s.claim_expires_at_ms > clock.ms
ORDER BY coalesce(s.next_fire_at_ms, -1), s.project_id, s.trigger_id LIMIT $2`

// Claims returns live claims of projects, those on what was due first, at most 100.
func Claims(ctx context.Context, q pg.Querier, projects []string) (_ []Held, err error) {
	defer pg.Wrap(&err, "scheduler.Claims(%d projects)", len(projects))
	rows, err := q.Query(ctx, claimsSQL, projects, maxClaims)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Held])
}

// Health is how the Schedules of some Projects stand now. Counts stop at 10,000.
type Health struct {
	NowMS        int64 `json:"nowMs"`
	Due          int   `json:"due"`          // wait to be claimed
	OldestLateMS int64 `json:"oldestLateMs"` // lateness of the one that waits longest; 0 when none does
	Held         int   `json:"held"`         // claimed
	Blocked      int   `json:"blocked"`
	Schedules    int   `json:"schedules"` // enabled ones
}

// healthSQL counts Project by Project, each by its own index, until it has seen enough. The one that waits longest is
// looked for behind as many claims as a few replicas hold.
const healthSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms), ripe AS MATERIALIZED (
    SELECT s.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT s.claim_expires_at_ms FROM trigger_schedules s
        WHERE s.project_id = p.id AND s.enabled AND coalesce(s.next_fire_at_ms, -1) <= (SELECT ms FROM clock) AND s.blocked_reason IS NULL
        ORDER BY coalesce(s.next_fire_at_ms, -1) LIMIT $2) s LIMIT $2
)
SELECT clock.ms, (SELECT count(*) FROM ripe WHERE claim_expires_at_ms IS NULL OR claim_expires_at_ms <= clock.ms),
    coalesce((SELECT clock.ms - min(s.next_fire_at_ms) FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT s.next_fire_at_ms, s.claim_expires_at_ms FROM trigger_schedules s
        WHERE s.project_id = p.id AND s.enabled AND coalesce(s.next_fire_at_ms, -1) <= (SELECT ms FROM clock) AND s.blocked_reason IS NULL
        ORDER BY coalesce(s.next_fire_at_ms, -1) LIMIT 1000) s
        WHERE s.claim_expires_at_ms IS NULL OR s.claim_expires_at_ms <= clock.ms), 0),
    (SELECT count(*) FROM ripe WHERE claim_expires_at_ms > clock.ms),
    (SELECT count(*) FROM (SELECT FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT FROM trigger_schedules s WHERE s.project_id = p.id AND s.blocked_reason IS NOT NULL AND s.enabled LIMIT $2) s LIMIT $2) b),
    (SELECT count(*) FROM (SELECT FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT FROM trigger_schedules s WHERE s.project_id = p.id AND s.enabled ORDER BY coalesce(s.next_fire_at_ms, -1) LIMIT $2) s LIMIT $2) e)
FROM clock`

// ReadHealth judges the Schedules of projects.
func ReadHealth(ctx context.Context, q pg.Querier, projects []string) (_ Health, err error) {
	defer pg.Wrap(&err, "scheduler.ReadHealth(%d projects)", len(projects))
	var h Health
	err = q.QueryRow(ctx, healthSQL, projects, backlogSeen).Scan(&h.NowMS, &h.Due, &h.OldestLateMS, &h.Held, &h.Blocked, &h.Schedules)
	return h, err
}

// Expected is one occurrence to come.
type Expected struct {
	ProjectID string `json:"projectId"`
	TriggerID string `json:"triggerId"`
	AtMS      int64  `json:"atMs"`
	Frequent  bool   `json:"-"` // its Schedule has more of them in the same span
}

// Upcoming returns the occurrences of projects expected within span from now, in their order, of at most 200
// Schedules, 360 of each and about 4,000 in all. A Schedule that cannot be decided expects none.
func Upcoming(ctx context.Context, q pg.Querier, projects []string, span time.Duration) (_ []Expected, err error) {
	defer pg.Wrap(&err, "scheduler.Upcoming(%d projects, %s)", len(projects), span)
	rows, err := q.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		, next AS MATERIALIZED (
			SELECT s.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
				SELECT s.project_id, s.trigger_id, s.trigger_revision, s.next_fire_at_ms FROM trigger_schedules s
				WHERE s.project_id = p.id AND s.enabled AND coalesce(s.next_fire_at_ms, -1) > (SELECT ms FROM clock)
					AND coalesce(s.next_fire_at_ms, -1) <= (SELECT ms FROM clock) + $2 AND s.blocked_reason IS NULL
				ORDER BY coalesce(s.next_fire_at_ms, -1), s.trigger_id LIMIT $3) s
			ORDER BY s.next_fire_at_ms, s.project_id, s.trigger_id LIMIT $3)
		SELECT s.project_id, s.trigger_id, s.next_fire_at_ms, clock.ms + $2, g.content FROM clock CROSS JOIN next s
		JOIN trigger_revisions g ON g.project_id = s.project_id AND g.trigger_id = s.trigger_id AND g.revision = s.trigger_revision
		ORDER BY s.next_fire_at_ms, s.project_id, s.trigger_id`, projects, span.Milliseconds(), maxUpcoming)
	if err != nil {
		return nil, err
	}
	var list []Expected
	var s Summary
	var next, until int64
	_, err = pgx.ForEachRow(rows, []any{&s.ProjectID, &s.TriggerID, &next, &until, &s.Content}, func() error {
		list = append(list, s.expected(next, until, min(maxEach, maxExpected-len(list)))...)
		return nil
	})
	slices.SortStableFunc(list, func(a, b Expected) int { return int(a.AtMS - b.AtMS) })
	return list, err
}

// expected lists at most n occurrences, at least one, from the cursor to until.
func (s Summary) expected(next, until int64, n int) []Expected {
	at := []int64{next}
	if plan, err := s.Plan(); err == nil {
		for _, o := range plan.After(next, n-1) {
			if ms := o.At.UnixMilli(); ms <= until {
				at = append(at, ms)
			}
		}
	}
	var list []Expected
	for _, ms := range at {
		list = append(list, Expected{ProjectID: s.ProjectID, TriggerID: s.TriggerID, AtMS: ms, Frequent: len(at) > 1})
	}
	return list
}
