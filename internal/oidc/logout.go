package oidc

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

const (
	logoutEvent  = "http://schemas.openid.net/event/backchannel-logout"
	logoutMaxAge = 5 * time.Minute
	// A token is remembered for longer than it can be accepted.
	rememberMS = 60 * 60_000
	maxToken   = 64 << 10 // bytes
)

const actionLogout = "session.backchannel_logout"

// BackChannel ends sessions when a provider says so (Back-Channel Logout 1.0).
type BackChannel struct {
	provider *Provider
	authn    *pgxpool.Pool
	log      *slog.Logger
}

// NewBackChannel takes logout tokens of p, made for its client or one of its LogoutClientIDs; authn is role ql3_authn.
func NewBackChannel(p *Provider, authn *pgxpool.Pool, log *slog.Logger) *BackChannel {
	return &BackChannel{provider: p, authn: authn, log: log}
}

// Logout takes the form a provider posted, ends exactly the sessions its token names, and returns how many: those of its
// sid, or, without one, all of its subject's. The error is a [*Refusal] unless it is the database's.
func (b *BackChannel) Logout(ctx context.Context, form url.Values, c Client) (ended int64, err error) {
	defer pg.Wrap(&err, "BackChannel.Logout()")
	t, err := b.verify(ctx, single(form, "logout_token"))
	if err != nil {
		return 0, b.denied(ctx, c, err)
	}
	if err := b.forget(ctx); err != nil {
		return 0, err
	}
	err = pg.InTx(ctx, b.authn, func(tx pgx.Tx) (err error) {
		ended, err = b.end(ctx, tx, t, c)
		return err
	})
	if err != nil {
		return 0, b.denied(ctx, c, err)
	}
	return ended, nil
}

func (b *BackChannel) denied(ctx context.Context, c Client, err error) error {
	return denied(ctx, b.authn, b.log, actionLogout, b.actor(c), err)
}

func (b *BackChannel) actor(c Client) policy.Actor {
	a := c.actor(policy.ByProvider, b.provider.Issuer())
	a.Issuer = b.provider.Issuer()
	return a
}

// logoutToken is what a verified one says: whom it names, and its own id.
type logoutToken struct{ jti, sid, sub string }

func (b *BackChannel) verify(ctx context.Context, raw string) (logoutToken, error) {
	if raw == "" || len(raw) > maxToken {
		return logoutToken{}, refuse(BadToken, text.Of("The form holds no logout token."))
	}
	m, err := b.provider.known()
	if err != nil {
		return logoutToken{}, err
	}
	if !typed(raw, m.algs, "JWT", "logout+jwt") {
		return logoutToken{}, refuse(BadToken, text.Of("The token's type is not that of a logout token."))
	}
	now, err := clock(ctx, b.authn)
	if err != nil {
		return logoutToken{}, err
	}
	r := &ring{signer: b.provider.signer(m)}
	if _, err := r.verifier("", now).VerifyLogout(ctx, raw); err != nil {
		return logoutToken{}, r.refusal(err, "")
	}
	return r.claims.logoutToken(b.clients(), now)
}

func (b *BackChannel) clients() []string {
	return append([]string{b.provider.ClientID()}, b.provider.config.LogoutClientIDs...)
}

// logoutToken checks what go-oidc does not: that the audience is one of several clients, the age, and every claim by type.
func (c claims) logoutToken(clients []string, now time.Time) (logoutToken, error) {
	if !slices.ContainsFunc(c.audience(), func(a string) bool { return slices.Contains(clients, a) }) {
		return logoutToken{}, refuse(BadToken, text.Of("The logout token was made for another client."))
	}
	if err := c.checkIssuedAt(now); err != nil {
		return logoutToken{}, err
	}
	if issued, _ := c.instant("iat"); issued.Before(now.Add(-logoutMaxAge)) {
		return logoutToken{}, refuse(BadToken, text.Of("The logout token was issued more than five minutes ago."))
	}
	if _, there := c["nonce"]; there || !c.isLogout() {
		return logoutToken{}, refuse(BadToken, text.Of("The token is not a logout token."))
	}
	var t logoutToken
	var ok bool
	if t.jti, ok = c.identifier("jti"); !ok {
		return logoutToken{}, refuse(BadToken, text.Of("The logout token has no id."))
	}
	t.sid, ok = c.optional("sid")
	sub, subOK := c.optional("sub")
	t.sub = sub
	if !ok || !subOK || t.sid == "" && t.sub == "" {
		return logoutToken{}, refuse(BadToken, text.Of("The logout token names neither a session nor a subject."))
	}
	return t, nil
}

// optional is a claim that may be missing but, when there, is an identifier.
func (c claims) optional(name string) (value string, ok bool) {
	if _, there := c[name]; !there {
		return "", true
	}
	return c.identifier(name)
}

// isLogout reports whether events holds the logout event, which is an object.
func (c claims) isLogout() bool {
	events, err := decodeClaims(c["events"], []string{logoutEvent})
	if err != nil {
		return false
	}
	var event map[string]json.RawMessage
	return json.Unmarshal(events[logoutEvent], &event) == nil && event != nil
}

// typed reports whether a compact JWT's typ is one of types or missing. JWT says nothing and is what most libraries write.
func typed(raw string, algs []string, types ...string) bool {
	var allowed []jose.SignatureAlgorithm
	for _, a := range algs {
		allowed = append(allowed, jose.SignatureAlgorithm(a))
	}
	signed, err := jose.ParseSignedCompact(raw, allowed)
	if err != nil {
		return true // the verification says what is wrong
	}
	typ, there := signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType]
	name, _ := typ.(string)
	name = strings.TrimPrefix(strings.ToLower(name), "application/")
	return !there || slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, name) })
}

// end remembers the token, so that it works once, and ends the sessions it names.
func (b *BackChannel) end(ctx context.Context, tx pgx.Tx, t logoutToken, c Client) (int64, error) {
	if err := b.remember(ctx, tx, t.jti); err != nil {
		return 0, err
	}
	issuer := b.provider.Issuer()
	where, args := "issuer = $2 AND subject = $3", []any{issuer, t.sub}
	if t.sid != "" {
		where, args = "issuer = $2 AND sid = $3 AND subject = coalesce(NULLIF($4, ''), subject)", []any{issuer, t.sid, t.sub}
	}
	n, err := end(ctx, tx, "backchannel_logout", where, args...)
	if err != nil {
		return 0, err
	}
	return n, policy.WriteAudit(ctx, tx, policy.AuditEvent{Action: actionLogout, Outcome: policy.Allowed, Actor: b.actor(c), Detail: map[string]any{"sessions": n}})
}

// remember stores a token's id, which it can once.
func (b *BackChannel) remember(ctx context.Context, tx pgx.Tx, jti string) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO logout_tokens (issuer, jti, created_at_ms) SELECT $1, $2, `+pg.ClockMS+` ON CONFLICT DO NOTHING`, b.provider.Issuer(), jti)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return refuse(Replayed, text.Of("The logout token was used before."))
	}
	return nil
}

// forget deletes the ids of tokens that are too old to be accepted.
func (b *BackChannel) forget(ctx context.Context) error {
	_, err := b.authn.Exec(ctx, `DELETE FROM logout_tokens WHERE created_at_ms < `+pg.ClockMS+` - $1`, rememberMS)
	return err
}

// clock is the database's.
func clock(ctx context.Context, q pg.Querier) (time.Time, error) {
	var ms int64
	err := q.QueryRow(ctx, `SELECT `+pg.ClockMS).Scan(&ms)
	return time.UnixMilli(ms), err
}
