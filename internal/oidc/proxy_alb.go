package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/qinglong/console/internal/text"
)

// An alb verifies what an AWS Application Load Balancer signs, which is nearly a JWT: its base64url is padded, and the
// padding is signed; issuer, client, signer and expiry stand in its header; each key is a PEM file of its own.
type alb struct {
	config ProxyConfig
	client *http.Client
	now    func(context.Context) (time.Time, error)
	limit  *rate.Limiter // of every fetch but the first

	fetching sync.Mutex // held during a fetch, so that there is one at a time
	mu       sync.Mutex // guards what follows, never held during a fetch
	fetches  int
	keys     map[string]*ecdsa.PublicKey
}

var albHeaderNames = []string{"alg", "kid", "typ", "signer", "iss", "client", "exp"}

const maxALBKeys = 32

func newALB(c ProxyConfig, client *http.Client, now func(context.Context) (time.Time, error)) *alb {
	return &alb{config: c, client: client, now: now, limit: newRefetchLimit(), keys: map[string]*ecdsa.PublicKey{}}
}

// albKeysURL is where a load balancer's keys are, by the region in its ARN; "" when there is none.
func albKeysURL(arn string) string {
	parts := strings.Split(arn, ":")
	if len(parts) < 6 || parts[1] != "aws" || parts[3] == "" {
		return ""
	}
	return "https://public-keys.auth.elb." + parts[3] + ".amazonaws.com/"
}

func (a *alb) read(r *http.Request) (Identity, error) {
	raw, err := oneJWT(r, a.config.Header)
	if err != nil {
		return Identity{}, err
	}
	now, err := a.now(r.Context())
	if err != nil {
		return Identity{}, err
	}
	c, err := a.verify(r.Context(), raw, now)
	if err != nil {
		return Identity{}, err
	}
	i := c.identity(OriginProxyJWT, a.config.Issuer)
	i.JoinKey = c.joinKey(a.config.JoinClaim)
	return i, nil
}

func (a *alb) verify(ctx context.Context, raw string, now time.Time) (claims, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil, refuse(BadToken, text.Of("The load balancer's token is malformed."))
	}
	header, err := albPart(parts[0], albHeaderNames)
	if err != nil {
		return nil, refuse(BadToken, text.Of("The load balancer's token is malformed."))
	}
	if err := a.checkHeader(header, now); err != nil {
		return nil, err
	}
	kid, _ := header.text("kid")
	key, err := a.key(ctx, kid)
	if err != nil {
		return nil, err
	}
	if !albSigned(key, parts) {
		return nil, refuse(BadToken, text.Of("The load balancer's token is not signed with its key."))
	}
	payload, err := albPart(parts[1], namesWith(a.config.JoinClaim))
	if err != nil {
		return nil, refuse(BadToken, text.Of("The load balancer's token is malformed."))
	}
	return payload, a.checkPayload(payload, now)
}

// checkHeader looks at claims before their signature is verified, since they say by which key; nothing is done with them
// until it is.
func (a *alb) checkHeader(h claims, now time.Time) error {
	want := map[string]string{"alg": "ES256", "signer": a.config.Signer, "iss": a.config.Issuer, "client": a.config.Audience}
	for name, value := range want {
		if got, _ := h.text(name); got != value {
			return refuse(BadToken, text.Of("The load balancer's token has another %s than is configured.", name))
		}
	}
	if expires, ok := h.instant("exp"); !ok || !expires.After(now) {
		return refuse(BadToken, text.Of("The load balancer's token has expired."))
	}
	return nil
}

func (a *alb) checkPayload(c claims, now time.Time) error {
	if iss, there := c["iss"]; there && len(iss) > 0 {
		if got, _ := c.text("iss"); got != a.config.Issuer {
			return refuse(BadToken, text.Of("The load balancer's token has another iss than is configured."))
		}
	}
	if _, there := c["exp"]; there {
		if expires, ok := c.instant("exp"); !ok || !expires.After(now) {
			return refuse(BadToken, text.Of("The load balancer's token has expired."))
		}
	}
	if _, ok := c.identifier("sub"); !ok {
		return refuse(BadToken, text.Of("The token names no subject."))
	}
	return nil
}

// albPart decodes one part, padded or not.
func albPart(part string, names []string) (claims, error) {
	decoded, err := albDecode(part)
	if err != nil {
		return nil, err
	}
	return decodeClaims(decoded, names)
}

func albDecode(part string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
}

// albSigned verifies the parts as they were sent, padding included.
func albSigned(key *ecdsa.PublicKey, parts []string) bool {
	signature, err := albDecode(parts[2])
	if err != nil || len(signature) != 64 {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}

// key fetches a key once; those it does not know cost at most one fetch in ten seconds.
func (a *alb) key(ctx context.Context, kid string) (*ecdsa.PublicKey, error) {
	if _, err := uuid.Parse(kid); err != nil || len(kid) != 36 {
		return nil, refuse(BadToken, text.Of("The load balancer's token names no key.")) // it becomes part of a URL
	}
	if key := a.cached(kid); key != nil {
		return key, nil
	}
	a.fetching.Lock()
	defer a.fetching.Unlock()
	if key := a.cached(kid); key != nil {
		return key, nil
	}
	if a.fetches > 0 && !a.limit.Allow() {
		return nil, refuse(BadToken, text.Of("The load balancer's token is not signed with a known key."))
	}
	a.fetches++
	key, err := a.fetch(context.WithoutCancel(ctx), kid)
	if err != nil {
		return nil, refuse(ProviderUnavailable, text.Of("The load balancer's key could not be fetched.")).because(err)
	}
	a.store(kid, key)
	return key, nil
}

func (a *alb) cached(kid string) *ecdsa.PublicKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys[kid]
}

func (a *alb) store(kid string, key *ecdsa.PublicKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) >= maxALBKeys {
		clear(a.keys)
	}
	a.keys[kid] = key
}

func (a *alb) fetch(ctx context.Context, kid string) (*ecdsa.PublicKey, error) {
	body, err := get(ctx, a.client, strings.TrimSuffix(a.config.KeysURL, "/")+"/"+kid)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(body)
	if block == nil {
		return nil, errors.New("the answer is not PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve.Params().BitSize != 256 {
		return nil, errors.New("the answer is not a P-256 key")
	}
	return key, nil
}
