package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/text"
)

// ProxyConfig says what an SSO proxy in front of the console asserts, and how that is verified.
type ProxyConfig struct {
	Mode   string // none (also ""), jwt or headers
	Preset string // of mode jwt: oauth2-proxy, pomerium, google-iap, cloudflare-access, aws-alb; "" is none

	// Mode jwt. A preset fills what is empty, as far as it can.
	Header     string   // that holds the one JWT
	Issuer     string   // compared exactly
	Audience   string   // compared exactly; for aws-alb the client id
	Algorithms []string // asymmetric ones
	KeysURL    string   // a JSON Web Key Set; for aws-alb what a key's id is appended to
	Signer     string   // for aws-alb alone: the load balancer's ARN
	JoinClaim  string   // the claim that a step-up's own join claim must equal; "" joins by issuer and subject

	// Mode headers.
	Name        string // the users' issuer is proxy:<Name>
	UserHeader  string // the subject
	EmailHeader string // may be ""
	NameHeader  string // may be ""
	Trusted     TrustedProxies

	AllowHTTP bool          // plain http on loopback, for development alone
	Timeout   time.Duration // of fetching keys; 0 is 10 s
}

// presets are what each proxy's own documentation says.
var presets = map[string]ProxyConfig{
	"oauth2-proxy":      {Header: "Authorization", Algorithms: []string{"RS256"}},
	"pomerium":          {Header: "X-Pomerium-Jwt-Assertion", Algorithms: []string{"ES256"}},
	"google-iap":        {Header: "X-Goog-Iap-Jwt-Assertion", Algorithms: []string{"ES256"}, Issuer: "https://cloud.google.com/iap", KeysURL: "https://www.gstatic.com/iap/verify/public_key-jwk"},
	"cloudflare-access": {Header: "Cf-Access-Jwt-Assertion", Algorithms: []string{"RS256"}},
	presetALB:           {Header: "X-Amzn-Oidc-Data", Algorithms: []string{"ES256"}},
}

const presetALB = "aws-alb"

// filled is the configuration with its preset.
func (c ProxyConfig) filled() ProxyConfig {
	p := presets[c.Preset]
	c.Header, c.Issuer, c.KeysURL = cmp.Or(c.Header, p.Header), cmp.Or(c.Issuer, p.Issuer), cmp.Or(c.KeysURL, p.KeysURL)
	if len(c.Algorithms) == 0 {
		c.Algorithms = p.Algorithms
	}
	if c.KeysURL == "" && c.Issuer != "" && c.Preset == "cloudflare-access" {
		c.KeysURL = strings.TrimSuffix(c.Issuer, "/") + "/cdn-cgi/access/certs"
	}
	if c.KeysURL == "" && c.Preset == presetALB {
		c.KeysURL = albKeysURL(c.Signer)
	}
	return c
}

// Check reports every mistake in the configuration at once.
func (c ProxyConfig) Check() error {
	switch c.Mode {
	case "", "none":
		return nil
	case "jwt":
		return c.filled().checkJWT()
	case "headers":
		return c.checkHeaders()
	}
	return fmt.Errorf("proxy identity %q is not one of none, jwt and headers", c.Mode)
}

func (c ProxyConfig) checkJWT() error {
	var errs []error
	if _, known := presets[c.Preset]; !known && c.Preset != "" {
		errs = append(errs, fmt.Errorf("the proxy preset %q is unknown", c.Preset))
	}
	if c.Header == "" {
		errs = append(errs, errors.New("the header that holds the proxy's JWT is not named"))
	}
	if c.Issuer == "" || c.Audience == "" {
		errs = append(errs, errors.New("the proxy's JWT needs an issuer and an audience to be compared with"))
	}
	if len(c.Algorithms) == 0 || slices.ContainsFunc(c.Algorithms, func(a string) bool { return !slices.Contains(algorithms, a) }) {
		errs = append(errs, fmt.Errorf("the proxy's JWT needs algorithms of %s", strings.Join(algorithms, ", ")))
	}
	if c.Preset == presetALB && (!strings.HasPrefix(c.Signer, "arn:") || !slices.Equal(c.Algorithms, []string{"ES256"})) {
		errs = append(errs, errors.New("aws-alb needs the load balancer's ARN as signer, and signs with ES256 alone"))
	}
	return errors.Join(append(errs, checkEndpoint("the address of the proxy's keys", c.KeysURL, c.AllowHTTP))...)
}

func (c ProxyConfig) checkHeaders() error {
	var errs []error
	if !c.Trusted.Any() {
		errs = append(errs, errors.New("proxy identity by headers needs trusted proxies: anybody else could send the same headers"))
	}
	if c.UserHeader == "" {
		errs = append(errs, errors.New("the header that names the user is not named"))
	}
	if !routeName.MatchString(c.Name) {
		errs = append(errs, errors.New("the proxy needs a name, a word: its users' issuer is proxy:<name>"))
	}
	for _, h := range []string{c.UserHeader, c.EmailHeader, c.NameHeader} {
		if strings.Contains(h, "_") {
			errs = append(errs, fmt.Errorf("the header %s has an underscore, which proxies take for a dash", h))
		}
	}
	return errors.Join(errs...)
}

// ProxyIdentity reads who an SSO proxy says is at the browser. That is a first factor and nothing more.
type ProxyIdentity struct {
	read  func(*http.Request) (Identity, error) // nil in mode none
	drops []string                              // as identityHeaders
}

// NewProxyIdentity makes it of a configuration that [ProxyConfig.Check] accepts; console is role ql3_console, whose clock
// judges a JWT. In mode headers it warns, each time.
func NewProxyIdentity(c ProxyConfig, console *pgxpool.Pool, log *slog.Logger) *ProxyIdentity {
	c = c.filled()
	p := &ProxyIdentity{drops: slices.Concat(identityHeaders, []string{c.Header, c.UserHeader, c.EmailHeader, c.NameHeader})}
	now := func(ctx context.Context) (time.Time, error) { return clock(ctx, console) }
	client := httpClient(c.Timeout)
	switch {
	case c.Mode == "headers":
		p.read = c.readHeaders
		log.Warn("proxy identity by headers: whoever reaches this port from a trusted address is whoever they say", "header", c.UserHeader)
	case c.Mode == "jwt" && c.Preset == presetALB:
		p.read = newALB(c, client, now).read
	case c.Mode == "jwt":
		p.read = newProxyJWT(c, client, now).read
	}
	return p
}

// Enforced reports whether every request must carry the proxy's word.
func (p *ProxyIdentity) Enforced() bool { return p.read != nil }

// Identify reads the identity, when one is enforced, and then takes every header that could be one away from r, so that
// nothing behind it reads one. Its refusals are not audited: they come before anything that is limited.
func (p *ProxyIdentity) Identify(r *http.Request) (i Identity, err error) {
	if p.read != nil {
		i, err = p.read(r)
	}
	for name := range r.Header {
		if p.names(name) {
			delete(r.Header, name)
		}
	}
	return i, err
}

// identityHeaders are the names, and with a final dash the beginnings of names, under which proxies assert identities.
var identityHeaders = []string{
	"x-forwarded-user", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username", "x-forwarded-access-token",
	"x-auth-request-", "remote-", "x-remote-", "x-webauth-", "x-authentik-", "x-pomerium-", "x-goog-iap-", "x-goog-authenticated-user-", "cf-access-", "x-amzn-oidc-",
}

// names reports whether a header could be an identity, also written with underscores, as some servers read it.
func (p *ProxyIdentity) names(header string) bool {
	plain := strings.ReplaceAll(strings.ToLower(header), "_", "-")
	for _, h := range p.drops {
		h = strings.ToLower(h)
		if h != "" && (plain == h || strings.HasSuffix(h, "-") && strings.HasPrefix(plain, h)) {
			return true
		}
	}
	return false
}

// one is a header that must be there exactly once.
func one(r *http.Request, header string) (string, error) {
	values := r.Header.Values(header)
	if len(values) > 1 {
		return "", refuse(AmbiguousIdentity, text.Of("The request names its user more than once."))
	}
	if len(values) == 0 || values[0] == "" {
		return "", refuse(NoIdentity, text.Of("The request did not come through the sign-in proxy."))
	}
	return values[0], nil
}

// readHeaders believes a trusted peer's headers.
func (c ProxyConfig) readHeaders(r *http.Request) (Identity, error) {
	if !c.Trusted.Trusts(r) {
		return Identity{}, refuse(NoIdentity, text.Of("The request did not come through the sign-in proxy."))
	}
	user, err := one(r, c.UserHeader)
	if err != nil {
		return Identity{}, err
	}
	if strings.Contains(user, ",") {
		return Identity{}, refuse(AmbiguousIdentity, text.Of("The request names its user more than once."))
	}
	if !isIdentifier(user) {
		return Identity{}, refuse(BadToken, text.Of("The proxy's word for the user is not text."))
	}
	email, err := c.plain(r, c.EmailHeader)
	if err != nil {
		return Identity{}, err
	}
	name, err := c.plain(r, c.NameHeader)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Origin: OriginProxyHeaders, Issuer: "proxy:" + c.Name, Subject: user, Email: address(email), Name: displayed(name, maxName)}, nil
}

// plain is a header that may be missing, but not be there twice.
func (c ProxyConfig) plain(r *http.Request, header string) (string, error) {
	if header == "" || len(r.Header.Values(header)) == 0 {
		return "", nil
	}
	if len(r.Header.Values(header)) > 1 {
		return "", refuse(AmbiguousIdentity, text.Of("The request describes its user more than once."))
	}
	return r.Header.Get(header), nil
}
