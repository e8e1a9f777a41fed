package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// A token that is signed with the right key, by a proxy or by a load balancer, names somebody only if everything in it that
// matters is as configured.
func FuzzSignedProxyJWT(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	clock := func(context.Context) (time.Time, error) { return now, nil }
	set := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicKey(ecKey(), "good")}}))
	var raw struct{ Keys []json.RawMessage }
	json.Unmarshal(set, &raw)
	keys := &keySet{client: httpClient(time.Millisecond), algs: []jose.SignatureAlgorithm{"ES256"}, limit: newRefetchLimit(), keys: signingKeys(raw.Keys), fetches: 1, at: now}
	p := proxyJWT{header: "X-Jwt", audience: "aud", now: clock, signer: signer{issuer: "iss", algs: []string{"ES256"}, keys: keys, names: claimNames}}
	a := newALB(ProxyConfig{Header: "X-Jwt", Issuer: "iss", Audience: "aud", Signer: albARN}, nil, clock)
	a.keys[albKid] = &ecKey().PublicKey
	header := map[string]any{"alg": "ES256", "kid": albKid, "signer": albARN, "iss": "iss", "client": "aud", "exp": now.Unix() + 60}
	good := `{"iss":"iss","aud":"aud","sub":"alice","iat":1799999990,"exp":1800000060}`
	for _, payload := range []string{good, strings.Replace(good, `"aud"`, `["other","aud"]`, 1), strings.Replace(good, `"sub"`, `"SUB"`, 1), strings.Replace(good, `}`, `,"sub":"bob"}`, 1),
		strings.Replace(good, `}`, `,"events":{}}`, 1), strings.Replace(good, "1800000060", "1700000000", 1), strings.Replace(good, `"iss"`, `"evil"`, 1), strings.Replace(good, "alice", "", 1), `[]`, `{}`} {
		f.Add([]byte(payload))
	}
	sign := signAs(jose.ES256, ecKey(), "good", "JWT")
	f.Fuzz(func(t *testing.T, payload []byte) {
		for mode, read := range map[string]func() (Identity, error){
			"jwt":     func() (Identity, error) { return p.read(carrying(sign(payload))) },
			"aws-alb": func() (Identity, error) { return a.read(carrying(albSignRaw(ecKey(), header, payload))) },
		} {
			i, err := read()
			if err != nil {
				if kindOf(err) == "" {
					t.Errorf("%s: read(%q) = %v, want a refusal", mode, payload, err)
				}
				continue
			}
			var said struct {
				Iss, Sub string
				Exp      *float64
			}
			if err := json.Unmarshal(payload, &said); err != nil || i.Subject != said.Sub || i.Subject == "" || i.Issuer != "iss" || said.Iss != "iss" && (mode == "jwt" || said.Iss != "") ||
				said.Exp != nil && *said.Exp < float64(now.Unix()) || said.Exp == nil && mode == "jwt" {
				t.Errorf("%s: read(%q) = %+v, %v", mode, payload, i, err)
			}
		}
	})
}

func carrying(token string) *http.Request {
	return &http.Request{Header: http.Header{"X-Jwt": {token}}}
}

// Whatever a table says, it is refused, or a token that tells of one factor alone is too weak for it.
func FuzzRequirement(f *testing.F) {
	f.Add("acr", "gold", "", "", "", "multi_factor", "", "always", "")
	f.Add("amr", "", "", "hwk", "pin", "hardware", "", "session", "purpose=retry")
	f.Add("amr", "", "pwd", "", "", "multi_factor", "", "always", "")
	f.Add("amr", "", "", "pwd", "pwd", "multi_factor", "", "always", "=")
	f.Add("acrs", "", "c1", "", "", "hardware", "entra", "always", "")
	f.Add("", "", "", "", "", "", "okta", "always", "")
	f.Add("acr", "urn:okta:loa:1fa:pwd", "", "", "", "multi_factor", "okta", "always", "")
	f.Fuzz(func(t *testing.T, claim, equals, contains, first, second, level, preset, secondFactor, purpose string) {
		rule := Rule{Claim: claim, Equals: equals, Contains: contains, Level: level}
		if first != "" || second != "" {
			rule.ContainsAll = []string{first, second}
		}
		r := Requirement{Issuer: "https://idp.example", SecondFactor: secondFactor, Preset: preset, PurposeClaim: purpose}
		if claim != "" {
			r.Assurance = []Rule{rule}
		}
		filled, err := r.withDefaults()
		if err == nil {
			err = filled.Check()
		}
		if err != nil {
			if !strings.Contains(err.Error(), "step-up at https://idp.example: ") {
				t.Errorf("%+v is refused with %v, which does not say where", r, err)
			}
			return
		}
		for factor := range factors {
			if level, _, err := filled.judge(sent{amr: []string{factor}}); err == nil {
				t.Errorf("%+v takes %s alone for %s", r, factor, level)
			}
		}
		for _, acr := range append(weak, "") {
			if level, _, err := filled.judge(sent{acr: acr, amr: []string{"pwd"}}); err == nil {
				t.Errorf("%+v takes acr %q for %s", r, acr, level)
			}
		}
	})
}

// What a provider's answer says of an error gets to a page only as a plain word, and what is there twice is not there.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"error=access_denied", "error=server_error&error_description=%3Cscript%3E", "error=<script>", "code=c&state=s&iss=i", "code=a&code=b", "error=", "error=%00", "error=" + strings.Repeat("a", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		answer, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		for name, values := range answer {
			if got := single(answer, name); len(values) != 1 && got != "" || len(values) == 1 && got != values[0] {
				t.Errorf("single(%q, %q) = %q", raw, name, got)
			}
		}
		refusal := answeredError(single(answer, "error"))
		words := refusal.Error()
		if kindOf(refusal) == "" || strings.ContainsAny(words, "<>&\"\x00\r\n") || len(words) > 300 {
			t.Errorf("answeredError(%q) = %q", single(answer, "error"), words)
		}
	})
}

// A cookie is read only if it is there once, and binds only if the console made it.
func FuzzCookies(f *testing.F) {
	c := must(CookiesFor(must(url.Parse(testPublic))))
	name := c.Name(binderCookie)
	good := random()
	for _, s := range []string{name + "=" + good, name + "=" + good + "; " + name + "=" + good, name + "=short", name + `="` + good + `"`, "ql3_binder=" + good, name, "; =;" + name + "=" + good + "="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := &http.Request{Header: http.Header{"Cookie": {header}}}
		binder := c.Binder(r)
		if binder == "" {
			return
		}
		if n := len(r.CookiesNamed(name)); n != 1 || len(binder) != len(good) || !strings.Contains(header, binder) {
			t.Errorf("Binder() of %q = %q, of %d cookies", header, binder, n)
		}
		w := httptest.NewRecorder()
		if again := c.EnsureBinder(w, r); again != binder || len(w.Result().Cookies()) != 0 {
			t.Errorf("EnsureBinder() of %q = %q, want %q, which is there", header, again, binder)
		}
	})
}
