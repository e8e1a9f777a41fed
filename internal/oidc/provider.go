package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"github.com/qinglong/console/internal/text"
)

const (
	rediscoverEvery = 5 * time.Minute
	firstRetry      = time.Second
	longestRetry    = 30 * time.Second
)

var errNotDiscovered = errors.New("discovery of the identity provider has not succeeded yet")

// A Provider is one client at one OpenID provider. Discovery runs beside everything else: until it has succeeded there is
// no sign-in, and nothing but sign-in waits for it.
type Provider struct {
	config ProviderConfig
	log    *slog.Logger
	client *http.Client

	mu       sync.Mutex
	metadata *metadata // nil until discovered
	err      error     // of the newest discovery
}

// metadata is what discovery found, checked.
type metadata struct {
	oauth      oauth2.Endpoint
	endSession string // "" when the provider has none
	sendsIss   bool   // RFC 9207: every answer carries iss
	algs       []string
	jwksURL    string
	keys       *keySet
}

// NewProvider makes a provider of a configuration that [ProviderConfig.Check] accepts. Nothing is called yet.
func NewProvider(c ProviderConfig, log *slog.Logger) *Provider {
	return &Provider{config: c, log: log, client: httpClient(c.Timeout), err: errNotDiscovered}
}

// Issuer is the configured issuer.
func (p *Provider) Issuer() string { return p.config.Issuer }

// ClientID is the configured client id.
func (p *Provider) ClientID() string { return p.config.ClientID }

// Run discovers the provider, again and again until it succeeds, and then every few minutes, until ctx is done.
func (p *Provider) Run(ctx context.Context) {
	retry := firstRetry
	for {
		before := p.Status()
		err := p.Discover(ctx)
		wait := rediscoverEvery
		if err != nil {
			wait = retry/2 + rand.N(retry/2)
			retry = min(2*retry, longestRetry)
		} else {
			retry = firstRetry
		}
		p.logChange(ctx, before, err, wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (p *Provider) logChange(ctx context.Context, before, after error, wait time.Duration) {
	switch {
	case ctx.Err() != nil:
	case after != nil && (before == nil || before.Error() != after.Error()):
		p.log.WarnContext(ctx, "identity provider unavailable", "issuer", p.config.Issuer, "client", p.config.ClientID, "err", shorten(after.Error(), 300), "again_in", wait)
	case after == nil && before != nil:
		p.log.InfoContext(ctx, "identity provider discovered", "issuer", p.config.Issuer, "client", p.config.ClientID)
	}
}

// Status is nil when the newest discovery succeeded, and otherwise says why it did not. What an earlier one found
// stays in use.
func (p *Provider) Status() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Discover reads the provider's metadata once.
func (p *Provider) Discover(ctx context.Context) error {
	m, err := p.discover(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if err != nil {
		return err
	}
	if old := p.metadata; old != nil && old.jwksURL == m.jwksURL && slices.Equal(old.algs, m.algs) {
		m.keys = old.keys
	} else {
		m.keys = newKeySet(m.jwksURL, p.client, m.algs)
	}
	p.metadata = m
	return nil
}

func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	found, err := gooidc.NewProvider(gooidc.ClientContext(ctx, p.client), p.config.Issuer)
	if mismatch, ok := errors.AsType[*gooidc.IssuerMismatchError](err); ok {
		return nil, fmt.Errorf("the provider names itself %q, and is configured as %q: they must be the same to the letter, a trailing slash included",
			shorten(mismatch.Discovered, 200), mismatch.Provided)
	}
	if err != nil {
		return nil, errors.New(shorten(err.Error(), 300))
	}
	var document struct {
		EndSession  string   `json:"end_session_endpoint"`
		JWKS        string   `json:"jwks_uri"`
		SendsIss    bool     `json:"authorization_response_iss_parameter_supported"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := found.Claims(&document); err != nil {
		return nil, fmt.Errorf("the discovery document is not as OpenID Connect has it: %w", err)
	}
	m := &metadata{oauth: found.Endpoint(), endSession: document.EndSession, sendsIss: document.SendsIss, jwksURL: document.JWKS}
	m.algs = supported(document.Algorithms)
	m.oauth.AuthStyle, err = p.authStyle(document.AuthMethods)
	return m, errors.Join(err, p.checkEndpoints(m))
}

func (p *Provider) checkEndpoints(m *metadata) error {
	err := errors.Join(
		checkEndpoint("the authorization endpoint", m.oauth.AuthURL, p.config.AllowHTTP),
		checkEndpoint("the token endpoint", m.oauth.TokenURL, p.config.AllowHTTP),
		checkEndpoint("the key set's address", m.jwksURL, p.config.AllowHTTP))
	if m.endSession != "" {
		err = errors.Join(err, checkEndpoint("the end-session endpoint", m.endSession, p.config.AllowHTTP))
	}
	return err
}

func supported(advertised []string) []string {
	algs := slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool { return !slices.Contains(advertised, a) })
	if len(algs) == 0 {
		return []string{"RS256"} // the one that every provider must have
	}
	return algs
}

// authStyle is never left to be found out: x/oauth2 would try one way and then the other, redeem the code twice and
// report the second error.
func (p *Provider) authStyle(advertised []string) (oauth2.AuthStyle, error) {
	switch p.config.AuthStyle {
	case "basic":
		return oauth2.AuthStyleInHeader, nil
	case "post", "none":
		return oauth2.AuthStyleInParams, nil
	}
	if p.config.ClientSecret == "" {
		return oauth2.AuthStyleInParams, nil
	}
	if len(advertised) == 0 || slices.Contains(advertised, "client_secret_basic") {
		return oauth2.AuthStyleInHeader, nil
	}
	if slices.Contains(advertised, "client_secret_post") {
		return oauth2.AuthStyleInParams, nil
	}
	return 0, errors.New("the provider advertises neither client_secret_basic nor client_secret_post: set the auth style")
}

// known is the metadata, or the refusal that says there is none.
func (p *Provider) known() (*metadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.metadata == nil {
		return nil, refuse(ProviderUnavailable, text.Of("The identity provider %s cannot be reached.", p.config.Issuer)).because(p.err)
	}
	return p.metadata, nil
}

func (p *Provider) oauth(m *metadata, redirectURL string) oauth2.Config {
	return oauth2.Config{ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: m.oauth,
		RedirectURL: redirectURL, Scopes: p.config.scopes()}
}

// authURL is where to send the browser.
func (p *Provider) authURL(m *metadata, redirectURL string, t begun, extra ...oauth2.AuthCodeOption) string {
	config := p.oauth(m, redirectURL)
	options := append([]oauth2.AuthCodeOption{gooidc.Nonce(t.nonce), oauth2.S256ChallengeOption(pkceVerifier(t.binder, t.id)),
		oauth2.SetAuthURLParam("response_mode", "query")}, extra...)
	return config.AuthCodeURL(t.state, options...)
}

// pkceVerifier is made from what the browser has and what the database has, so that neither alone redeems a code.
func pkceVerifier(binder string, transaction uuid.UUID) string {
	mac := hmac.New(sha256.New, []byte(binder))
	mac.Write(transaction[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// checkIss compares the iss parameter of an answer (RFC 9207), also of an error.
func (p *Provider) checkIss(m *metadata, answer url.Values) error {
	iss := answer["iss"]
	if len(iss) == 0 && !m.sendsIss {
		return nil
	}
	if len(iss) != 1 || iss[0] != p.config.Issuer {
		return refuse(WrongIssuer, text.Of("The answer does not say that it comes from %s.", p.config.Issuer))
	}
	return nil
}

// redeem exchanges the code, once, and returns the ID token and the access token.
func (p *Provider) redeem(ctx context.Context, m *metadata, redirectURL, code, verifier string) (idToken, accessToken string, err error) {
	config := p.oauth(m, redirectURL)
	tokens, err := config.Exchange(gooidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", "", redemption(err)
	}
	idToken, ok := tokens.Extra("id_token").(string)
	if !ok {
		return "", "", refuse(BadToken, text.Of("The provider's token endpoint answered without an ID token."))
	}
	return idToken, tokens.AccessToken, nil
}

// redemption drops what the token endpoint wrote: it may hold anything, tokens included.
func redemption(err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if code := stableWord(answer.ErrorCode); code != "" {
			return refuse(ProviderError, text.Of("The provider's token endpoint refused the sign-in (%s).", code))
		}
		kind := ProviderError
		if answer.Response.StatusCode >= 500 {
			kind = ProviderUnavailable
		}
		return refuse(kind, text.Of("The provider's token endpoint answered %s.", answer.Response.StatusCode))
	}
	if transport, ok := errors.AsType[*url.Error](err); ok {
		return refuse(ProviderUnavailable, text.Of("The provider's token endpoint could not be reached, or did not answer in time.")).because(transport)
	}
	return refuse(ProviderUnavailable, text.Of("The provider's token endpoint answered with something that is not a token response."))
}

// stableWord is an OAuth error code, or "" for anything that does not look like one.
func stableWord(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && r != '_' {
			return ""
		}
	}
	return shorten(s, 60)
}

// EndSessionURL is where the provider ends its own session (RP-Initiated Logout 1.0), and "" when it cannot. No ID token
// is kept to be sent along as a hint, so the provider may ask the user.
func (p *Provider) EndSessionURL(s Session, postLogoutRedirect string) string {
	m, err := p.known()
	if err != nil || m.endSession == "" || s.Origin != OriginOIDC || s.Issuer != p.config.Issuer {
		return ""
	}
	u, err := url.Parse(m.endSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.config.ClientID)
	if postLogoutRedirect != "" {
		q.Set("post_logout_redirect_uri", postLogoutRedirect)
	}
	u.RawQuery = q.Encode()
	return u.String()
}
