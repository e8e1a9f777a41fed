package oidc

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/qinglong/console/internal/text"
)

// proxyJWT verifies the one JWT with which a proxy signs whom it let through.
type proxyJWT struct {
	header   string
	audience string
	join     string
	signer   signer
	now      func(context.Context) (time.Time, error)
}

func newProxyJWT(c ProxyConfig, client *http.Client, now func(context.Context) (time.Time, error)) proxyJWT {
	return proxyJWT{header: c.Header, audience: c.Audience, join: c.JoinClaim, now: now,
		signer: signer{issuer: c.Issuer, algs: c.Algorithms, keys: newKeySet(c.KeysURL, client, c.Algorithms), names: namesWith(c.JoinClaim)}}
}

func (p proxyJWT) read(r *http.Request) (Identity, error) {
	raw, err := oneJWT(r, p.header)
	if err != nil {
		return Identity{}, err
	}
	if !typed(raw, p.signer.algs, "JWT") {
		return Identity{}, refuse(BadToken, text.Of("The proxy's token is of another type than a JWT."))
	}
	now, err := p.now(r.Context())
	if err != nil {
		return Identity{}, err
	}
	c, _, err := p.signer.verify(r.Context(), raw, p.audience, now)
	if err != nil {
		return Identity{}, err
	}
	if _, there := c["events"]; there {
		return Identity{}, refuse(BadToken, text.Of("The proxy's token is a logout token."))
	}
	i := c.identity(OriginProxyJWT, p.signer.issuer)
	i.JoinKey = c.joinKey(p.join)
	return i, nil
}

// oneJWT is the header's one value, after Bearer in Authorization.
func oneJWT(r *http.Request, header string) (string, error) {
	value, err := one(r, header)
	if err != nil {
		return "", err
	}
	if strings.EqualFold(header, "Authorization") {
		scheme, rest, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", refuse(NoIdentity, text.Of("The request did not come through the sign-in proxy."))
		}
		value = rest
	}
	if len(value) > maxToken {
		return "", refuse(BadToken, text.Of("The proxy's token is too long."))
	}
	return value, nil
}
