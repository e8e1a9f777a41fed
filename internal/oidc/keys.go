package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

const (
	refetchEvery = 10 * time.Second // what an unknown key may cost the provider
	keysMaxAge   = 15 * time.Minute // after which a key that the provider withdrew is noticed
)

// algorithms are those a provider's tokens may be signed with: asymmetric ones alone, so that neither none nor a MAC with
// the client secret is a signature.
var algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}

var (
	errUnknownKey = errors.New("no published key verifies the signature")
	errNoKeys     = errors.New("the provider's keys cannot be fetched")
)

// A keySet is a provider's published keys, fetched when first needed, when old, and when a token names an unknown one.
// go-oidc's own would fetch once for every token with an unknown key, and would keep a withdrawn key for ever.
type keySet struct {
	url    string
	client *http.Client
	algs   []jose.SignatureAlgorithm
	limit  *rate.Limiter // of every fetch but the first

	fetching sync.Mutex // held during a fetch, so that there is one at a time
	mu       sync.Mutex // guards what follows, never held during a fetch
	keys     []jose.JSONWebKey
	fetches  int // tried
	at       time.Time
}

func newKeySet(url string, client *http.Client, algs []string) *keySet {
	k := &keySet{url: url, client: client, limit: newRefetchLimit()}
	for _, a := range algs {
		k.algs = append(k.algs, jose.SignatureAlgorithm(a))
	}
	return k
}

func newRefetchLimit() *rate.Limiter { return rate.NewLimiter(rate.Every(refetchEvery), 1) }

// VerifySignature implements go-oidc's KeySet. Its errors are or wrap errUnknownKey and errNoKeys.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(jwt, k.algs)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errUnknownKey
	}
	keys, fetches := k.current(ctx)
	if payload, ok := verifyWith(signed, keys); ok {
		return payload, nil
	}
	keys, err = k.refetch(ctx, fetches)
	if err != nil {
		return nil, err
	}
	if payload, ok := verifyWith(signed, keys); ok {
		return payload, nil
	}
	return nil, errUnknownKey
}

func verifyWith(signed *jose.JSONWebSignature, keys []jose.JSONWebKey) (payload []byte, ok bool) {
	header := signed.Signatures[0].Header
	for _, key := range keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(&key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// current is the keys at hand and how many fetches there were. Old keys are fetched anew by whoever comes first, while
// others go on with them; when that fails they are still good.
func (k *keySet) current(ctx context.Context) ([]jose.JSONWebKey, int) {
	keys, fetches, at := k.snapshot()
	if len(keys) == 0 || time.Since(at) < keysMaxAge || !k.fetching.TryLock() {
		return keys, fetches
	}
	defer k.fetching.Unlock()
	if k.limit.Allow() {
		k.fetch(ctx)
	}
	keys, fetches, _ = k.snapshot()
	return keys, fetches
}

func (k *keySet) snapshot() ([]jose.JSONWebKey, int, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys, k.fetches, k.at
}

// refetch fetches the keys, unless somebody did since seen or the limit forbids it.
func (k *keySet) refetch(ctx context.Context, seen int) ([]jose.JSONWebKey, error) {
	k.fetching.Lock()
	defer k.fetching.Unlock()
	keys, fetches, _ := k.snapshot()
	if fetches == seen && (fetches == 0 || k.limit.Allow()) {
		if err := k.fetch(ctx); err != nil {
			return nil, err
		}
		keys, _, _ = k.snapshot()
	}
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	return keys, nil
}

// fetch outlives ctx's cancellation: others wait for the same keys. The client has its own time limit.
func (k *keySet) fetch(ctx context.Context) error {
	keys, err := k.get(context.WithoutCancel(ctx))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fetches++
	if err != nil {
		return fmt.Errorf("%w: %w", errNoKeys, err)
	}
	k.keys, k.at = keys, time.Now()
	return nil
}

func (k *keySet) get(ctx context.Context) ([]jose.JSONWebKey, error) {
	body, err := get(ctx, k.client, k.url)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(body, &set) != nil || len(set.Keys) == 0 {
		return nil, errors.New("the answer is not a JSON Web Key Set")
	}
	return signingKeys(set.Keys), nil
}

// signingKeys leaves out what it cannot use: a set may hold keys of kinds not known here, and keys for encryption.
func signingKeys(raw []json.RawMessage) (keys []jose.JSONWebKey) {
	for _, r := range raw {
		var key jose.JSONWebKey
		if json.Unmarshal(r, &key) == nil && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	return keys
}

// get is the body of a 200 answer.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}
