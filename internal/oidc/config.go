package oidc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// ProviderConfig is one client at one OpenID provider.
type ProviderConfig struct {
	Issuer       string // compared exactly; a trailing slash counts
	ClientID     string
	ClientSecret string   // never printed; empty for a public client
	AuthStyle    string   // how the client authenticates: basic, post or none; "" takes it from discovery
	Scopes       []string // openid is always asked for; empty asks for profile and email too
	JoinClaim    string   // the claim that is kept as the user's join key; "" keeps none
	// LogoutClientIDs are other clients' at the same issuer whose logout tokens count, such as the step-up client's.
	LogoutClientIDs []string
	AllowHTTP       bool          // plain http on loopback, for development alone
	Timeout         time.Duration // of one call to the provider; 0 is 10 s
}

// Check reports every mistake in the configuration at once.
func (c ProviderConfig) Check() error {
	var errs []error
	if err := checkIssuer(c.Issuer, c.AllowHTTP); err != nil {
		errs = append(errs, err)
	}
	if c.ClientID == "" {
		errs = append(errs, errors.New("the client id is empty"))
	}
	switch c.AuthStyle {
	case "":
	case "none":
		if c.ClientSecret != "" {
			errs = append(errs, errors.New("auth style none goes with no client secret"))
		}
	case "basic", "post":
		if c.ClientSecret == "" {
			errs = append(errs, fmt.Errorf("auth style %s needs a client secret", c.AuthStyle))
		}
	default:
		errs = append(errs, fmt.Errorf("auth style %q is not one of basic, post and none", c.AuthStyle))
	}
	return errors.Join(errs...)
}

func (c ProviderConfig) scopes() []string {
	if len(c.Scopes) == 0 {
		return []string{"openid", "profile", "email"}
	}
	if slices.Contains(c.Scopes, "openid") {
		return c.Scopes
	}
	return append([]string{"openid"}, c.Scopes...)
}

func checkIssuer(issuer string, allowHTTP bool) error {
	if err := checkEndpoint("the issuer", issuer, allowHTTP); err != nil {
		return err
	}
	if strings.ContainsAny(issuer, "?#") {
		return errors.New("the issuer has a query or a fragment, which no issuer has")
	}
	return nil
}

// checkEndpoint accepts https and, when allowed, plain http on loopback. Its errors do not repeat the URL, which may hold
// a password.
func checkEndpoint(what, raw string, allowHTTP bool) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return fmt.Errorf("%s is not an https URL", what)
	}
	if u.User != nil {
		return fmt.Errorf("%s holds a user name or password", what)
	}
	if u.Scheme == "https" {
		return nil
	}
	if u.Scheme == "http" && allowHTTP && IsLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s is not https; plain http is for console dev alone, on loopback", what)
}

// IsLoopback reports whether host (without a port) is this machine itself: localhost or a loopback address.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
