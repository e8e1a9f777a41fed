package scheduler

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

const (
	claimNewsMS  = 3_600_000 // how long what happened to a claim is news
	maxClaimNews = 100
)

// ClaimNews is something that happened to a claim instead of what it was taken for. It is on record in the transaction
// that made it true: a take-over in the claim, a race in the commit that wrote nothing else of it.
type ClaimNews struct {
	ProjectID string  `json:"projectId"`
	TriggerID string  `json:"triggerId"`
	Kind      string  `json:"kind"` // taken_over, raced or failed
	AtMS      int64   `json:"atMs"`
	DueMS     *int64  `json:"dueMs"`   // the cursor it was about
	Owner     *string `json:"owner"`   // of the claim: of one that took over, the new owner
	Version   *int64  `json:"version"` // of the claim
	Reason    *string `json:"reason"`  // whose claim it was and for how long over; the broken part of the fence; the error
}

// ReadClaimNews returns what happened to claims of projects within the last hour, newest first, at most 100, and whether
// there was more.
func ReadClaimNews(ctx context.Context, q pg.Querier, projects []string) (_ []ClaimNews, more bool, err error) {
	defer pg.Wrap(&err, "scheduler.ReadClaimNews(%d projects)", len(projects))
	rows, err := q.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		SELECT e.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
			SELECT e.project_id, e.trigger_id, e.type, e.created_at_ms, e.first_at_ms, e.claim_owner, e.claim_version, e.reason
			FROM schedule_events e WHERE e.project_id = p.id AND e.type IN ('taken_over', 'raced', 'failed')
				AND e.created_at_ms > (SELECT ms FROM clock) - $2
			ORDER BY e.created_at_ms DESC, e.id DESC LIMIT $3) e
		ORDER BY e.created_at_ms DESC, e.project_id, e.trigger_id LIMIT $3`, projects, claimNewsMS, maxClaimNews+1)
	if err != nil {
		return nil, false, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ClaimNews])
	return list[:min(len(list), maxClaimNews)], len(list) > maxClaimNews, err
}
