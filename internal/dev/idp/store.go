package idp

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	sessionLifetime = 12 * time.Hour
	codeLifetime    = time.Minute
	maxRequests     = 1000 // a loop in a client must not fill the memory
)

var (
	errGone  = errors.New("this sign-in has ended or is too old")
	errFull  = errors.New("too many sign-ins are under way")
	errEnded = errors.New("the session has ended")
)

// A store is the provider's memory and what the library calls its Storage. Everything but the state's file is
// forgotten at the end of the process: people then sign in again.
type store struct {
	clients map[string]client
	key     *rsa.PrivateKey
	keyID   string
	tell    func(context.Context, *session) // that the session has ended; to every client that took part

	mu       sync.Mutex
	state    *state
	requests map[string]*request
	codes    map[string]issued
	tokens   map[string]issued
	sessions map[string]*session // by cookie
}

// issued is a code or an access token: whose it is, and until when.
type issued struct {
	request string // of a code
	subject string // of a token
	scopes  []string
	expires time.Time
}

// A session is one browser's authentication here, and the clients that were told of it.
type session struct {
	grant   grant
	clients map[string]bool
	expires time.Time

	ceremony *webauthn.SessionData // of a passkey being added
}

// visit is what the library does not pass on about the browser that sends an authorization or end-session request.
type visit struct {
	cookie string
	claims string
}

type visitKey struct{}

func visitOf(ctx context.Context) visit {
	v, _ := ctx.Value(visitKey{}).(visit)
	return v
}

// CreateAuthRequest takes in a validated authorization request and, if the browser's session is enough, answers it.
func (s *store) CreateAuthRequest(ctx context.Context, in *oidc.AuthRequest, hinted string) (op.AuthRequest, error) {
	if err := acceptable(in); err != nil {
		return nil, err
	}
	v := visitOf(ctx)
	d, err := demandOf(in, v.claims)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.hint = s.state.find(in.LoginHint)
	if hinted != "" {
		if d.hint = s.state.find(hinted); d.hint == nil {
			return nil, oidc.ErrLoginRequired().WithDescription("The ID token hint names nobody here.")
		}
	}
	now := time.Now()
	s.sweep(now)
	if len(s.requests) >= maxRequests {
		return nil, oidc.ErrServerError().WithParent(errFull)
	}
	r := &request{id: rand.Text(), in: *in, demand: d, expires: now.Add(requestLifetime)}
	if known, ok := s.sessions[v.cookie]; ok && d.metBy(known.grant, now) {
		given := known.grant
		r.grant = &given
	} else if d.silent {
		return nil, oidc.ErrLoginRequired().WithDescription("Nobody is signed in here as the request needs it.")
	}
	s.requests[r.id] = r
	return *r, nil
}

// acceptable refuses what this provider does not offer, and what would be weaker than what it does.
func acceptable(in *oidc.AuthRequest) error {
	switch {
	case !slices.Contains(in.Scopes, oidc.ScopeOpenID):
		return oidc.ErrInvalidScope().WithDescription("The scope openid is missing.")
	case in.CodeChallenge == "":
		return oidc.ErrInvalidRequest().WithDescription("PKCE is required: the code_challenge is missing.")
	case in.CodeChallengeMethod != oidc.CodeChallengeMethodS256:
		return oidc.ErrInvalidRequest().WithDescription("The code_challenge_method must be S256.")
	case in.ResponseMode != "" && in.ResponseMode != oidc.ResponseModeQuery:
		return oidc.ErrInvalidRequest().WithDescription("The response_mode must be query.")
	}
	return nil
}

// sweep forgets what has expired.
func (s *store) sweep(now time.Time) {
	maps.DeleteFunc(s.requests, func(_ string, r *request) bool { return now.After(r.expires) })
	maps.DeleteFunc(s.sessions, func(_ string, v *session) bool { return now.After(v.expires) })
	for _, m := range []map[string]issued{s.codes, s.tokens} {
		maps.DeleteFunc(m, func(_ string, i issued) bool { return now.After(i.expires) })
	}
}

// request returns a copy of the request that is under way, or errGone.
func (s *store) request(id string) (request, error) {
	return s.change(id, func(*request) error { return nil })
}

// change lets f change the request and returns a copy of it. What f returns, change returns.
func (s *store) change(id string, f func(*request) error) (request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[id]
	if !ok || time.Now().After(r.expires) {
		return request{}, errGone
	}
	err := f(r)
	return *r, err
}

// AuthRequestByID is asked once somebody has signed in.
func (s *store) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	r, err := s.request(id)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *store) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = issued{request: id, expires: time.Now().Add(codeLifetime)}
	return nil
}

// AuthRequestByCode spends the code before anything about the token request is checked.
func (s *store) AuthRequestByCode(_ context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	i, ok := s.codes[code]
	delete(s.codes, code)
	s.mu.Unlock()
	if !ok || time.Now().After(i.expires) {
		return nil, errGone
	}
	return s.AuthRequestByID(context.Background(), i.request)
}

func (s *store) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	return nil
}

// CreateAccessToken is where a client comes to take part in the session: from here on it is told of its end.
func (s *store) CreateAccessToken(_ context.Context, t op.TokenRequest) (string, time.Time, error) {
	r, ok := t.(request)
	if !ok {
		return "", time.Time{}, errNotOffered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, session := s.sessionBySID(r.grant.sid)
	if session == nil {
		return "", time.Time{}, oidc.ErrInvalidGrant().WithParent(errEnded)
	}
	session.clients[r.in.ClientID] = true
	id, expires := rand.Text(), time.Now().Add(tokenLifetime)
	s.tokens[id] = issued{subject: r.GetSubject(), scopes: r.in.Scopes, expires: expires}
	return id, expires, nil
}

// sessionBySID returns a session and its cookie, or nothing.
func (s *store) sessionBySID(sid string) (cookie string, found *session) {
	for cookie, v := range s.sessions {
		if v.grant.sid == sid && time.Now().Before(v.expires) {
			return cookie, v
		}
	}
	return "", nil
}

func (s *store) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	c, ok := s.clients[id]
	if !ok {
		return nil, oidc.ErrInvalidClient().WithDescription("There is no such client.")
	}
	return c, nil
}

func (s *store) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if c, ok := s.clients[id]; !ok || !c.knows(secret) {
		return oidc.ErrInvalidClient().WithDescription("The client or its secret is wrong.")
	}
	return nil
}

// SetUserinfoFromRequest fills the ID token.
func (s *store) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, t op.IDTokenRequest, scopes []string) error {
	r, ok := t.(request)
	if !ok {
		return errNotOffered
	}
	describe(info, r.grant.account.Account, scopes)
	info.AppendClaims("sid", r.grant.sid)
	return nil
}

// SetUserinfoFromToken fills the answer of the userinfo endpoint.
func (s *store) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, id, subject, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	if !ok || t.subject != subject || time.Now().After(t.expires) {
		return errGone
	}
	describe(info, s.state.find(subject).Account, t.scopes)
	return nil
}

func describe(info *oidc.UserInfo, a Account, scopes []string) {
	info.Subject = a.Subject
	if slices.Contains(scopes, oidc.ScopeProfile) {
		info.Name, info.PreferredUsername = a.Name, a.Username
	}
	if slices.Contains(scopes, oidc.ScopeEmail) {
		info.Email, info.EmailVerified = a.Email, true
	}
}
