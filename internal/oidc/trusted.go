package oidc

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// TrustedProxies are the addresses whose forwarded headers are read. They serve logs, limits and the audit's claimed
// address, and in mode headers the identity; never a URL.
type TrustedProxies struct{ prefixes []netip.Prefix }

// NewTrustedProxies refuses a prefix that is the whole internet.
func NewTrustedProxies(prefixes []netip.Prefix) (TrustedProxies, error) {
	t := TrustedProxies{}
	for _, p := range prefixes {
		if !p.IsValid() {
			return TrustedProxies{}, fmt.Errorf("a trusted proxy is not an address with a prefix length")
		}
		if p.Bits() == 0 {
			return TrustedProxies{}, fmt.Errorf("%s trusts everybody: name the proxies' own addresses", p)
		}
		if a := p.Addr(); a.Is4In6() {
			if p.Bits() <= 96 {
				return TrustedProxies{}, fmt.Errorf("%s trusts every IPv4 address: name the proxies' own addresses", p)
			}
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		t.prefixes = append(t.prefixes, p.Masked())
	}
	return t, nil
}

// Any reports whether there is a trusted proxy at all.
func (t TrustedProxies) Any() bool { return len(t.prefixes) > 0 }

func (t TrustedProxies) trusts(a netip.Addr) bool {
	return a.IsValid() && slices.ContainsFunc(t.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Trusts reports whether the socket's peer is a trusted proxy.
func (t TrustedProxies) Trusts(r *http.Request) bool { return t.trusts(peerOf(r)) }

// ClientAddress is the socket's peer and, when that is a trusted proxy, the address it claims to speak for: the last in
// X-Forwarded-For that is no trusted proxy itself. Either is "" when it is no address.
func (t TrustedProxies) ClientAddress(r *http.Request) (peer, claimed string) {
	a := peerOf(r)
	if !a.IsValid() {
		return "", ""
	}
	if !t.trusts(a) {
		return a.String(), ""
	}
	return a.String(), t.claimed(r.Header.Values("X-Forwarded-For"))
}

func (t TrustedProxies) claimed(headers []string) string {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for _, hop := range slices.Backward(hops) {
		a := parseAddress(strings.TrimSpace(hop))
		if !a.IsValid() {
			return ""
		}
		if !t.trusts(a) {
			return a.String()
		}
	}
	return ""
}

func peerOf(r *http.Request) netip.Addr { return parseAddress(r.RemoteAddr) }

// parseAddress reads an address with or without a port; a zone is dropped.
func parseAddress(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
