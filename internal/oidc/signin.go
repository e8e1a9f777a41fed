package oidc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

// SignInConfig is what sign-in needs. All fields are required.
type SignInConfig struct {
	Provider    *Provider
	Sessions    *Sessions
	Authn       *pgxpool.Pool // role ql3_authn
	RedirectURL string        // of the sign-in callback: below the public URL, whatever a request says
	Log         *slog.Logger
}

// SignIn is the authorization code flow by which a session begins.
type SignIn struct{ config SignInConfig }

// NewSignIn makes it.
func NewSignIn(c SignInConfig) *SignIn { return &SignIn{config: c} }

// Start begins a transaction for the browser that holds binder and returns the provider's URL to send it to. A browser
// has at most 16 of them; the oldest makes room. The error is a [*Refusal] when the provider was never reached.
func (s *SignIn) Start(ctx context.Context, binder string, route Route, c Client) (_ string, err error) {
	defer pg.Wrap(&err, "SignIn.Start()")
	m, err := s.config.Provider.known()
	if err != nil {
		return "", s.denied(ctx, c, err)
	}
	if binder == "" {
		return "", errors.New("a transaction without a binder is anybody's")
	}
	t, err := begin(ctx, s.config.Authn, forSignIn, binder, s.config.Provider, route)
	if err != nil {
		return "", err
	}
	return s.config.Provider.authURL(m, s.config.RedirectURL, t), nil
}

// Outcome is a sign-in that succeeded: the session whose cookie was set, and where its user was going.
type Outcome struct {
	Session Session
	Route   Route
}

// Callback takes the provider's answer, begins a session and sets its cookie. ctx must come from [Sessions.Load]. The
// error is a [*Refusal] unless it is the database's; the session the browser had is then as it was.
func (s *SignIn) Callback(ctx context.Context, w http.ResponseWriter, binder string, answer url.Values, c Client) (_ Outcome, err error) {
	defer pg.Wrap(&err, "SignIn.Callback()")
	t, err := spend(ctx, s.config.Authn, binder, single(answer, "state"), forSignIn)
	if err != nil {
		return Outcome{}, s.denied(ctx, c, err)
	}
	n, err := s.identify(ctx, binder, answer, t)
	if err != nil {
		return Outcome{}, s.denied(ctx, c, toward(t.route, err))
	}
	n.client = c
	session, err := s.config.Sessions.begin(ctx, w, n)
	if err != nil {
		return Outcome{}, s.deniedAs(ctx, n, toward(t.route, err))
	}
	return Outcome{Session: session, Route: t.route}, nil
}

// identify reads the answer to a transaction that is spent.
func (s *SignIn) identify(ctx context.Context, binder string, answer url.Values, t spent) (newcomer, error) {
	c, err := s.config.Provider.complete(ctx, s.config.RedirectURL, binder, answer, t)
	if err != nil {
		return newcomer{}, err
	}
	return s.config.Provider.newcomer(c, t.spentAtMS), nil
}

// complete takes a spent transaction from the provider's answer to verified claims.
func (p *Provider) complete(ctx context.Context, redirectURL, binder string, answer url.Values, t spent) (claims, error) {
	m, err := p.known()
	if err != nil {
		return nil, err
	}
	if t.issuer != p.Issuer() || t.clientID != p.ClientID() {
		return nil, refuse(UnknownState, text.Of("The answer belongs to a provider or client that is no longer configured."))
	}
	if err := p.checkIss(m, answer); err != nil {
		return nil, err
	}
	if _, refused := answer["error"]; refused {
		return nil, answeredError(single(answer, "error"))
	}
	code := single(answer, "code")
	if code == "" {
		return nil, refuse(ProviderError, text.Of("The provider's answer holds neither a code nor an error."))
	}
	idToken, accessToken, err := p.redeem(ctx, m, redirectURL, code, pkceVerifier(binder, t.id))
	if err != nil {
		return nil, err
	}
	return p.verifyID(ctx, m, idToken, accessToken, t)
}

func answeredError(code string) error {
	switch code {
	case "access_denied":
		return refuse(Cancelled, text.Of("The sign-in was cancelled at the provider."))
	case "login_required", "interaction_required", "account_selection_required", "consent_required":
		return refuse(ProviderError, text.Of("The provider wants something of you that it could not ask for (%s).", code))
	case "temporarily_unavailable", "server_error":
		r := refuse(ProviderUnavailable, text.Of("The provider says that it cannot sign anybody in now (%s).", code))
		r.Transient = true
		return r
	}
	if word := stableWord(code); word != "" {
		return refuse(ProviderError, text.Of("The provider answered with an error (%s).", word))
	}
	return refuse(ProviderError, text.Of("The provider answered with an error."))
}

// newcomer is who verified claims speak of. The issuer is the configured one: go-oidc lets Google write its own without
// a scheme.
func (p *Provider) newcomer(c claims, nowMS int64) newcomer {
	n := newcomer{Identity: c.identity(OriginOIDC, p.Issuer()), clientID: p.ClientID()}
	n.sid, _ = c.identifier("sid")
	n.JoinKey = c.joinKey(p.config.JoinClaim)
	n.authTime = authenticatedAt(c, time.UnixMilli(nowMS))
	return n
}

// authenticatedAt is no later than when the user last authenticated, as far as the token tells, and 0 when it cannot be
// believed. A later proof must be of a later authentication, so that when a token does not say, the time it was issued
// stands in: it only ever refuses more.
func authenticatedAt(c claims, now time.Time) int64 {
	s, ok := c.authTime()
	if !ok {
		issued, _ := c.instant("iat")
		s = issued.Unix()
	}
	if s < 0 || time.Unix(s, 0).After(now.Add(futureSkew)) {
		return 0
	}
	return s
}

// single is a parameter that is there exactly once, else "".
func single(answer url.Values, name string) string {
	if len(answer[name]) != 1 {
		return ""
	}
	return answer[name][0]
}

// toward says in a refusal where the user was going.
func toward(route Route, err error) error {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		refusal.Route = &route
	}
	return err
}

func (s *SignIn) denied(ctx context.Context, c Client, err error) error {
	return denied(ctx, s.config.Authn, s.config.Log, actionSignIn, c.actor(policy.ByAnonymous, "anonymous"), err)
}

// deniedAs audits a refusal of somebody whose identity was verified.
func (s *SignIn) deniedAs(ctx context.Context, n newcomer, err error) error {
	return denied(ctx, s.config.Authn, s.config.Log, actionSignIn, n.actor(), err)
}

func (n newcomer) actor() policy.Actor {
	a := n.client.actor(policy.ByAnonymous, cmp.Or(n.Name, n.Email, n.Subject))
	a.Issuer, a.Subject = n.Issuer, n.Subject
	return a
}
