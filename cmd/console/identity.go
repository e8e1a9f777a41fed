package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web"
)

// oidcSecret is the client's secret at the identity provider.
var oidcSecret = secretVariable{"CONSOLE_OIDC_CLIENT_SECRET", "Secret of the console's client at the identity provider; empty for a public client."}

// identityFlags say where the console is and who may be at the browser.
type identityFlags struct {
	PublicURL        string        `help:"The console's address as browsers see it, with its path, such as https://ops.example/console. The only source of links, cookies and redirect URIs. Without it serve has no pages."`
	OIDCIssuer       string        `name:"oidc-issuer" help:"Issuer of the identity provider, compared exactly."`
	OIDCClientID     string        `name:"oidc-client-id" help:"The console's client id there."`
	OIDCAuthStyle    string        `name:"oidc-auth-style" enum:",basic,post,none" default:"" help:"How the client authenticates at the token endpoint: basic, post or none. Default: what the provider's metadata says."`
	OIDCScopes       []string      `name:"oidc-scopes" default:"openid,profile,email" help:"Scopes to ask for."`
	OIDCJoinClaim    string        `name:"oidc-join-claim" help:"Claim by which a step-up at another issuer is joined to a user."`
	TrustedProxies   []string      `help:"Addresses or prefixes of the proxies in front, whose X-Forwarded-For serves logs, limits and the audit."`
	ProxyIdentity    string        `enum:"none,jwt,headers" default:"none" help:"Where the first factor comes from: none (own sign-in), jwt or headers of an SSO proxy."`
	ProxyPreset      string        `enum:",oauth2-proxy,pomerium,google-iap,cloudflare-access,aws-alb" default:"" help:"With jwt: oauth2-proxy, pomerium, google-iap, cloudflare-access or aws-alb."`
	ProxyHeader      string        `help:"With jwt: the header that holds the token."`
	ProxyIssuer      string        `help:"With jwt: the token's issuer, compared exactly."`
	ProxyAudience    string        `help:"With jwt: the token's audience, compared exactly."`
	ProxyAlgorithms  []string      `help:"With jwt: the signature algorithms to accept."`
	ProxyKeysURL     string        `name:"proxy-keys-url" help:"With jwt: where the proxy's keys are."`
	ProxySigner      string        `help:"With aws-alb: the load balancer's ARN."`
	ProxyJoinClaim   string        `help:"With jwt: the claim that joins the proxy's user to the step-up's, where issuer and subject differ."`
	ProxyName        string        `help:"With headers: users are proxy:NAME."`
	ProxyUserHeader  string        `help:"With headers: the header that names the user."`
	ProxyEmailHeader string        `help:"With headers: the header that holds the address."`
	ProxyNameHeader  string        `help:"With headers: the header that holds the person's name."`
	FrameAncestors   []string      `help:"Origins of the same site that may frame the read-only pages, asked for with view=embed."`
	FormAction       []string      `help:"Origins a form may lead on to, such as a proxy's sign-in."`
	StepUpFile       string        `help:"YAML file with the assurance table of each issuer a step-up may go to. Without it the console is read-only."`
	SessionIdle      time.Duration `default:"30m" help:"How long a session lasts without a request, 1m to 24h."`
	SessionLifetime  time.Duration `default:"12h" help:"How long a session lasts at most, 5m to 168h."`
}

// identity is what the flags mean, checked as a whole before any connection is opened.
type identity struct {
	public   *url.URL
	cookies  oidc.Cookies
	provider *oidc.ProviderConfig // nil: no sign-in of our own
	proxy    oidc.ProxyConfig
	trusted  oidc.TrustedProxies
	stepUps  []stepUpEntry
	flags    identityFlags

	development bool // plain http is allowed on loopback
}

// check reports every mistake at once. A nil identity without an error is a replica without pages. development allows
// plain http on loopback.
func (f identityFlags) check(getenv func(string) string, development bool) (*identity, error) {
	if f.PublicURL == "" {
		return nil, f.unused()
	}
	i := &identity{flags: f, development: development}
	err := errors.Join(i.readPublic(), i.readProvider(getenv), i.readProxy(), f.checkSessions())
	if err == nil {
		err = errors.Join(f.checkOrigins(i.public), i.readStepUps())
	}
	if err == nil && i.provider == nil && f.ProxyIdentity == "none" {
		err = errors.New("nobody could sign in: set CONSOLE_OIDC_ISSUER and CONSOLE_OIDC_CLIENT_ID, or CONSOLE_PROXY_IDENTITY")
	}
	if err != nil {
		return nil, usageError{err}
	}
	return i, nil
}

// unused refuses an identity without the URL that it needs: it was meant to be used.
func (f identityFlags) unused() error {
	if f.OIDCIssuer != "" || f.ProxyIdentity != "none" || f.StepUpFile != "" || len(f.TrustedProxies) > 0 {
		return usage("CONSOLE_PUBLIC_URL is not set: without it the console has no pages to sign in to")
	}
	return nil
}

func (i *identity) readPublic() error {
	u, err := url.Parse(i.flags.PublicURL)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("CONSOLE_PUBLIC_URL %q is no URL; write one such as https://ops.example/console", i.flags.PublicURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("CONSOLE_PUBLIC_URL has a user, a query or a fragment; it is only a host and a path")
	case u.Scheme != "https" && (!i.development || u.Scheme != "http" || !oidc.IsLoopback(u.Hostname())):
		return fmt.Errorf("CONSOLE_PUBLIC_URL %q is not https; plain http is for console dev alone, on loopback", i.flags.PublicURL)
	}
	i.public = u
	i.cookies, err = oidc.CookiesFor(u)
	return err
}

func (i *identity) readProvider(getenv func(string) string) error {
	f := i.flags
	if f.OIDCIssuer == "" && f.OIDCClientID == "" {
		return nil
	}
	password, err := oidcSecret.read(getenv)
	if err != nil {
		return err
	}
	i.provider = &oidc.ProviderConfig{Issuer: f.OIDCIssuer, ClientID: f.OIDCClientID, ClientSecret: password.reveal(), AuthStyle: f.OIDCAuthStyle,
		Scopes: f.OIDCScopes, JoinClaim: f.OIDCJoinClaim, AllowHTTP: i.development}
	return i.provider.Check()
}

func (i *identity) readProxy() error {
	f := i.flags
	var prefixes []netip.Prefix
	for _, text := range f.TrustedProxies {
		p, err := parsePrefix(text)
		if err != nil {
			return err
		}
		prefixes = append(prefixes, p)
	}
	var err error
	if i.trusted, err = oidc.NewTrustedProxies(prefixes); err != nil {
		return fmt.Errorf("CONSOLE_TRUSTED_PROXIES: %w", err)
	}
	i.proxy = oidc.ProxyConfig{Mode: f.ProxyIdentity, Preset: f.ProxyPreset, Header: f.ProxyHeader, Issuer: f.ProxyIssuer, Audience: f.ProxyAudience,
		Algorithms: f.ProxyAlgorithms, KeysURL: f.ProxyKeysURL, Signer: f.ProxySigner, JoinClaim: f.ProxyJoinClaim, Name: f.ProxyName, UserHeader: f.ProxyUserHeader,
		EmailHeader: f.ProxyEmailHeader, NameHeader: f.ProxyNameHeader, Trusted: i.trusted, AllowHTTP: i.development}
	return i.proxy.Check()
}

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("CONSOLE_TRUSTED_PROXIES: %q is no address or prefix; write one such as 10.1.2.3 or 10.1.2.0/24", text)
	}
	return p, nil
}

func (f identityFlags) checkSessions() error {
	var errs []error
	if f.SessionIdle < time.Minute || f.SessionIdle > 24*time.Hour {
		errs = append(errs, fmt.Errorf("session idle time is %v, want 1m to 24h", f.SessionIdle))
	}
	if f.SessionLifetime < 5*time.Minute || f.SessionLifetime > 168*time.Hour {
		errs = append(errs, fmt.Errorf("session lifetime is %v, want 5m to 168h", f.SessionLifetime))
	}
	return errors.Join(errs...)
}

// checkOrigins holds framing to parents of the same site: cookies are SameSite=Lax, so elsewhere a frame would be
// signed out anyway.
func (f identityFlags) checkOrigins(public *url.URL) error {
	var errs []error
	for _, origin := range f.FrameAncestors {
		u, err := parseOrigin("CONSOLE_FRAME_ANCESTORS", origin)
		if err == nil && site(u) != site(public) {
			err = fmt.Errorf("CONSOLE_FRAME_ANCESTORS: %s is of another site than %s: a frame there would always be signed out", origin, public.Host)
		}
		errs = append(errs, err)
	}
	for _, origin := range f.FormAction {
		_, err := parseOrigin("CONSOLE_FORM_ACTION", origin)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func parseOrigin(variable, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ContainsAny(text, "*;, '\"") {
		return nil, fmt.Errorf("%s: %q is no origin; write one such as https://wiki.example", variable, text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !oidc.IsLoopback(u.Hostname())) {
		return nil, fmt.Errorf("%s: %q is not https", variable, text)
	}
	return u, nil
}

// site is the scheme and the registrable domain, which is what SameSite compares; a host without one is its own.
func site(u *url.URL) string {
	domain, err := publicsuffix.EffectiveTLDPlusOne(u.Hostname())
	if err != nil {
		domain = u.Hostname()
	}
	return u.Scheme + "://" + domain
}

// openIdentity opens the pools of sign-in and pages and puts the parts together.
func (s *server) openIdentity(ctx context.Context, i *identity) (*web.Identity, error) {
	console, err := s.openPool(ctx, migrations.RoleConsole)
	if err != nil {
		return nil, err
	}
	authn, err := s.openPool(ctx, migrations.RoleAuthn)
	if err != nil {
		return nil, err
	}
	w := &web.Identity{Cookies: i.cookies, Trusted: i.trusted, Limiter: oidc.NewLimiter(), Proxy: oidc.NewProxyIdentity(i.proxy, console, s.log),
		Sessions: oidc.NewSessions(oidc.SessionsConfig{Console: console, Authn: authn, Cookies: i.cookies, Idle: i.flags.SessionIdle, Lifetime: i.flags.SessionLifetime})}
	s.always = append(s.always, w.Sessions.Run)
	if i.provider == nil {
		return w, nil
	}
	w.Provider = oidc.NewProvider(*i.provider, s.log)
	w.BackChannel = oidc.NewBackChannel(w.Provider, authn, s.log)
	w.SignIn = oidc.NewSignIn(oidc.SignInConfig{Provider: w.Provider, Sessions: w.Sessions, Authn: authn, Log: s.log,
		RedirectURL: i.public.JoinPath(web.CallbackPath).String()})
	s.always = append(s.always, w.Provider.Run)
	return w, nil
}
