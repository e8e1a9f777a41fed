package oidc

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	albARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/ops/0123456789abcdef"
	albKid = "9f7c1f0a-1c4e-4b0e-9a6e-0a1b2c3d4e5f"
)

// albSign is what a load balancer sends: like a JWT, padded.
func albSign(key *ecdsa.PrivateKey, header, payload map[string]any) string {
	return albSignRaw(key, header, must(json.Marshal(payload)))
}

func albSignRaw(key *ecdsa.PrivateKey, header map[string]any, payload []byte) string {
	part := func(b []byte) string { return base64.URLEncoding.EncodeToString(b) }
	signed := part(must(json.Marshal(header))) + "." + part(payload)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		panic(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + part(signature)
}

func albToken(now time.Time) (header, payload map[string]any) {
	exp := now.Add(2 * time.Minute).Unix()
	header = map[string]any{"typ": "JWT", "alg": "ES256", "kid": albKid, "signer": albARN, "iss": "https://idp.example", "client": "alb-client", "exp": exp}
	payload = map[string]any{"sub": "alice", "email": "alice@example.com", "email_verified": "true", "iss": "https://idp.example", "exp": exp, "name": "Alice Ä"}
	return header, payload
}

func TestProxyALB(t *testing.T) {
	w := newWorld(t)
	var fetched atomic.Int64
	keys := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		if r.URL.Path != "/"+albKid {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		pem.Encode(rw, &pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(ecKey().Public()))})
	}))
	t.Cleanup(keys.Close)
	p := w.proxy(t, ProxyConfig{Mode: "jwt", Preset: presetALB, Issuer: "https://idp.example", Audience: "alb-client", Signer: albARN, KeysURL: keys.URL})
	other := must(ecdsa.GenerateKey(ecKey().Curve, rand.Reader))
	now := time.Now()
	forge := func(key *ecdsa.PrivateKey, changeHeader, changePayload func(map[string]any)) string {
		header, payload := albToken(now)
		if changeHeader != nil {
			changeHeader(header)
		}
		if changePayload != nil {
			changePayload(payload)
		}
		return albSign(key, header, payload)
	}
	good := forge(ecKey(), nil, nil)
	if !strings.Contains(good, "=") {
		t.Fatal("the token is not padded: this test shows nothing")
	}
	tests := []struct {
		name, token string
		kind        Kind
	}{
		{"good", good, ""},
		{"another key", forge(other, nil, nil), BadToken},
		{"the padding removed", strings.ReplaceAll(good, "=", ""), BadToken},
		{"another signer", forge(ecKey(), claim1("signer", "arn:aws:elasticloadbalancing:eu-central-1:999:loadbalancer/app/evil/0"), nil), BadToken},
		{"another issuer", forge(ecKey(), claim1("iss", "https://evil.example"), nil), BadToken},
		{"another issuer in the payload", forge(ecKey(), nil, claim1("iss", "https://evil.example")), BadToken},
		{"another client", forge(ecKey(), claim1("client", "another"), nil), BadToken},
		{"another algorithm", forge(ecKey(), claim1("alg", "none"), nil), BadToken},
		{"expired", forge(ecKey(), claim1("exp", now.Add(-time.Second).Unix()), nil), BadToken},
		{"expired in the payload", forge(ecKey(), nil, claim1("exp", now.Add(-time.Second).Unix())), BadToken},
		{"no expiry", forge(ecKey(), claim1("exp", nil), nil), BadToken},
		{"no subject", forge(ecKey(), nil, claim1("sub", nil)), BadToken},
		{"a kid that leads elsewhere", forge(ecKey(), claim1("kid", "../"+albKid), nil), BadToken},
		{"a kid in braces", forge(ecKey(), claim1("kid", "{"+albKid+"}"), nil), BadToken},
		{"no kid", forge(ecKey(), claim1("kid", nil), nil), BadToken},
		{"two parts", "a.b", BadToken},
		{"not base64", "!.!.!", BadToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.Identify(proxied("192.0.2.1", "X-Amzn-Oidc-Data", tt.token))
			if kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
				t.Errorf("Identify() = %v, want kind %q", err, tt.kind)
			}
			if want := (Identity{OriginProxyJWT, "https://idp.example", "alice", "Alice Ä", "alice@example.com", false, ""}); err == nil && got != want {
				t.Errorf("Identify() = %+v, want %+v", got, want)
			}
		})
	}
	for range 1000 {
		unknown := forge(ecKey(), claim1("kid", "00000000-0000-4000-8000-000000000000"), nil)
		if _, err := p.Identify(proxied("192.0.2.1", "X-Amzn-Oidc-Data", unknown)); err == nil {
			t.Fatal("Identify() takes a token of an unknown key")
		}
	}
	if got := fetched.Load(); got != 2 {
		t.Errorf("keys were fetched %d times, want the good one and one unknown one", got)
	}
}

func TestALBKeysURL(t *testing.T) {
	if got, want := albKeysURL(albARN), "https://public-keys.auth.elb.eu-central-1.amazonaws.com/"; got != want {
		t.Errorf("albKeysURL() = %s, want %s", got, want)
	}
	if got := albKeysURL("arn:aws-us-gov:elasticloadbalancing:us-gov-west-1:1:loadbalancer/app/x/y"); got != "" {
		t.Errorf("albKeysURL() of another partition = %s, want none: it must be configured", got)
	}
}
