package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/text"
)

// A purpose keeps transactions apart: one is valid at its own callback alone.
type purpose string

const forSignIn purpose = "sign_in"

const (
	transactionMS = 10 * 60_000
	sweepAfterMS  = 60 * 60_000 // how long an expired transaction can still say that it expired
	maxPending    = 16          // transactions of one browser
)

// begun is a transaction as only the browser may know it.
type begun struct {
	id                   uuid.UUID
	binder, state, nonce string
}

// spent is a transaction that this caller, and nobody else, has spent.
type spent struct {
	id        uuid.UUID
	nonceHash []byte
	issuer    string
	clientID  string
	route     Route
	begunAtMS int64
	spentAtMS int64 // the database clock by which the answer is judged
	stepUp    stepUpAsked
}

// begin stores a new transaction of the browser that holds binder.
func begin(ctx context.Context, q pg.Querier, what purpose, binder string, p *Provider, route Route) (_ begun, err error) {
	defer pg.Wrap(&err, "begin a %s", what)
	encoded, err := route.encode()
	if err != nil {
		return begun{}, err
	}
	t := begun{binder: binder, state: random(), nonce: random()}
	err = q.QueryRow(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		INSERT INTO auth_transactions (id, kind, state_hash, nonce_hash, binder_hash, issuer, client_id, route, created_at_ms, expires_at_ms)
		SELECT gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, ms, ms + $8 FROM clock
		RETURNING id`,
		what, hash(t.state), hash(t.nonce), hash(binder), p.Issuer(), p.ClientID(), encoded, transactionMS).Scan(&t.id)
	if err != nil {
		return begun{}, err
	}
	return t, trim(ctx, q, binder)
}

// trim leaves a browser its newest transactions, and sweeps what is long over. It runs after the insertion has been
// committed: of several at once, the trim that starts last sees every insertion.
func trim(ctx context.Context, q pg.Querier, binder string) error {
	_, err := q.Exec(ctx, `
		DELETE FROM auth_transactions WHERE id IN (
			SELECT id FROM auth_transactions
			WHERE binder_hash = $1 AND consumed_at_ms IS NULL ORDER BY created_at_ms DESC, id OFFSET $2)`,
		hash(binder), maxPending)
	if err != nil {
		return err
	}
	_, err = sweepSome(ctx, q)
	return err
}

const sweptAtOnce = 100

// sweepSome deletes some of what is long over, and reports whether there may be more.
func sweepSome(ctx context.Context, q pg.Querier) (more bool, err error) {
	tag, err := q.Exec(ctx, `
		DELETE FROM auth_transactions WHERE id IN (
			SELECT id FROM auth_transactions WHERE expires_at_ms < `+pg.ClockMS+` - $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
		sweepAfterMS, sweptAtOnce)
	return tag.RowsAffected() == sweptAtOnce, err
}

// spend is the one statement by which a callback takes its transaction. Whoever comes second waits for the row and then
// finds it spent.
func spend(ctx context.Context, q pg.Querier, binder, state string, what ...purpose) (_ spent, err error) {
	defer pg.Wrap(&err, "spend a %s", what[0])
	if binder == "" || state == "" {
		return spent{}, refuse(UnknownState, text.Of("The answer belongs to no sign-in that this browser began."))
	}
	var t spent
	var route []byte
	err = q.QueryRow(ctx, `
		UPDATE auth_transactions SET consumed_at_ms = `+pg.ClockMS+`
		WHERE state_hash = $1 AND binder_hash = $2 AND kind = ANY($3) AND consumed_at_ms IS NULL AND expires_at_ms > `+pg.ClockMS+`
		RETURNING id, nonce_hash, issuer, client_id, route, created_at_ms, consumed_at_ms, kind, session_id, user_id, coalesce(action, ''),
			coalesce(project_id, ''), purpose, coalesce(batch_id, '00000000-0000-0000-0000-000000000000'::uuid), coalesce(words, '')`,
		hash(state), hash(binder), what).Scan(append([]any{&t.id, &t.nonceHash, &t.issuer, &t.clientID, &route, &t.begunAtMS, &t.spentAtMS}, t.stepUp.fields()...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return spent{}, whyNotSpent(ctx, q, binder, state, what)
	}
	if err != nil {
		return spent{}, err
	}
	t.route, _ = decodeRoute(route) // one that cannot be read leads to the first page
	return t, nil
}

func whyNotSpent(ctx context.Context, q pg.Querier, binder, state string, what []purpose) error {
	var kind purpose
	var binderHash, route []byte
	var consumed bool
	err := q.QueryRow(ctx, `
		SELECT kind, binder_hash, route, consumed_at_ms IS NOT NULL FROM auth_transactions WHERE state_hash = $1`,
		hash(state)).Scan(&kind, &binderHash, &route, &consumed)
	if errors.Is(err, pgx.ErrNoRows) {
		return refuse(UnknownState, text.Of("The answer belongs to no sign-in that is known here; it may have been begun long ago."))
	}
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(binderHash, hash(binder)) != 1 {
		return refuse(UnknownState, text.Of("The answer belongs to a sign-in that another browser began."))
	}
	if !slices.Contains(what, kind) {
		return refuse(UnknownState, text.Of("The answer belongs to something else than this."))
	}
	refusal := refuse(Expired, text.Of("The sign-in was begun more than ten minutes ago."))
	if consumed {
		refusal = refuse(AlreadyUsed, text.Of("This answer of the provider was used before."))
	}
	if r, err := decodeRoute(route); err == nil {
		refusal.Route = &r
	}
	return refusal
}

// random is 256 bits, as text that a URL and a cookie can hold.
func random() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func hash(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}
