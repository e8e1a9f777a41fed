package idp

import (
	"crypto/subtle"
	"net/url"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// A Client is a program that may send people here. Every URI is compared whole.
type Client struct {
	ID             string
	Secret         string // empty: a public client, which PKCE alone protects
	RedirectURIs   []string
	PostLogoutURIs []string
	BackChannelURI string // told when a session it took part in ends; empty: not told
}

const tokenLifetime = 5 * time.Minute

// client is a Client as the library asks about it.
type client struct{ Client }

func (c client) GetID() string                       { return c.ID }
func (c client) RedirectURIs() []string              { return c.Client.RedirectURIs }
func (c client) PostLogoutRedirectURIs() []string    { return c.PostLogoutURIs }
func (c client) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }
func (c client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c client) GrantTypes() []oidc.GrantType        { return []oidc.GrantType{oidc.GrantTypeCode} }
func (c client) LoginURL(id string) string           { return "/login?id=" + url.QueryEscape(id) }
func (c client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeBearer }
func (c client) IDTokenLifetime() time.Duration      { return tokenLifetime }
func (c client) DevMode() bool                       { return true } // redirect URIs are http on loopback
func (c client) IsScopeAllowed(string) bool          { return false }
func (c client) ClockSkew() time.Duration            { return 0 }

// IDTokenUserinfoClaimsAssertion puts name and address into the ID token, so that a client needs no second request.
func (c client) IDTokenUserinfoClaimsAssertion() bool { return true }

func (c client) RestrictAdditionalIdTokenScopes() func([]string) []string { return allScopes }

func (c client) RestrictAdditionalAccessTokenScopes() func([]string) []string { return allScopes }

func allScopes(scopes []string) []string { return scopes }

func (c client) AuthMethod() oidc.AuthMethod {
	if c.Secret == "" {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic // the library takes it from the form, too
}

func (c client) knows(secret string) bool {
	return c.Secret != "" && subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) == 1
}
