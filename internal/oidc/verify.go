package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/qinglong/console/internal/text"
)

const futureSkew = 60 * time.Second // how far a provider's clock may be ahead of the database's

// signer is who must have signed a token, and with what.
type signer struct {
	issuer string
	algs   []string
	keys   gooidc.KeySet
	names  []string // the claims that are read
}

// A ring stands between go-oidc and the keys: it decodes the verified payload by exact name before go-oidc reads it in
// any case, and remembers what went wrong, which go-oidc puts into a sentence.
type ring struct {
	signer
	claims claims
	err    error
}

func (r *ring) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := r.keys.VerifySignature(ctx, jwt)
	if err == nil {
		r.claims, err = decodeClaims(payload, r.names)
	}
	r.err = err
	return payload, err
}

func (r *ring) verifier(client string, now time.Time) *gooidc.IDTokenVerifier {
	return gooidc.NewVerifier(r.issuer, r, &gooidc.Config{ClientID: client, SkipClientIDCheck: client == "",
		SupportedSigningAlgs: r.algs, Now: func() time.Time { return now }})
}

// verify accepts a token of s for client that is good at now, and returns its claims. It is a refusal otherwise.
func (s signer) verify(ctx context.Context, raw, client string, now time.Time) (claims, *gooidc.IDToken, error) {
	r := &ring{signer: s}
	token, err := r.verifier(client, now).Verify(ctx, raw)
	if err != nil {
		return nil, nil, r.refusal(err, client)
	}
	return r.claims, token, r.claims.checkCommon(now)
}

// refusal says what go-oidc's error was about without repeating it, for it may quote the token.
func (r *ring) refusal(err error, client string) error {
	if errors.Is(r.err, errNoKeys) {
		return refuse(ProviderUnavailable, text.Of("The keys of %s could not be fetched.", r.issuer)).because(r.err)
	}
	if why, ok := errors.AsType[ambiguous](r.err); ok {
		return refuse(BadToken, text.Of("The token's payload is ambiguous: %s.", why.Text))
	}
	if r.claims == nil {
		return refuse(BadToken, text.Of("The token is not signed with a published key of %s and an algorithm it may use.", r.issuer))
	}
	if _, ok := errors.AsType[*gooidc.TokenExpiredError](err); ok {
		return refuse(BadToken, text.Of("The token has expired."))
	}
	if iss, _ := r.claims.text("iss"); iss != r.issuer {
		return refuse(BadToken, text.Of("The token names another issuer than %s.", r.issuer))
	}
	if client != "" && !slices.Contains(r.claims.audience(), client) {
		return refuse(BadToken, text.Of("The token was made for another client than %s.", client))
	}
	return refuse(BadToken, text.Of("A claim of the token is missing, of the wrong type, or not valid yet."))
}

func (c claims) checkCommon(now time.Time) error {
	if _, ok := c.identifier("sub"); !ok {
		return refuse(BadToken, text.Of("The token names no subject."))
	}
	return c.checkIssuedAt(now)
}

func (c claims) checkIssuedAt(now time.Time) error {
	issued, ok := c.instant("iat")
	if !ok {
		return refuse(BadToken, text.Of("The token does not say when it was issued."))
	}
	if issued.After(now.Add(futureSkew)) {
		return refuse(BadToken, text.Of("The token was issued in the future: the provider's clock and the database's are more than a minute apart."))
	}
	return nil
}

// signer is the provider as one who signs ID tokens and logout tokens.
func (p *Provider) signer(m *metadata) signer {
	return signer{issuer: p.config.Issuer, algs: m.algs, keys: m.keys, names: namesWith(p.config.JoinClaim)}
}

// verifyID accepts an ID token that was made for the transaction t, judged at the instant t was spent.
func (p *Provider) verifyID(ctx context.Context, m *metadata, idToken, accessToken string, t spent) (claims, error) {
	c, token, err := p.signer(m).verify(ctx, idToken, p.config.ClientID, time.UnixMilli(t.spentAtMS))
	if err != nil {
		return nil, err
	}
	if err := c.checkNonce(t.nonceHash); err != nil {
		return nil, err
	}
	if err := c.checkParty(p.config.ClientID); err != nil {
		return nil, err
	}
	if _, there := c["at_hash"]; there && token.VerifyAccessToken(accessToken) != nil {
		return nil, refuse(BadToken, text.Of("The ID token and the access token do not belong together."))
	}
	return c, nil
}

func (c claims) checkNonce(want []byte) error {
	nonce, _ := c.text("nonce")
	got := sha256.Sum256([]byte(nonce)) // never that of a nonce that was made, when there is none
	if subtle.ConstantTimeCompare(got[:], want) != 1 {
		return refuse(WrongNonce, text.Of("The token was not made for this sign-in."))
	}
	return nil
}

// checkParty wants the client to be the authorized party when there are several audiences, or when one is named.
func (c claims) checkParty(client string) error {
	_, named := c["azp"]
	if !named && len(c.audience()) == 1 {
		return nil
	}
	if party, _ := c.text("azp"); party != client {
		return refuse(BadToken, text.Of("The token was issued to another client than %s.", client))
	}
	return nil
}
