package policy

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// ProofLifetimeMS is how long after the authentication, and after the callback, a proof is good at most.
const ProofLifetimeMS = 300_000

// Item is one Run of a purpose, as it was when the step-up began.
type Item struct {
	Run     uuid.UUID `json:"run"`
	Version int64     `json:"version"`
	Digest  string    `json:"digest"` // of its execution revision
}

// Purpose is what a step-up is for: one action on one Run of a Project, or on a batch, which is a set of them frozen in rows.
type Purpose struct {
	Action    Permission
	ProjectID string
	Items     []Item    // the Run; none of a batch
	Batch     uuid.UUID // uuid.Nil of a Run
}

// Subject is the Run or the batch, or uuid.Nil of no purpose.
func (p Purpose) Subject() uuid.UUID {
	if p.Batch != uuid.Nil || len(p.Items) == 0 {
		return p.Batch
	}
	return p.Items[0].Run
}

// Item returns what the purpose says of run.
func (p Purpose) Item(run uuid.UUID) (Item, bool) {
	i := slices.IndexFunc(p.Items, func(i Item) bool { return i.Run == run })
	if i < 0 {
		return Item{}, false
	}
	return p.Items[i], true
}

// Assurance is how strong an authentication was, and what the provider said of it.
type Assurance struct {
	Level        string // multi_factor or hardware
	Issuer       string
	Subject      string
	ClientID     string
	ACR          string
	AMR          []string
	ACRS         []string
	AuthTimeS    int64  // Unix seconds
	SecondFactor string // always or session
}

// Proof is the record of a fresh authentication made for one purpose, in one session, by one User.
type Proof struct {
	ID            uuid.UUID
	TransactionID uuid.UUID
	SessionID     uuid.UUID
	UserID        uuid.UUID
	Purpose       Purpose
	Words         string // the reason, given before
	Assurance     Assurance
	CookieHash    []byte // SHA-256 of the cookie that must come with it
	CreatedAtMS   int64
	ExpiresAtMS   int64
	PreviewedAtMS *int64
	ConsumedAtMS  *int64
	RevokedAtMS   *int64
	SessionLive   bool // by the clock of the statement that read it
	NowMS         int64
}

// ErrNoProof reports that there is no such proof.
var ErrNoProof = errors.New("no such proof")

// Why a proof is not good for what it is shown for. The words are stable.
const (
	ProofMissing      Reason = "proof_missing"
	ProofForeign      Reason = "proof_foreign" // another user's, session's or browser's
	ProofOtherPurpose Reason = "proof_other_purpose"
	ProofConsumed     Reason = "proof_consumed"
	ProofRevoked      Reason = "proof_revoked"
	ProofExpired      Reason = "proof_expired"
	ProofTooWeak      Reason = "proof_too_weak"
)

// Claim is what a request shows a proof for.
type Claim struct {
	UserID     uuid.UUID
	SessionID  uuid.UUID
	CookieHash []byte
	Action     Permission
	ProjectID  string
	Subject    uuid.UUID // the Run or the batch
}

// Problem is why the proof is not good for c at the moment it was read, or "". It is pure: every fact is in the proof.
func (p Proof) Problem(c Claim) Reason {
	switch {
	case p.UserID != c.UserID || p.SessionID != c.SessionID:
		return ProofForeign
	case len(c.CookieHash) == 0 || !bytes.Equal(p.CookieHash, c.CookieHash):
		return ProofForeign
	case p.Purpose.Action != c.Action || p.Purpose.ProjectID != c.ProjectID || p.Purpose.Subject() != c.Subject:
		return ProofOtherPurpose
	case p.Assurance.Level != "multi_factor" && p.Assurance.Level != "hardware":
		return ProofTooWeak
	case p.ConsumedAtMS != nil:
		return ProofConsumed
	case p.RevokedAtMS != nil || !p.SessionLive:
		return ProofRevoked
	case p.NowMS >= p.ExpiresAtMS || p.NowMS >= p.Assurance.AuthTimeS*1000+ProofLifetimeMS:
		return ProofExpired
	}
	return ""
}

const noUUID = `'00000000-0000-0000-0000-000000000000'::uuid`

const proofSQL = `
SELECT p.id, p.transaction_id, p.session_id, p.user_id, p.action, p.project_id, p.purpose, coalesce(p.batch_id, ` + noUUID + `), p.words, p.level, p.issuer, p.subject, p.client_id,
    coalesce(p.acr, ''), p.amr, p.acrs, p.auth_time_s, p.second_factor, p.cookie_hash, p.created_at_ms, p.expires_at_ms, p.previewed_at_ms,
    p.consumed_at_ms, p.revoked_at_ms,
    s.revoked_at_ms IS NULL AND s.expires_at_ms > clock.ms AND s.last_seen_at_ms + s.idle_ms > clock.ms AND u.status = 'active', clock.ms
FROM step_up_proofs p JOIN console_sessions s ON s.id = p.session_id JOIN users u ON u.id = p.user_id,
    (SELECT ` + pg.ClockMS + ` AS ms) clock
WHERE p.id = $1`

// ReadProof reads a proof and whether its session lives, by the database clock of this statement. As ql3_run_manager.
func ReadProof(ctx context.Context, q pg.Querier, id uuid.UUID) (p Proof, err error) {
	defer pg.Wrap(&err, "policy.ReadProof(%s)", id)
	a := &p.Assurance
	err = q.QueryRow(ctx, proofSQL, id).Scan(&p.ID, &p.TransactionID, &p.SessionID, &p.UserID, &p.Purpose.Action, &p.Purpose.ProjectID,
		&p.Purpose.Items, &p.Purpose.Batch, &p.Words, &a.Level, &a.Issuer, &a.Subject, &a.ClientID, &a.ACR, &a.AMR, &a.ACRS, &a.AuthTimeS, &a.SecondFactor,
		&p.CookieHash, &p.CreatedAtMS, &p.ExpiresAtMS, &p.PreviewedAtMS, &p.ConsumedAtMS, &p.RevokedAtMS, &p.SessionLive, &p.NowMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return Proof{}, ErrNoProof
	}
	return p, err
}

// InsertProof records a proof, as ql3_authn, and fills in its times: it lives for 300 s from the authentication or the
// callback, whichever was first, and no longer than its session. The caller holds the live session row.
func InsertProof(ctx context.Context, q pg.Querier, p *Proof) (err error) {
	defer pg.Wrap(&err, "policy.InsertProof(%s)", p.Purpose.ProjectID)
	a := p.Assurance
	return q.QueryRow(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		INSERT INTO step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, batch_id, words, level, issuer, subject, client_id,
			acr, amr, acrs, auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
		SELECT $1, $2, $3, $4, $5, $6, $7, nullif($20, `+noUUID+`), $8, $9, $10, $11, $12, nullif($13, ''), $14, $15, $16::bigint, $17, $18, clock.ms,
			least($16::bigint * 1000 + $19, clock.ms + $19, s.expires_at_ms)
		FROM clock, console_sessions s WHERE s.id = $3
		RETURNING created_at_ms, expires_at_ms`,
		p.ID, p.TransactionID, p.SessionID, p.UserID, p.Purpose.Action, p.Purpose.ProjectID, orNothing(p.Purpose.Items), p.Words, a.Level, a.Issuer, a.Subject,
		a.ClientID, a.ACR, a.AMR, a.ACRS, a.AuthTimeS, a.SecondFactor, p.CookieHash, ProofLifetimeMS, p.Purpose.Batch).Scan(&p.CreatedAtMS, &p.ExpiresAtMS)
}

// ConsumeProof spends the proof for mutation, in the transaction that does what it was made for. It reports false when
// somebody else has, or it has been revoked or has expired since it was read.
func ConsumeProof(ctx context.Context, tx pgx.Tx, id, mutation uuid.UUID) (ok bool, err error) {
	defer pg.Wrap(&err, "policy.ConsumeProof(%s)", id)
	tag, err := tx.Exec(ctx, `
		UPDATE step_up_proofs SET consumed_at_ms = clock.ms, consumed_mutation_id = $2 FROM (SELECT `+pg.ClockMS+` AS ms) clock
		WHERE id = $1 AND consumed_at_ms IS NULL AND revoked_at_ms IS NULL AND expires_at_ms > clock.ms AND auth_time_s * 1000 + $3 > clock.ms`,
		id, mutation, ProofLifetimeMS)
	return tag.RowsAffected() == 1, err
}

// orNothing is NULL instead of an empty list.
func orNothing(items []Item) any {
	if len(items) == 0 {
		return nil
	}
	return items
}

// FirstPreview marks the proof as previewed and reports whether this was the first time, which alone is audited.
func FirstPreview(ctx context.Context, q pg.Querier, id uuid.UUID) (first bool, err error) {
	defer pg.Wrap(&err, "policy.FirstPreview(%s)", id)
	tag, err := q.Exec(ctx, `UPDATE step_up_proofs SET previewed_at_ms = `+pg.ClockMS+` WHERE id = $1 AND previewed_at_ms IS NULL`, id)
	return tag.RowsAffected() == 1, err
}
