package oidc

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestTrustedProxies(t *testing.T) {
	p := trusted(t, "10.0.0.0/24", "2001:db8::/64")
	tests := []struct {
		name, peer    string
		forwarded     []string
		wantPeer, was string
	}{
		{"no proxy", "192.0.2.1:1", []string{"203.0.113.1"}, "192.0.2.1", ""},
		{"a proxy", "10.0.0.1:1", []string{"203.0.113.1"}, "10.0.0.1", "203.0.113.1"},
		{"spoofed by the client", "10.0.0.1:1", []string{"127.0.0.1, 203.0.113.1"}, "10.0.0.1", "203.0.113.1"},
		{"two proxies", "10.0.0.1:1", []string{"203.0.113.1", "10.0.0.2"}, "10.0.0.1", "203.0.113.1"},
		{"all proxies", "10.0.0.1:1", []string{"10.0.0.2"}, "10.0.0.1", ""},
		{"with a port", "10.0.0.1:1", []string{"[2001:db8:1::1]:99"}, "10.0.0.1", "2001:db8:1::1"},
		{"no address", "10.0.0.1:1", []string{"203.0.113.1, <script>"}, "10.0.0.1", ""},
		{"none", "10.0.0.1:1", nil, "10.0.0.1", ""},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{"203.0.113.1"}, "10.0.0.1", "203.0.113.1"},
		{"IPv6 with a zone", "[2001:db8::1%eth0]:1", []string{"203.0.113.1"}, "2001:db8::1", "203.0.113.1"},
		{"no peer", "@", []string{"203.0.113.1"}, "", ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-For"] = tt.forwarded
		if peer, claimed := p.ClientAddress(r); peer != tt.wantPeer || claimed != tt.was {
			t.Errorf("ClientAddress() of %s = %q, %q, want %q, %q", tt.name, peer, claimed, tt.wantPeer, tt.was)
		}
	}
}

func TestTrustedProxiesCheck(t *testing.T) {
	for _, p := range []string{"0.0.0.0/0", "::/0", "::ffff:0:0/96", "::ffff:0.0.0.0/90"} {
		if _, err := NewTrustedProxies([]netip.Prefix{netip.MustParsePrefix(p)}); err == nil {
			t.Errorf("NewTrustedProxies(%s) trusts everybody", p)
		}
	}
	if _, err := NewTrustedProxies([]netip.Prefix{{}}); err == nil {
		t.Error("NewTrustedProxies() takes what is no prefix")
	}
}
