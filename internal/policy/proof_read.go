package policy

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// LiveProof is a proof that its user can still submit, as far as its user is told of it.
type LiveProof struct {
	Action    Permission
	ProjectID string
	Items     []Item    // none of a batch
	Batch     uuid.UUID // uuid.Nil of a Run
	Level     string
	SessionID uuid.UUID
	LeftMS    int64
}

// LiveProofs are the user's unconsumed, unrevoked and unexpired proofs, newest first. As ql3_console.
func LiveProofs(ctx context.Context, q pg.Querier, user uuid.UUID) (_ []LiveProof, err error) {
	defer pg.Wrap(&err, "policy.LiveProofs(%s)", user)
	rows, err := q.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		SELECT p.action, p.project_id, p.purpose, coalesce(p.batch_id, `+noUUID+`), p.level, p.session_id, p.expires_at_ms - clock.ms FROM step_up_proofs p, clock
		WHERE p.user_id = $1 AND p.created_at_ms > clock.ms - $2 AND p.expires_at_ms > clock.ms AND p.consumed_at_ms IS NULL AND p.revoked_at_ms IS NULL
		ORDER BY p.created_at_ms DESC LIMIT 100`, user, ProofLifetimeMS)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[LiveProof])
}
