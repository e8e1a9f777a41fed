package oidc

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

const actionSignIn = "session.sign_in"

// newcomer is somebody whose first factor was just verified.
type newcomer struct {
	Identity
	clientID string
	sid      string
	authTime int64 // Unix seconds, 0 when unknown
	client   Client
}

// begin records the user, ends the session the browser had, makes a new one under a new token and sets the cookie. ctx
// must come from [Sessions.Load].
func (s *Sessions) begin(ctx context.Context, w http.ResponseWriter, n newcomer) (Session, error) {
	var session Session
	previous := s.storedID(ctx)
	err := pg.InTx(ctx, s.config.Authn, func(tx pgx.Tx) (err error) {
		session, err = s.insert(ctx, tx, n, previous)
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return session, s.setToken(ctx, w, session)
}

func (s *Sessions) insert(ctx context.Context, tx pgx.Tx, n newcomer, previous uuid.UUID) (Session, error) {
	user, err := upsertUser(ctx, tx, n)
	if err != nil {
		return Session{}, err
	}
	if previous != uuid.Nil {
		if _, err := end(ctx, tx, "replaced", "id = $2", previous); err != nil {
			return Session{}, err
		}
	}
	session, err := s.insertRow(ctx, tx, user, n)
	if err != nil {
		return Session{}, err
	}
	return session, policy.WriteAudit(ctx, tx, policy.AuditEvent{Action: actionSignIn, Outcome: policy.Allowed, Actor: session.Actor(n.client),
		Strength: "single_factor", AuthTimeS: n.authTime, Detail: map[string]any{"origin": n.Origin}})
}

// upsertUser locks the user's row, so that a user is not disabled between this reading and the session's insertion.
func upsertUser(ctx context.Context, tx pgx.Tx, n newcomer) (uuid.UUID, error) {
	var id uuid.UUID
	var active bool
	err := tx.QueryRow(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		INSERT INTO users (id, issuer, subject, email, email_verified, name, join_key, last_auth_time_s, created_at_ms, signed_in_at_ms, updated_at_ms)
		SELECT gen_random_uuid(), $1, $2, NULLIF($3, ''), $4, NULLIF($5, ''), NULLIF($6, ''), NULLIF($7::bigint, 0), ms, ms, ms FROM clock
		ON CONFLICT (issuer, subject) DO UPDATE SET email = EXCLUDED.email, email_verified = EXCLUDED.email_verified, name = EXCLUDED.name,
			join_key = EXCLUDED.join_key, last_auth_time_s = greatest(users.last_auth_time_s, EXCLUDED.last_auth_time_s),
			signed_in_at_ms = EXCLUDED.signed_in_at_ms, updated_at_ms = greatest(users.updated_at_ms, EXCLUDED.updated_at_ms)
		RETURNING id, status = 'active'`,
		n.Issuer, n.Subject, n.Email, n.EmailVerified, n.Name, n.JoinKey, n.authTime).Scan(&id, &active)
	if err == nil && !active {
		return uuid.Nil, refuse(Disabled, text.Of("This account is disabled."))
	}
	return id, err
}

func (s *Sessions) insertRow(ctx context.Context, tx pgx.Tx, user uuid.UUID, n newcomer) (Session, error) {
	session := Session{UserID: user, Issuer: n.Issuer, Subject: n.Subject, Name: n.Name, Email: n.Email, EmailVerified: n.EmailVerified,
		Origin: n.Origin, ClientID: n.clientID, Generation: 1}
	err := tx.QueryRow(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		INSERT INTO console_sessions (id, user_id, origin, issuer, subject, client_id, sid, peer_address, claimed_address, user_agent,
			created_at_ms, last_seen_at_ms, idle_ms, expires_at_ms)
		SELECT gen_random_uuid(), $1, $2, $3, $4, NULLIF($5, ''), NULLIF($6, ''), $7, NULLIF($8, ''), NULLIF($9, ''), ms, ms, $10, ms + $11 FROM clock
		RETURNING id, created_at_ms, last_seen_at_ms, idle_ms, expires_at_ms, created_at_ms`,
		user, n.Origin, n.Issuer, n.Subject, n.clientID, n.sid, n.client.Peer, n.client.Claimed, displayed(n.client.UserAgent, 500),
		s.config.Idle.Milliseconds(), s.config.Lifetime.Milliseconds()).
		Scan(&session.ID, &session.CreatedAtMS, &session.LastSeenAtMS, &session.IdleMS, &session.ExpiresAtMS, &session.NowMS)
	return session, err
}

// setToken gives the browser a new token for session, and the old one nothing.
func (s *Sessions) setToken(ctx context.Context, w http.ResponseWriter, session Session) error {
	if err := s.cookies.RenewToken(ctx); err != nil {
		return err
	}
	s.cookies.Put(ctx, keyID, session.ID.String())
	s.cookies.Put(ctx, keyGeneration, session.Generation)
	token, expiry, err := s.cookies.Commit(ctx)
	if err != nil {
		return err
	}
	s.cookies.WriteSessionCookie(ctx, w, token, expiry)
	return nil
}

// Renew gives the current session a new token, after its user has proved more than before. A request in flight that
// writes the old token back writes the old generation with it, which no longer counts.
func (s *Sessions) Renew(ctx context.Context, w http.ResponseWriter) (_ context.Context, err error) {
	defer pg.Wrap(&err, "Sessions.Renew()")
	session, err := Current(ctx)
	if err != nil {
		return nil, err
	}
	tag, err := s.config.Authn.Exec(ctx, `
		UPDATE console_sessions SET generation = generation + 1 WHERE id = $1 AND generation = $2 AND revoked_at_ms IS NULL`,
		session.ID, session.Generation)
	if err != nil {
		return nil, err
	}
	if tag.RowsAffected() != 1 {
		return nil, &Ended{Reason: "renewed"}
	}
	session.Generation++
	if err := s.setToken(ctx, w, session); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, contextKey{}, loaded{session: session}), nil
}

// end revokes the live sessions that where selects, with args from $2 on, and returns how many. Every way a session ends
// before its time leads through here: what must end with a session ends in this transaction.
func end(ctx context.Context, q pg.Querier, reason, where string, args ...any) (int64, error) {
	tag, err := q.Exec(ctx, `UPDATE console_sessions SET revoked_at_ms = `+pg.ClockMS+`, revoke_reason = $1
		WHERE revoked_at_ms IS NULL AND `+where, append([]any{reason}, args...)...)
	return tag.RowsAffected(), err
}

// SignOut ends the current session and removes its cookie. A request without a session loses its cookie too.
func (s *Sessions) SignOut(ctx context.Context, w http.ResponseWriter, c Client) (err error) {
	defer pg.Wrap(&err, "Sessions.SignOut()")
	if session, err := Current(ctx); err == nil {
		if err := s.endAudited(ctx, "session.sign_out", "signed_out", session.Actor(c), "id = $2", session.ID); err != nil {
			return err
		}
	}
	return s.dropCookie(ctx, w)
}

// SignOutEverywhere ends every session of the current session's user, this one included.
func (s *Sessions) SignOutEverywhere(ctx context.Context, w http.ResponseWriter, c Client) (err error) {
	defer pg.Wrap(&err, "Sessions.SignOutEverywhere()")
	session, err := Current(ctx)
	if err != nil {
		return err
	}
	err = s.endAudited(ctx, "session.sign_out_everywhere", "signed_out_everywhere", session.Actor(c), "user_id = $2", session.UserID)
	if err != nil {
		return err
	}
	return s.dropCookie(ctx, w)
}

func (s *Sessions) endAudited(ctx context.Context, action, reason string, actor policy.Actor, where string, args ...any) error {
	return pg.InTx(ctx, s.config.Authn, func(tx pgx.Tx) error {
		n, err := end(ctx, tx, reason, where, args...)
		if err != nil {
			return err
		}
		return policy.WriteAudit(ctx, tx, policy.AuditEvent{Action: action, Outcome: policy.Allowed, Actor: actor, Detail: map[string]any{"sessions": n}})
	})
}

func (s *Sessions) dropCookie(ctx context.Context, w http.ResponseWriter) error {
	err := s.cookies.Destroy(ctx)
	s.config.Cookies.Write(w, sessionCookie, "")
	return err
}
