package idp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/crypto"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const logoutTokenLifetime = 2 * time.Minute

// endSession is OpenID Connect RP-Initiated Logout 1.0.
func (p *Provider) endSession(w http.ResponseWriter, r *http.Request) {
	ctx := context.WithValue(r.Context(), visitKey{}, visit{cookie: p.cookie(r)})
	op.EndSession(w, r.WithContext(ctx), p.lib)
}

// TerminateSessionFromRequest ends the session that the ID token hint names or, without a hint, the browser's.
func (s *store) TerminateSessionFromRequest(ctx context.Context, asked *op.EndSessionRequest) (string, error) {
	cookie := visitOf(ctx).cookie
	if hint := asked.IDTokenHintClaims; hint != nil {
		s.mu.Lock()
		cookie, _ = s.sessionBySID(hint.SessionID)
		s.mu.Unlock()
	}
	s.end(ctx, cookie)
	return asked.RedirectURI, nil
}

// end ends the session of that cookie, if there is one, and returns when its clients know.
func (s *store) end(ctx context.Context, cookie string) {
	s.mu.Lock()
	ended, ok := s.sessions[cookie]
	delete(s.sessions, cookie)
	s.mu.Unlock()
	if ok {
		s.tell(ctx, ended)
	}
}

// tell sends a logout token to every client that took part in the session. One that cannot be reached is logged; it
// will notice when the person's next token does not come.
func (p *Provider) tell(ctx context.Context, ended *session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutPatience)
	defer cancel()
	var all sync.WaitGroup
	for id := range ended.clients {
		to := p.store.clients[id]
		if to.BackChannelURI == "" {
			continue
		}
		all.Go(func() {
			if err := p.deliver(ctx, to, ended.grant); err != nil {
				p.log.WarnContext(ctx, "back-channel logout failed", "client", id, "err", err)
			}
		})
	}
	all.Wait()
}

// deliver is one request of OpenID Connect Back-Channel Logout 1.0.
func (p *Provider) deliver(ctx context.Context, to client, ended grant) error {
	token, err := p.logoutToken(to.ID, ended)
	if err != nil {
		return err
	}
	body := url.Values{"logout_token": {token}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.BackChannelURI, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", to.BackChannelURI, answer.Status)
	}
	return nil
}

func (p *Provider) logoutToken(audience string, ended grant) (string, error) {
	key := jose.JSONWebKey{Key: p.store.key, KeyID: p.store.keyID}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("logout+jwt"))
	if err != nil {
		return "", err
	}
	return crypto.Sign(oidc.NewLogoutTokenClaims(p.issuer.String(), ended.account.Subject, oidc.Audience{audience},
		time.Now().Add(logoutTokenLifetime), rand.Text(), ended.sid, 0), signer)
}

// signOut is the button on the account page.
func (p *Provider) signOut(w http.ResponseWriter, r *http.Request) {
	p.store.end(r.Context(), p.cookie(r))
	http.Redirect(w, r, "/signed-out", http.StatusSeeOther)
}

func (p *Provider) signedOut(w http.ResponseWriter, _ *http.Request) {
	p.show(w, http.StatusOK, page{Title: "Signed out", Name: "note",
		Text: "You are signed out here, and the applications that you had signed in to were sent word."})
}
