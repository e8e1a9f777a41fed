package oidc

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

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
	i.keySet = nil
	i.keys = []jose.JSONWebKey{publicKey(goodKey(), "good")}
	if _, err := newSet().VerifySignature(t.Context(), signRS256(goodKey(), "another")([]byte(`{}`))); !errors.Is(err, errUnknownKey) {
		t.Errorf("VerifySignature() of a token that names another key = %v, want errUnknownKey", err)
	}
}
