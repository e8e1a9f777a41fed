package oidc

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/qinglong/console/migrations"
)

func trusted(t testing.TB, prefixes ...string) TrustedProxies {
	t.Helper()
	var parsed []netip.Prefix
	for _, p := range prefixes {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return must(NewTrustedProxies(parsed))
}

func (w *world) proxy(t testing.TB, c ProxyConfig) *ProxyIdentity {
	t.Helper()
	c.AllowHTTP = true
	if err := c.Check(); err != nil {
		t.Fatalf("Check() = %v", err)
	}
	return NewProxyIdentity(c, w.db.Pool(t, migrations.RoleConsole), slog.New(slog.NewTextHandler(w.log, nil)))
}

func proxied(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", testPublic+"/", nil)
	r.RemoteAddr = peer + ":4321"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// Mode none ignores every header by which a proxy could name somebody, and hides it from whoever else would read it.
func TestProxyNone(t *testing.T) {
	p := NewProxyIdentity(ProxyConfig{}, nil, slog.Default())
	r := proxied("10.0.0.1")
	for _, h := range []string{"X-Forwarded-User", "X_Forwarded_User", "x-forwarded-email", "X-Auth-Request-User", "Remote-User", "X-Pomerium-Jwt-Assertion",
		"X-Goog-Iap-Jwt-Assertion", "Cf-Access-Jwt-Assertion", "X-Amzn-Oidc-Data", "X-Amzn_Oidc-Identity"} {
		r.Header[h] = []string{"admin"}
	}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	i, err := p.Identify(r)
	if i != (Identity{}) || err != nil || p.Enforced() {
		t.Errorf("Identify() = %+v, %v, want nobody", i, err)
	}
	if diff := cmp.Diff(http.Header{"X-Forwarded-For": {"192.0.2.1"}}, r.Header); diff != "" {
		t.Errorf("headers left (-want +got):\n%s", diff)
	}
}

func TestProxyHeaders(t *testing.T) {
	w := newWorld(t)
	p := w.proxy(t, ProxyConfig{Mode: "headers", Name: "sso", UserHeader: "X-Forwarded-User", EmailHeader: "X-Forwarded-Email", NameHeader: "X-Name", Trusted: trusted(t, "10.0.0.0/24")})
	if !strings.Contains(w.log.String(), "proxy identity by headers") {
		t.Error("mode headers gives no warning at the start")
	}
	alice := Identity{Origin: OriginProxyHeaders, Issuer: "proxy:sso", Subject: "alice"}
	full := alice
	full.Email, full.Name = "alice@example.com", "Alice"
	tests := []struct {
		name string
		r    *http.Request
		want Identity
		kind Kind
	}{
		{"alone", proxied("10.0.0.1", "X-Forwarded-User", "alice"), alice, ""},
		{"with address and name", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-Email", "alice@example.com", "X-Name", "Al\u202eice"), full, ""},
		{"peer outside the list", proxied("10.0.1.1", "X-Forwarded-User", "alice"), Identity{}, NoIdentity},
		{"no header", proxied("10.0.0.1"), Identity{}, NoIdentity},
		{"empty", proxied("10.0.0.1", "X-Forwarded-User", ""), Identity{}, NoIdentity},
		{"two values", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-User", "admin"), Identity{}, AmbiguousIdentity},
		{"the same twice", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-User", "alice"), Identity{}, AmbiguousIdentity},
		{"a comma", proxied("10.0.0.1", "X-Forwarded-User", "alice, admin"), Identity{}, AmbiguousIdentity},
		{"two addresses", proxied("10.0.0.1", "X-Forwarded-User", "alice", "X-Forwarded-Email", "a@example.com", "X-Forwarded-Email", "b@example.com"), Identity{}, AmbiguousIdentity},
		{"underscores", proxied("10.0.0.1", "X_Forwarded_User", "admin"), Identity{}, NoIdentity},
		{"underscores beside", proxied("10.0.0.1", "X_Forwarded_User", "admin", "X-Forwarded-User", "alice"), alice, ""},
		{"control characters", proxied("10.0.0.1", "X-Forwarded-User", "al\x00ice"), Identity{}, BadToken},
		{"not UTF-8", proxied("10.0.0.1", "X-Forwarded-User", "al\xffice"), Identity{}, BadToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.Identify(tt.r)
			if got != tt.want || kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
				t.Errorf("Identify() = %+v, %v, want %+v, %q", got, err, tt.want, tt.kind)
			}
			if len(tt.r.Header) != 0 {
				t.Errorf("headers left: %v", tt.r.Header)
			}
		})
	}
}

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

// A thousand unknown keys cost the provider one refetch; then a key that appeared is found as soon as the limit allows.
func TestUnknownKeys(t *testing.T) {
	w := newWorld(t)
	p := w.proxy(t, ProxyConfig{Mode: "jwt", Preset: "oauth2-proxy", Issuer: w.idp.URL, Audience: testClient, KeysURL: w.idp.URL + "/keys"})
	payload := w.idp.idToken("")
	identify := func(token string) error {
		_, err := p.Identify(proxied("192.0.2.1", "Authorization", "Bearer "+token))
		return err
	}
	if err := identify(w.idp.sign(payload)); err != nil {
		t.Fatal(err)
	}
	unknown := signRS256(otherKey(), "unknown")(payload)
	for range 1000 {
		if err := identify(unknown); kindOf(err) != BadToken {
			t.Fatalf("Identify() = %v, want bad_token", err)
		}
	}
	if got := w.idp.keyCalls.Load(); got != 2 {
		t.Errorf("the keys were fetched %d times, want the first time and once again", got)
	}
	if err := identify(w.idp.sign(payload)); err != nil {
		t.Errorf("Identify() with the known key = %v", err)
	}
}

func TestRefetchLimit(t *testing.T) {
	if l := newRefetchLimit(); l.Limit() != rate.Every(10*time.Second) || l.Burst() != 1 {
		t.Errorf("unknown keys are limited to %v, burst %d, want one in 10 s", l.Limit(), l.Burst())
	}
}

func TestKeySet(t *testing.T) {
	i := newIDP(t)
	newSet := func() *keySet { return newKeySet(i.URL+"/keys", httpClient(2*time.Second), algorithms) }
	token := i.sign([]byte(`{}`))
	check := func(k *keySet) error { _, err := k.VerifySignature(t.Context(), token); return err }

	k := newSet()
	i.keySet = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadGateway); return true }
	for range 5 {
		if err := check(k); !errors.Is(err, errNoKeys) {
			t.Errorf("VerifySignature() without keys = %v, want errNoKeys", err)
		}
	}
	if got := i.keyCalls.Load(); got != 2 {
		t.Errorf("a key set that fails was asked %d times, want twice", got)
	}
	i.keySet = nil
	k.limit = newRefetchLimit() // ten seconds later
	if err := check(k); err != nil {
		t.Errorf("VerifySignature() when the keys are back = %v", err)
	}

	// A key that the provider withdrew is noticed when the keys are old, and old keys serve while there are no new ones.
	k.limit, k.at = newRefetchLimit(), time.Now().Add(-keysMaxAge)
	i.keySet = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadGateway); return true }
	if err := check(k); err != nil {
		t.Errorf("VerifySignature() with old keys = %v, want them to serve", err)
	}
	i.keySet = nil
	i.keys = []jose.JSONWebKey{publicKey(ecKey(), "new")}
	k.limit = newRefetchLimit()
	if err := check(k); !errors.Is(err, errUnknownKey) {
		t.Errorf("VerifySignature() with a withdrawn key = %v, want errUnknownKey", err)
	}

	// What a set holds beside the key does not disturb, and is no key to verify with.
	i.keySet = func(w http.ResponseWriter) bool {
		good := string(must(json.Marshal(publicKey(goodKey(), "good"))))
		w.Write([]byte(`{"keys":[{"kty":"OKP","crv":"X448","x":"AA"},{"kty":"new"},7,` + good + `]}`))
		return true
	}
	if err := check(newSet()); err != nil {
		t.Errorf("VerifySignature() with a set of all kinds = %v", err)
	}
	i.keySet = func(w http.ResponseWriter) bool {
		key := publicKey(goodKey(), "good")
		key.Use = "enc"
		writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
		return true
	}
	if err := check(newSet()); err == nil {
		t.Error("VerifySignature() takes an encryption key")
	}
	i.keySet = func(w http.ResponseWriter) bool {
		writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("secret-secret-secret-secret-secret"), KeyID: "good"}}})
		return true
	}
	if err := check(newSet()); err == nil {
		t.Error("VerifySignature() takes a symmetric key")
	}
}

const (
	albARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/ops/0123456789abcdef"
	albKid = "9f7c1f0a-1c4e-4b0e-9a6e-0a1b2c3d4e5f"
)

// albSign is what a load balancer sends: like a JWT, padded.
func albSign(key *ecdsa.PrivateKey, header, payload map[string]any) string {
	part := func(b []byte) string { return base64.URLEncoding.EncodeToString(b) }
	signed := part(must(json.Marshal(header))) + "." + part(must(json.Marshal(payload)))
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
			if want := (Identity{OriginProxyJWT, "https://idp.example", "alice", "Alice Ä", "alice@example.com", false}); err == nil && got != want {
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

func TestProxyConfigCheck(t *testing.T) {
	jwt := ProxyConfig{Mode: "jwt", Header: "X-Jwt", Issuer: "i", Audience: "a", Algorithms: []string{"ES256"}, KeysURL: "https://keys.example"}
	headers := ProxyConfig{Mode: "headers", Name: "sso", UserHeader: "X-User", Trusted: trusted(t, "10.0.0.1/32")}
	with := func(c ProxyConfig, change func(*ProxyConfig)) ProxyConfig { change(&c); return c }
	tests := []struct {
		name string
		c    ProxyConfig
		ok   bool
	}{
		{"none", ProxyConfig{Mode: "none"}, true},
		{"unknown mode", ProxyConfig{Mode: "header"}, false},
		{"jwt", jwt, true},
		{"jwt without a header", with(jwt, func(c *ProxyConfig) { c.Header = "" }), false},
		{"jwt without an issuer", with(jwt, func(c *ProxyConfig) { c.Issuer = "" }), false},
		{"jwt without an audience", with(jwt, func(c *ProxyConfig) { c.Audience = "" }), false},
		{"jwt with a MAC", with(jwt, func(c *ProxyConfig) { c.Algorithms = []string{"HS256"} }), false},
		{"jwt without algorithms", with(jwt, func(c *ProxyConfig) { c.Algorithms = nil }), false},
		{"jwt with keys over http", with(jwt, func(c *ProxyConfig) { c.KeysURL = "http://keys.example" }), false},
		{"unknown preset", with(jwt, func(c *ProxyConfig) { c.Preset = "x" }), false},
		{"google-iap needs an audience alone", ProxyConfig{Mode: "jwt", Preset: "google-iap", Audience: "/projects/1/x"}, true},
		{"cloudflare-access knows where the keys are", ProxyConfig{Mode: "jwt", Preset: "cloudflare-access", Issuer: "https://t.cloudflareaccess.com", Audience: "a"}, true},
		{"aws-alb", ProxyConfig{Mode: "jwt", Preset: presetALB, Issuer: "i", Audience: "a", Signer: albARN}, true},
		{"aws-alb without a signer", ProxyConfig{Mode: "jwt", Preset: presetALB, Issuer: "i", Audience: "a", KeysURL: "https://keys.example"}, false},
		{"headers", headers, true},
		{"headers that anybody may send", with(headers, func(c *ProxyConfig) { c.Trusted = TrustedProxies{} }), false},
		{"headers without a user", with(headers, func(c *ProxyConfig) { c.UserHeader = "" }), false},
		{"headers without a name", with(headers, func(c *ProxyConfig) { c.Name = "" }), false},
		{"a header with an underscore", with(headers, func(c *ProxyConfig) { c.EmailHeader = "X_Email" }), false},
	}
	for _, tt := range tests {
		if err := tt.c.Check(); (err == nil) != tt.ok {
			t.Errorf("Check() of %s = %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

func TestFromProxy(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	log := slog.New(slog.NewTextHandler(w.log, nil))
	alice := Identity{Origin: OriginProxyJWT, Issuer: "https://proxy.example", Subject: "alice"}
	bob := Identity{Origin: OriginProxyJWT, Issuer: "https://proxy.example", Subject: "bob"}
	visit := func(i Identity, mayBegin bool) (Session, error) {
		recorder := httptest.NewRecorder()
		ctx, err := w.sessions.FromProxy(b.load(t), recorder, i, testFrom, mayBegin, log)
		b.keep(recorder)
		if err != nil {
			return Session{}, err
		}
		return Current(ctx)
	}
	ended := func(err error, want string) {
		t.Helper()
		if e, ok := errors.AsType[*Ended](err); !ok || e.Reason != want {
			t.Errorf("FromProxy() = %v, want ended by %s", err, want)
		}
	}

	_, err := visit(alice, false)
	ended(err, "none") // a form does not begin a session
	first, err := visit(alice, true)
	if err != nil || first.Subject != "alice" || first.Origin != OriginProxyJWT {
		t.Fatalf("FromProxy() = %+v, %v, want a session", first, err)
	}
	if again, err := visit(alice, false); err != nil || again.ID != first.ID {
		t.Errorf("FromProxy() again = %v, %v, want the same session", again.ID, err)
	}

	_, err = visit(bob, true)
	ended(err, "user_switched")
	now, err := visit(bob, true)
	if err != nil || now.Subject != "bob" {
		t.Errorf("FromProxy() after the switch = %+v, %v, want bob's session", now, err)
	}
	if _, err := w.sessions.Recheck(t.Context(), first); err == nil || !strings.Contains(err.Error(), "user_switched") {
		t.Errorf("Recheck() of alice's session = %v, want user_switched", err)
	}

	w.exec(t, `UPDATE users SET status = 'disabled' WHERE subject = 'bob'`)
	_, err = visit(bob, true)
	w.refused(t, err, Disabled)
}
