package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// forged are the tokens and answers of a provider, or of somebody in its place, that must not sign anybody in.
var forged = []struct {
	name string
	evil func(*idp)
	want Kind
}{
	{"no nonce", claim("nonce", nil), WrongNonce},
	{"another transaction's nonce", claim("nonce", "another"), WrongNonce},
	{"nonce is no string", claim("nonce", 7), BadToken},
	{"empty nonce", claim("nonce", ""), WrongNonce},
	{"another issuer", claim("iss", "https://evil.example"), BadToken},
	{"issuer with a slash", func(i *idp) { i.claims = func(c map[string]any) { c["iss"] = i.URL + "/" } }, BadToken},
	{"no issuer", claim("iss", nil), BadToken},
	{"another audience", claim("aud", "another"), BadToken},
	{"no audience", claim("aud", nil), BadToken},
	{"two audiences without azp", claim("aud", []string{testClient, "another"}), BadToken},
	{"two audiences, azp is the other", claims2("aud", []string{testClient, "another"}, "azp", "another"), BadToken},
	{"one audience, azp is another", claim("azp", "another"), BadToken},
	{"azp is no string", claim("azp", []string{testClient}), BadToken},
	{"no subject", claim("sub", nil), BadToken},
	{"empty subject", claim("sub", ""), BadToken},
	{"subject is a number", claim("sub", 7), BadToken},
	{"subject with a NUL", claim("sub", "a\x00b"), BadToken},
	{"expired", claim("exp", time.Now().Add(-time.Second).Unix()), BadToken},
	{"no expiry", claim("exp", nil), BadToken},
	{"not valid yet", claim("nbf", time.Now().Add(time.Hour).Unix()), BadToken},
	{"issued in the future", claim("iat", time.Now().Add(2*time.Minute).Unix()), BadToken},
	{"issued never", claim("iat", nil), BadToken},
	{"issued at a string", claim("iat", "1700000000"), BadToken},
	{"at_hash of another token", claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), BadToken},
	{"empty at_hash", claim("at_hash", ""), BadToken},
	{"alg none", func(i *idp) { i.sign = unsigned }, BadToken},
	{"HS256 with the client secret", func(i *idp) { i.sign = signAs(jose.HS256, []byte(testSecret+testSecret), "good", "JWT") }, BadToken},
	{"HS256 with the public key", func(i *idp) {
		i.sign = signAs(jose.HS256, must(json.Marshal(publicKey(goodKey(), "good"))), "good", "JWT")
	}, BadToken},
	{"signed with another key under the same kid", func(i *idp) { i.sign = signRS256(otherKey(), "good") }, BadToken},
	{"signed with an unknown key", func(i *idp) { i.sign = signRS256(otherKey(), "unknown") }, BadToken},
	{"an algorithm that is not the key's", func(i *idp) { i.sign = signAs(jose.PS256, goodKey(), "good", "JWT") }, BadToken},
	{"not a JWT", func(i *idp) { i.sign = func([]byte) string { return "canary-not-a-jwt" } }, BadToken},
	{"JSON serialization", func(i *idp) {
		sign := i.sign
		i.sign = func(p []byte) string {
			parts := strings.Split(sign(p), ".")
			return fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2])
		}
	}, BadToken},
	{"no ID token", func(i *idp) { i.tokens = func(m map[string]any) { delete(m, "id_token") } }, BadToken},
	{"sub is there twice", payload(`{"sub":"mallory",`), BadToken},
	{"SUB beside sub", payload(`{"SUB":"mallory",`), BadToken},
	{"a long s in iss", payload(`{"i\u017fs":"x",`), BadToken},
	{"Nonce beside nonce", payload(`{"Nonce":"x",`), BadToken},
	{"acr is there twice", payload(`{"acr":"a","acr":"b",`), BadToken},
	{"the payload is an array", func(i *idp) { i.payload = func([]byte) []byte { return []byte(`["sub"]`) } }, BadToken},
	{"something follows the payload", func(i *idp) { i.payload = func(p []byte) []byte { return append(p, "{}"...) } }, BadToken},
	{"token endpoint answers 500", answers(http.StatusInternalServerError, "text/html", "<h1>canary</h1>"), ProviderUnavailable},
	{"token endpoint answers HTML", answers(http.StatusOK, "text/html", "<h1>canary</h1>"), ProviderUnavailable},
	{"token endpoint answers an error", answers(http.StatusBadRequest, "application/json", `{"error":"invalid_grant","error_description":"canary"}`), ProviderError},
	{"token endpoint answers too much", answers(http.StatusOK, "application/json", `{"access_token":"`+strings.Repeat("x", maxAnswer)+`"}`), ProviderUnavailable},
	{"token endpoint redirects", func(i *idp) {
		i.token = func(w http.ResponseWriter) bool {
			w.Header().Set("Location", i.URL+"/token")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}
	}, ProviderUnavailable},
	{"key set answers 500", func(i *idp) {
		i.keySet = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusInternalServerError); return true }
	}, ProviderUnavailable},
	{"key set is HTML", func(i *idp) {
		i.keySet = func(w http.ResponseWriter) bool { w.Write([]byte("<h1>canary</h1>")); return true }
	}, ProviderUnavailable},
	{"key set redirects", func(i *idp) {
		i.keySet = func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "/keys")
			w.WriteHeader(http.StatusFound)
			return true
		}
	}, ProviderUnavailable},
}

func claim(name string, value any) func(*idp) {
	return func(i *idp) { i.claims = func(c map[string]any) { set(c, name, value) } }
}

func claims2(name1 string, value1 any, name2 string, value2 any) func(*idp) {
	return func(i *idp) {
		i.claims = func(c map[string]any) { set(c, name1, value1); set(c, name2, value2) }
	}
}

func set(c map[string]any, name string, value any) {
	if value == nil {
		delete(c, name)
		return
	}
	c[name] = value
}

// payload puts members before the others.
func payload(start string) func(*idp) {
	return func(i *idp) { i.payload = func(p []byte) []byte { return append([]byte(start), p[1:]...) } }
}

func answers(status int, contentType, body string) func(*idp) {
	return func(i *idp) {
		i.token = func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			w.Write([]byte(body))
			return true
		}
	}
}

// Whatever the provider answers, nobody is signed in, the session the browser had stays, the code is sent once, and
// nothing of what was sent is in an error, a log line or the audit.
func TestForgedAnswers(t *testing.T) {
	w := newWorld(t)
	for _, tt := range forged {
		t.Run(tt.name, func(t *testing.T) {
			b := w.newBrowser()
			before := b.signedIn(t)
			answer := b.start(t)
			good := *w.idp.behaviour()
			defer w.idp.behave(good)
			tt.evil(w.idp)
			w.again(t)
			calls, sessions := w.idp.tokenCalls.Load(), w.liveSessions(t)

			_, err := b.callback(t, answer)

			refusal := w.refused(t, err, tt.want)
			if refusal.Route == nil || refusal.Route.Name != testRoute.Name {
				t.Errorf("refusal.Route = %v, want where the user was going", refusal.Route)
			}
			if got := w.idp.tokenCalls.Load() - calls; got != 1 {
				t.Errorf("the token endpoint was called %d times, want once", got)
			}
			if got := w.liveSessions(t); got != sessions {
				t.Errorf("there are %d sessions, want %d", got, sessions)
			}
			if now, err := b.current(t); err != nil || now.ID != before.ID {
				t.Errorf("Current() = %v, %v, want the session from before", now.ID, err)
			}
			w.discreet(t, err, answer, b)
		})
	}
}

// behaviour is what a test changes of a provider.
type behaviour struct {
	claims  func(map[string]any)
	payload func([]byte) []byte
	sign    func([]byte) string
	tokens  func(map[string]any)
	token   func(http.ResponseWriter) bool
	keys    []jose.JSONWebKey
	keySet  func(http.ResponseWriter) bool
}

func (i *idp) behaviour() *behaviour {
	return &behaviour{i.claims, i.payload, i.sign, i.tokens, i.token, i.keys, i.keySet}
}

func (i *idp) behave(b behaviour) {
	i.claims, i.payload, i.sign, i.tokens, i.token, i.keys, i.keySet = b.claims, b.payload, b.sign, b.tokens, b.token, b.keys, b.keySet
}

// discreet fails the test when a secret, a token, a code or a verifier got out.
func (w *world) discreet(t *testing.T, err error, answer url.Values, b *browser) {
	t.Helper()
	written := w.log.String() + scan[string](t, w, `SELECT coalesce(string_agg(row_to_json(a)::text, ' '), '') FROM security_audit_events a`)
	if err != nil {
		written += err.Error()
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		written += refusal.Found.String() + refusal.Next.String()
	}
	for _, secret := range []string{"canary", testSecret, testAccess, answer.Get("code"), answer.Get("state"), b.binder(), "eyJ", "mallory"} {
		if secret != "" && strings.Contains(written, secret) {
			t.Errorf("%q got out: it is in an error, the log or the audit", secret)
		}
	}
}
