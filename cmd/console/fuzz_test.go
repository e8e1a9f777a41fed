package main

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/oidc"
)

// An assurance file is refused in one line, or its issuers are those that it names, each with a client or without one.
func FuzzParseStepUp(f *testing.F) {
	const good = `
step_up:
  - issuer: https://idp.example
    client_id: console
    request: { acr_values: [gold], max_age: 0 }
    second_factor: always
    assurance: [{ claim: acr, equals: gold, level: multi_factor }]
`
	for _, s := range []string{good, "", "step_up:", "step_up: {}", "stepup: []", good + "step_up: []", good + "---\nstep_up: []", "step_up: [&a {issuer: x, preset: okta}, *a]", "step_up: [{<<: {issuer: x}}]",
		strings.Replace(good, "always", "[always]", 1), "\t", "step_up: [{issuer: \"\\x00\"}]"} {
		f.Add([]byte(s))
	}
	signIn := &oidc.ProviderConfig{Issuer: "https://idp.example", ClientID: "sign-in"}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseStepUp(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") || err.Error() == "" || len(entries) != 0 {
				t.Errorf("parseStepUp(%q) = %d entries, %q", text, len(entries), err)
			}
			return
		}
		i := identity{stepUps: entries}
		for k, e := range entries {
			c, err := e.provider(signIn, false)
			if err == nil && c.ClientID == signIn.ClientID && e.ClientID == "" && e.Issuer != signIn.Issuer {
				t.Errorf("parseStepUp(%q) lends the client of the sign-in to %q", text, e.Issuer)
			}
			if i.requirements()[k].Requirement.Issuer != e.Issuer {
				t.Errorf("parseStepUp(%q): entry %d is of %q", text, k, e.Issuer)
			}
		}
		if _, err := oidc.NewStepUp(oidc.StepUpConfig{Issuers: i.requirements()}); err != nil && err.Error() == "" {
			t.Errorf("the table of %q is refused without a reason", text)
		}
	})
}

// A trusted proxy is refused with what was written, or is no more than what was written, and never everybody.
func FuzzTrustedProxy(f *testing.F) {
	for _, s := range []string{"10.1.2.3", "10.1.2.0/24", "0.0.0.0/0", "::/0", "::ffff:0:0/96", "::ffff:10.0.0.0/104", "fe80::1%eth0", "10.0.0.1/8", "", "localhost", "10.0.0.0/33", "010.0.0.1"} {
		f.Add(s)
	}
	near, far := &http.Request{RemoteAddr: "10.1.2.3:1"}, &http.Request{RemoteAddr: "203.0.113.9:1"} // which only everybody has in common
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePrefix(text)
		if err != nil {
			if !strings.Contains(err.Error(), "CONSOLE_TRUSTED_PROXIES") {
				t.Errorf("parsePrefix(%q) = %v, which does not say what to mend", text, err)
			}
			return
		}
		again, err := parsePrefix(p.String())
		if err != nil || again != p {
			t.Errorf("parsePrefix(%q) = %v, which is read back as %v, %v", text, p, again, err)
		}
		if trusted, err := oidc.NewTrustedProxies([]netip.Prefix{p}); err == nil && trusted.Trusts(near) && trusted.Trusts(far) {
			t.Errorf("NewTrustedProxies(%q) trusts everybody", text)
		}
	})
}
