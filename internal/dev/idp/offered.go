package idp

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// errNotOffered answers for every part of the library that no route of this provider leads to: refresh, introspection,
// revocation, assertions.
var errNotOffered = errors.New("this provider does not offer it")

func (s *store) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, errNotOffered
}

func (s *store) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, errNotOffered
}

func (s *store) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

func (s *store) RevokeToken(context.Context, string, string, string) *oidc.Error {
	return oidc.ErrInvalidRequest().WithParent(errNotOffered)
}

func (s *store) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errNotOffered
}

func (s *store) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errNotOffered
}

func (s *store) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errNotOffered
}

func (s *store) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

// SetUserinfoFromScopes does nothing: SetUserinfoFromRequest knows more.
func (s *store) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

// TerminateSession is not asked: TerminateSessionFromRequest is.
func (s *store) TerminateSession(context.Context, string, string) error { return errNotOffered }

func (s *store) Health(context.Context) error { return nil }

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	return signingKey{s.key, s.keyID}, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{signingKey{s.key, s.keyID}}}, nil
}

func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

type signingKey struct {
	key *rsa.PrivateKey
	id  string
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) Key() any                                    { return k.key }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

type publicKey struct{ signingKey }

func (k publicKey) Key() any                           { return k.key.Public() }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

// thumbprint names a key by RFC 7638, so that the name changes with the key.
func thumbprint(key *rsa.PrivateKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: key.Public()}).Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(sum), err
}
