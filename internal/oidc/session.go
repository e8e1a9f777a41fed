package oidc

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
)

// An Origin is how a session began. However that was, it is a single factor.
type Origin string

// The origins.
const (
	OriginOIDC         Origin = "oidc"
	OriginProxyJWT     Origin = "proxy_jwt"
	OriginProxyHeaders Origin = "proxy_headers"
)

// A Session is what one reading of its row said. It is good for the request it was read for.
type Session struct {
	ID, UserID    uuid.UUID
	Issuer        string
	Subject       string
	Name          string // for people; may be ""
	Email         string // may be ""
	EmailVerified bool
	Origin        Origin
	ClientID      string // of the provider's client it began with; "" behind a proxy
	Generation    int64
	CreatedAtMS   int64
	LastSeenAtMS  int64
	IdleMS        int64 // it ends this long after LastSeenAtMS
	ExpiresAtMS   int64 // and then at the latest
	NowMS         int64 // the database clock of the reading
}

// Actor is the session's user as the actor of what c asks for.
func (s Session) Actor(c Client) policy.Actor {
	a := c.actor(policy.ByUser, s.label())
	a.UserID, a.Issuer, a.Subject, a.SessionID = &s.UserID, s.Issuer, s.Subject, &s.ID
	return a
}

func (s Session) label() string { return cmp.Or(s.Name, s.Email, s.Subject) }

// A Client is where a request comes from, for the audit.
type Client struct {
	Peer      string // the socket's address
	Claimed   string // what a trusted proxy says the address is; may be ""
	UserAgent string
	RequestID string
}

func (c Client) actor(kind policy.ActorType, name string) policy.Actor {
	return policy.Actor{Type: kind, Name: shorten(name, 500), Peer: c.Peer, Claimed: c.Claimed, RequestID: c.RequestID}
}

// ErrSignedOut is what every [*Ended] is.
var ErrSignedOut = errors.New("signed out")

// Ended says why a request has no session: "none" (it brought none), "expired", "idle", "renewed" (its cookie was replaced
// by a newer one), "user_disabled", or the reason for which the session was revoked.
type Ended struct{ Reason string }

func (e *Ended) Error() string        { return "signed out: " + e.Reason }
func (e *Ended) Is(target error) bool { return target == ErrSignedOut }

var errNone = &Ended{Reason: "none"}

// SessionsConfig is what sessions need. All fields but Idle and Lifetime are required.
type SessionsConfig struct {
	Console  *pgxpool.Pool // role ql3_console: reads sessions, and holds the cookie store
	Authn    *pgxpool.Pool // role ql3_authn: begins and ends sessions
	Cookies  Cookies
	Idle     time.Duration // 0 is 30 minutes
	Lifetime time.Duration // 0 is 12 hours
}

// Sessions are the console's own sessions.
type Sessions struct {
	config     SessionsConfig
	cookies    *scs.SessionManager
	foresights foresights
}

// The cookie store's rows outlive the sessions by more than the clocks of this machine and the database differ.
const storeMargin = 24 * time.Hour

// NewSessions makes them.
func NewSessions(c SessionsConfig) *Sessions {
	if c.Idle == 0 {
		c.Idle = 30 * time.Minute
	}
	if c.Lifetime == 0 {
		c.Lifetime = 12 * time.Hour
	}
	m := scs.New()
	m.Store = store{c.Console} // Run sweeps it, and ends when it is told to
	m.HashTokenInStore = true
	m.IdleTimeout = 0
	m.Lifetime = c.Lifetime + storeMargin
	m.Cookie = scs.SessionCookie{Name: c.Cookies.Name(sessionCookie), Path: c.Cookies.Path, Secure: c.Cookies.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	return &Sessions{config: c, cookies: m}
}

const sweepEvery = 5 * time.Minute

// Run sweeps until ctx is done. What it sweeps is dead already.
func (s *Sessions) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Sweep(ctx) // an error is the database's, which every request reports
		}
	}
}

// Sweep deletes what the cookie store no longer needs, and all transactions that are long over: the beginning of another
// sweeps a few, and after a flood there may be none for a long time.
func (s *Sessions) Sweep(ctx context.Context) (err error) {
	defer pg.Wrap(&err, "Sessions.Sweep()")
	_, err = s.config.Console.Exec(ctx, `DELETE FROM sessions WHERE expiry < current_timestamp`)
	for more := err == nil; more && err == nil; {
		more, err = sweepSome(ctx, s.config.Authn)
	}
	return err
}

// What the cookie store holds of a session.
const (
	keyID         = "id"
	keyGeneration = "generation"
)

type contextKey struct{}

// A loaded session is what [Sessions.Load] leaves in the context.
type loaded struct {
	session Session
	err     error
}

// Load reads the request's session; active says whether the request is its user's doing, and not a page's or a stream's
// own. It returns the context in which [Current] and the methods that begin and end sessions work. Its error is the
// database's: a request without a session is none.
//
// If the session's user could be told before it was read, what they may do was read with it: then access, unless it is nil, is
// that, and otherwise the zero Access.
func (s *Sessions) Load(r *http.Request, active bool, access *policy.Access) (_ context.Context, err error) {
	defer pg.Wrap(&err, "Sessions.Load()")
	token := s.config.Cookies.Read(r, sessionCookie)
	look, expected, l, err := s.foresee(r.Context(), token, access)
	if err != nil {
		return nil, err
	}
	ctx, err := s.cookies.Load(context.WithValue(r.Context(), lookedKey{}, look), token)
	if err != nil {
		return nil, err
	}
	if !look.says(expected) {
		expected = foresight{key: look.key, data: look.data, id: s.storedID(ctx), generation: s.cookies.GetInt64(ctx, keyGeneration)}
		l.session, l.err = s.read(ctx, expected.id, expected.generation)
		if expected.user = l.session.UserID; l.err == nil {
			s.foresights.remember(token, expected)
		}
	}
	if access != nil && access.UserID != l.session.UserID {
		*access = policy.Access{}
	}
	if errors.Is(l.err, ErrSignedOut) {
		s.foresights.forget(token)
	} else if l.err != nil {
		return nil, l.err
	}
	if active && l.err == nil && l.session.unnoted() {
		if err := s.note(ctx, l.session.ID); err != nil {
			return nil, err
		}
	}
	return context.WithValue(ctx, contextKey{}, l), nil
}

func (s *Sessions) storedID(ctx context.Context) uuid.UUID {
	id, err := uuid.Parse(s.cookies.GetString(ctx, keyID))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// Current is the session of the request that ctx belongs to. Its error is an [*Ended].
func Current(ctx context.Context) (Session, error) {
	l, ok := ctx.Value(contextKey{}).(loaded)
	if !ok {
		return Session{}, errNone
	}
	return l.session, l.err
}

// Recheck reads a session again, for what goes on longer than a request. It is no activity of its user's.
func (s *Sessions) Recheck(ctx context.Context, session Session) (_ Session, err error) {
	defer pg.Wrap(&err, "Sessions.Recheck(%s)", session.ID)
	return s.read(ctx, session.ID, session.Generation)
}

const seenEveryMS = 30_000 // how precisely activity is noted

const sessionColumns = `s.id, s.user_id, s.issuer, s.subject, coalesce(u.name, ''), coalesce(u.email, ''), u.email_verified, s.origin,
	coalesce(s.client_id, ''), s.generation, s.created_at_ms, s.last_seen_at_ms, s.idle_ms, s.expires_at_ms, clock.ms`

func (s *Session) fields() []any {
	return []any{&s.ID, &s.UserID, &s.Issuer, &s.Subject, &s.Name, &s.Email, &s.EmailVerified, &s.Origin,
		&s.ClientID, &s.Generation, &s.CreatedAtMS, &s.LastSeenAtMS, &s.IdleMS, &s.ExpiresAtMS, &s.NowMS}
}

// ended is the SQL for why session s of user u is over at clock.ms, an empty text when it is not.
const ended = `CASE
	WHEN s.revoked_at_ms IS NOT NULL THEN s.revoke_reason
	WHEN u.status <> 'active' THEN 'user_disabled'
	WHEN s.expires_at_ms <= clock.ms THEN 'expired'
	WHEN s.last_seen_at_ms + s.idle_ms <= clock.ms THEN 'idle'
	ELSE '' END`

// readSQL is the one reading that decides, of the session $1 and its generation $2.
const readSQL = `
	WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms)
	SELECT ` + sessionColumns + `, CASE WHEN s.generation <> $2 THEN 'renewed' ELSE ` + ended + ` END
	FROM console_sessions s JOIN users u ON u.id = s.user_id CROSS JOIN clock WHERE s.id = $1`

func (s *Sessions) read(ctx context.Context, id uuid.UUID, generation int64) (Session, error) {
	if id == uuid.Nil {
		return Session{}, errNone
	}
	return scanSession(s.config.Console.QueryRow(ctx, readSQL, id, generation))
}

// unnoted reports whether activity is to be noted.
func (s Session) unnoted() bool { return s.LastSeenAtMS < s.NowMS-seenEveryMS }

// note notes activity in a session that is alive, unless another request has meanwhile. It waits for nobody who holds the row:
// another request notes it.
func (s *Sessions) note(ctx context.Context, id uuid.UUID) error {
	_, err := s.config.Console.Exec(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		UPDATE console_sessions SET last_seen_at_ms = clock.ms FROM clock WHERE id IN (
			SELECT s.id FROM console_sessions s JOIN users u ON u.id = s.user_id CROSS JOIN clock
			WHERE s.id = $1 AND `+ended+` = '' AND s.last_seen_at_ms < clock.ms - $2 FOR NO KEY UPDATE OF s SKIP LOCKED)`, id, seenEveryMS)
	return err
}

// scanSession returns the session of readSQL, or an [*Ended].
func scanSession(row pgx.Row) (Session, error) {
	var session Session
	var why string
	err := row.Scan(append(session.fields(), &why)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, errNone
	}
	if err != nil {
		return Session{}, err
	}
	if why != "" {
		return Session{}, &Ended{Reason: why}
	}
	return session, nil
}

// A Device is a live session as its user sees it in a list.
type Device struct {
	Session
	Peer, Claimed, UserAgent string // where it began
}

// List is a user's live sessions, newest first, at most 200.
func (s *Sessions) List(ctx context.Context, user uuid.UUID) (_ []Device, err error) {
	defer pg.Wrap(&err, "Sessions.List(%s)", user)
	rows, err := s.config.Console.Query(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		SELECT `+sessionColumns+`, s.peer_address, coalesce(s.claimed_address, ''), coalesce(s.user_agent, '')
		FROM console_sessions s JOIN users u ON u.id = s.user_id CROSS JOIN clock
		WHERE s.user_id = $1 AND `+ended+` = '' ORDER BY s.created_at_ms DESC, s.id LIMIT 200`, user)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Device, err error) {
		return d, row.Scan(append(d.fields(), &d.Peer, &d.Claimed, &d.UserAgent)...)
	})
}
