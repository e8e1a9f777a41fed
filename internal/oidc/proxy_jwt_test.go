package oidc

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// jwtPresets are the proxies that sign a JWT with a key of a set.
var jwtPresets = []struct {
	preset, header, prefix string
	sign                   func([]byte) string
}{
	{"oauth2-proxy", "Authorization", "Bearer ", nil},
	{"pomerium", "X-Pomerium-Jwt-Assertion", "", signAs(jose.ES256, ecKey(), "ec", "JWT")},
	{"google-iap", "X-Goog-Iap-Jwt-Assertion", "", signAs(jose.ES256, ecKey(), "ec", "JWT")},
	{"cloudflare-access", "Cf-Access-Jwt-Assertion", "", nil},
}

func TestProxyJWT(t *testing.T) {
	w := newWorld(t)
	w.idp.keys = append(w.idp.keys, publicKey(ecKey(), "ec"))
	now := time.Now()
	for _, preset := range jwtPresets {
		sign := preset.sign
		if sign == nil {
			sign = signRS256(goodKey(), "good")
		}
		p := w.proxy(t, ProxyConfig{Mode: "jwt", Preset: preset.preset, Issuer: "https://proxy.example", Audience: "aud-1", KeysURL: w.idp.URL + "/keys"})
		token := func(change func(map[string]any)) []byte {
			c := map[string]any{"iss": "https://proxy.example", "aud": []string{"aud-1"}, "sub": "alice", "email": "alice@example.com", "email_verified": true,
				"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": "the proxy's own"}
			if change != nil {
				change(c)
			}
			return must(json.Marshal(c))
		}
		request := func(values ...string) *http.Request {
			r := proxied("192.0.2.1")
			for _, v := range values {
				r.Header.Add(preset.header, preset.prefix+v)
			}
			return r
		}
		good := Identity{Origin: OriginProxyJWT, Issuer: "https://proxy.example", Subject: "alice", Email: "alice@example.com", EmailVerified: true}
		tests := []struct {
			name string
			r    *http.Request
			kind Kind
		}{
			{"good", request(sign(token(nil))), ""},
			{"none", request(), NoIdentity},
			{"two", request(sign(token(nil)), sign(token(nil))), AmbiguousIdentity},
			{"two in one", request(sign(token(nil)) + "," + sign(token(nil))), BadToken},
			{"wrong audience", request(sign(token(claim1("aud", "aud-2")))), BadToken},
			{"no audience", request(sign(token(claim1("aud", nil)))), BadToken},
			{"wrong issuer", request(sign(token(claim1("iss", "https://evil.example")))), BadToken},
			{"expired", request(sign(token(claim1("exp", now.Add(-time.Second).Unix())))), BadToken},
			{"no expiry", request(sign(token(claim1("exp", nil)))), BadToken},
			{"issued in the future", request(sign(token(claim1("iat", now.Add(2*time.Minute).Unix())))), BadToken},
			{"no subject", request(sign(token(claim1("sub", "")))), BadToken},
			{"a logout token", request(sign(token(claim1("events", map[string]any{})))), BadToken},
			{"another key", request(signRS256(otherKey(), "good")(token(nil))), BadToken},
			{"another algorithm", request(signAs(jose.PS256, goodKey(), "good", "JWT")(token(nil))), BadToken},
			{"another type", request(signAs(jose.RS256, goodKey(), "good", "at+jwt")(token(nil))), BadToken},
			{"alg none", request(unsigned(token(nil))), BadToken},
			{"HS256 with the public key", request(signAs(jose.HS256, must(json.Marshal(publicKey(goodKey(), "good"))), "good", "JWT")(token(nil))), BadToken},
			{"sub in two cases", request(sign(append([]byte(`{"Sub":"admin",`), token(nil)[1:]...))), BadToken},
			{"too long", request(strings.Repeat("x", maxToken+1)), BadToken},
			{"the header in underscores", func() *http.Request {
				r := proxied("192.0.2.1")
				r.Header[strings.ReplaceAll(preset.header, "-", "_")+"_"] = []string{sign(token(nil))}
				return r
			}(), NoIdentity},
		}
		for _, tt := range tests {
			t.Run(preset.preset+": "+tt.name, func(t *testing.T) {
				got, err := p.Identify(tt.r)
				if kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") || err == nil && got != good {
					t.Errorf("Identify() = %+v, %v, want kind %q", got, err, tt.kind)
				}
				if tt.r.Header.Get(preset.header) != "" {
					t.Error("the header is left for others to read")
				}
			})
		}
	}
	r := proxied("192.0.2.1", "Authorization", "Basic YTpi")
	p := w.proxy(t, ProxyConfig{Mode: "jwt", Preset: "oauth2-proxy", Issuer: "https://proxy.example", Audience: "aud-1", KeysURL: w.idp.URL + "/keys"})
	if _, err := p.Identify(r); kindOf(err) != NoIdentity {
		t.Errorf("Identify() of Basic = %v, want no_identity", err)
	}
}
