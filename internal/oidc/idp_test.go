package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	testClient = "console"
	testSecret = "canary-client-secret"
)

// Keys are slow to make, so that the tests share them.
var (
	goodKey  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An idp is an OpenID provider whose every answer a test can change. Unchanged, it is a good one: it checks the client,
// the redirect URI and the PKCE verifier, and takes a code once.
type idp struct {
	*httptest.Server

	metadata func(map[string]any)           // changes the discovery document
	claims   func(map[string]any)           // changes an ID token's claims
	payload  func([]byte) []byte            // changes its payload
	sign     func([]byte) string            // signs it
	tokens   func(map[string]any)           // changes the token response
	token    func(http.ResponseWriter) bool // answers instead of the token endpoint, if it returns true
	keys     []jose.JSONWebKey              // published
	keySet   func(http.ResponseWriter) bool // answers instead of the key set
	basic    bool                           // the client authenticates in a header
	redirect string                         // the only redirect URI

	discoveries, tokenCalls, keyCalls atomic.Int64

	mu    sync.Mutex
	codes map[string]url.Values // of the authorization request
}

func newIDP(t testing.TB) *idp {
	t.Helper()
	i := &idp{codes: map[string]url.Values{}, redirect: testRedirect, basic: true}
	i.sign = signRS256(goodKey(), "good")
	i.keys = []jose.JSONWebKey{{Key: goodKey().Public(), KeyID: "good", Algorithm: "RS256", Use: "sig"}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", i.serveMetadata)
	mux.HandleFunc("/token", i.serveToken)
	mux.HandleFunc("/keys", i.serveKeys)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *idp) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	i.discoveries.Add(1)
	m := map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"jwks_uri": i.URL + "/keys", "end_session_endpoint": i.URL + "/logout?keep=1", "id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"}}
	if i.metadata != nil {
		i.metadata(m)
	}
	writeJSON(w, m)
}

func (i *idp) serveKeys(w http.ResponseWriter, _ *http.Request) {
	i.keyCalls.Add(1)
	if i.keySet != nil && i.keySet(w) {
		return
	}
	writeJSON(w, jose.JSONWebKeySet{Keys: i.keys})
}

// authorize is what the user's browser brings back from the provider, when it is sent to where.
func (i *idp) authorize(t testing.TB, where string) url.Values {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	code := "canary-code-" + random()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes[code] = q
	return url.Values{"code": {code}, "state": {q.Get("state")}}
}

func (i *idp) serveToken(w http.ResponseWriter, r *http.Request) {
	i.tokenCalls.Add(1)
	if i.token != nil && i.token(w) {
		return
	}
	request, problem := i.redeem(r)
	if problem != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]any{"error": problem, "error_description": "canary-description"})
		return
	}
	writeJSON(w, i.response(request))
}

func (i *idp) redeem(r *http.Request) (request url.Values, problem string) {
	client, secret, inHeader := r.BasicAuth()
	if !inHeader {
		client, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if client != testClient || secret != testSecret || inHeader != i.basic {
		return nil, "invalid_client"
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	request = i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if request == nil || request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
		r.FormValue("redirect_uri") != i.redirect || request.Get("redirect_uri") != i.redirect {
		return nil, "invalid_grant"
	}
	return request, ""
}

const testAccess = "canary-access-token"

func (i *idp) response(request url.Values) map[string]any {
	response := map[string]any{"access_token": testAccess, "token_type": "Bearer", "expires_in": 300, "id_token": i.sign(i.idToken(request.Get("nonce")))}
	if i.tokens != nil {
		i.tokens(response)
	}
	return response
}

func (i *idp) idToken(nonce string) []byte {
	sum := sha256.Sum256([]byte(testAccess))
	now := time.Now()
	c := map[string]any{"iss": i.URL, "sub": "alice", "aud": testClient, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "auth_time": now.Unix() - 5,
		"nonce": nonce, "at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]), "sid": "sid-1",
		"name": "Alice Example", "email": "alice@example.com", "email_verified": true}
	if i.claims != nil {
		i.claims(c)
	}
	payload := must(json.Marshal(c))
	if i.payload != nil {
		payload = i.payload(payload)
	}
	return payload
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func signRS256(key *rsa.PrivateKey, kid string) func([]byte) string {
	return signAs(jose.RS256, key, kid, "JWT")
}

func signAs(alg jose.SignatureAlgorithm, key any, kid, typ string) func([]byte) string {
	options := (&jose.SignerOptions{}).WithHeader("kid", kid)
	if typ != "" {
		options = options.WithType(jose.ContentType(typ))
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options))
	return func(payload []byte) string {
		return must(must(signer.Sign(payload)).CompactSerialize())
	}
}

// unsigned is a token with alg none.
func unsigned(payload []byte) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part(payload) + "."
}

func publicKey(key crypto.Signer, kid string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key.Public(), KeyID: kid}
}
