package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
)

// What is accepted reads the same to a decoder that does not care for case, as go-oidc's does not.
func FuzzDecodeClaims(f *testing.F) {
	for _, s := range []string{`{"sub":"a","iss":"b"}`, `{"SUB":"a"}`, `{"sub":"a","sub":"b"}`, `{"i\u017fs":1}`, `{"x":{"sub":1}}`, `{}{}`, `{"nonce":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := decodeClaims(payload, claimNames)
		if err != nil {
			return
		}
		var loose struct {
			Sub   json.RawMessage `json:"sub"`
			Iss   json.RawMessage `json:"iss"`
			Nonce json.RawMessage `json:"nonce"`
		}
		if err := json.Unmarshal(payload, &loose); err != nil {
			t.Fatalf("decodeClaims(%q) accepts what json does not: %v", payload, err)
		}
		for name, raw := range map[string]json.RawMessage{"sub": loose.Sub, "iss": loose.Iss, "nonce": loose.Nonce} {
			if strings.TrimSpace(string(raw)) != strings.TrimSpace(string(c[name])) {
				t.Errorf("decodeClaims(%q): %s is %q, and %q to a decoder of any case", payload, name, c[name], raw)
			}
		}
		i := c.identity(OriginOIDC, "issuer")
		for _, text := range []string{i.Subject, i.Name, i.Email} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || utf8.RuneCountInString(text) > 500 {
				t.Errorf("identity of %q holds %q", payload, text)
			}
		}
	})
}

func FuzzLogoutToken(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	good := `{"aud":"console","iat":1800000000,"jti":"j","sid":"s","events":{"` + logoutEvent + `":{}}}`
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, `{}`, `null`, 1)))
	f.Add([]byte(strings.Replace(good, `"sid"`, `"other"`, 1)))
	f.Add([]byte(strings.Replace(good, `"jti"`, `"nonce":"","jti"`, 1)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := decodeClaims(payload, claimNames)
		if err != nil {
			return
		}
		token, err := c.logoutToken([]string{testClient}, now)
		if err != nil {
			if kindOf(err) != BadToken {
				t.Errorf("logoutToken(%q) = %v, want bad_token", payload, err)
			}
			return
		}
		issued, _ := c.instant("iat")
		if age := now.Sub(issued); age > logoutMaxAge || age < -futureSkew || c["nonce"] != nil || token.jti == "" || token.sid+token.sub == "" {
			t.Errorf("logoutToken(%q) = %+v", payload, token)
		}
	})
}

// Whatever is in the headers, nobody is named but by one good value, and no identity header is left.
func FuzzProxyHeaders(f *testing.F) {
	c := ProxyConfig{Mode: "headers", Name: "sso", UserHeader: "X-Forwarded-User", EmailHeader: "X-Forwarded-Email", Trusted: trusted(f, "10.0.0.0/24")}
	f.Add("X-Forwarded-User", "alice", "X-Forwarded-User", "admin", "10.0.0.1:1")
	f.Add("X_Forwarded_User", "alice", "X-Forwarded-Email", "a@b", "10.0.0.1:1")
	f.Add("X-Forwarded-User", "a,b", "x-forwarded-user", "", "10.0.1.1:1")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2, peer string) {
		p := &ProxyIdentity{read: c.readHeaders, drops: append([]string{c.UserHeader, c.EmailHeader}, identityHeaders...)}
		r := &http.Request{Header: http.Header{}, RemoteAddr: peer}
		r.Header.Add(name1, value1)
		r.Header.Add(name2, value2)
		users := r.Header.Values(c.UserHeader)
		i, err := p.Identify(r)
		if err == nil && (len(users) != 1 || i.Subject != users[0] || strings.Contains(i.Subject, ",") || !isIdentifier(i.Subject) || !strings.HasPrefix(peer, "10.0.0.") && !strings.Contains(peer, "ffff")) {
			t.Errorf("Identify(%q=%q, %q=%q from %q) = %+v", name1, value1, name2, value2, peer, i)
		}
		for left := range r.Header {
			if p.names(left) {
				t.Errorf("the header %q is left", left)
			}
		}
	})
}

// Without the key there is no token that is believed, whatever it looks like.
func FuzzProxyJWT(f *testing.F) {
	key := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicKey(goodKey(), "good")}}))
	var set struct{ Keys []json.RawMessage }
	json.Unmarshal(key, &set)
	keys := &keySet{client: httpClient(time.Millisecond), algs: []jose.SignatureAlgorithm{"RS256"}, limit: newRefetchLimit(), keys: signingKeys(set.Keys), fetches: 1, at: time.Now()}
	keys.limit.Allow() // no fetch in here
	now := func(context.Context) (time.Time, error) { return time.Unix(1_800_000_000, 0), nil }
	p := proxyJWT{header: "X-Jwt", audience: "aud", now: now, signer: signer{issuer: "iss", algs: []string{"RS256"}, keys: keys, names: claimNames}}
	a := newALB(ProxyConfig{Header: "X-Jwt", Issuer: "iss", Audience: "aud", Signer: albARN}, nil, now)
	a.fetches = 1
	a.limit.Allow()
	a.keys[albKid] = &ecKey().PublicKey
	header, payload := albToken(time.Unix(1_800_000_000, 0))
	f.Add(signRS256(otherKey(), "good")([]byte(`{"iss":"iss","aud":"aud","sub":"s","iat":1800000000,"exp":1900000000}`)))
	f.Add(unsigned([]byte(`{"iss":"iss","aud":"aud","sub":"s","iat":1800000000,"exp":1900000000}`)))
	f.Add(albSign(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), header, payload))
	f.Fuzz(func(t *testing.T, token string) {
		r := &http.Request{Header: http.Header{"X-Jwt": {token}}}
		for _, read := range []func(*http.Request) (Identity, error){p.read, a.read} {
			if i, err := read(r); err == nil {
				t.Errorf("read(%q) = %+v", token, i)
			} else if kindOf(err) == "" {
				t.Errorf("read(%q) = %v, want a refusal", token, err)
			}
		}
	})
}

func FuzzDecodeRoute(f *testing.F) {
	f.Add([]byte(`{"name":"run","ids":{"id":"1"},"query":{"tab":["events"]}}`))
	f.Add([]byte(`{"name":"//evil"}`))
	f.Add([]byte(`{"name":"run","ids":{"id":"\u0000"}}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		r, err := decodeRoute(encoded)
		if err != nil {
			return
		}
		if strings.ContainsAny(r.Name, `/\:%?#`) {
			t.Errorf("decodeRoute(%q) leads to %q", encoded, r.Name)
		}
		again, err := r.encode()
		if err != nil {
			return // it was longer than a route may be
		}
		if _, err := decodeRoute(again); err != nil {
			t.Errorf("decodeRoute(%q) of what it returned = %v", again, err)
		}
	})
}

func FuzzClientAddress(f *testing.F) {
	p := trusted(f, "10.0.0.0/24")
	f.Add("10.0.0.1:1", "203.0.113.1, 10.0.0.2")
	f.Add("[::ffff:10.0.0.1]:1", "<script>")
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		peer, claimed := p.ClientAddress(&http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {forwarded}}})
		for _, a := range []string{peer, claimed} {
			if a != "" && !parseAddress(a).IsValid() {
				t.Errorf("ClientAddress(%q, %q) = %q, %q", remote, forwarded, peer, claimed)
			}
		}
		if claimed != "" && !p.trusts(parseAddress(remote)) {
			t.Errorf("ClientAddress(%q, %q) believes a stranger", remote, forwarded)
		}
	})
}
