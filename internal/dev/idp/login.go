package idp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	stepSeconds   = 30 // of a one-time code
	maxWrongCodes = 5  // guesses before the password is asked again
)

// A mistake is a sentence for the person at the form; nothing was proved.
type mistake string

func (m mistake) Error() string { return string(m) }

// showLogin is where the library sends a browser with a new request, and where a reload leads.
func (p *Provider) showLogin(w http.ResponseWriter, r *http.Request) {
	asked, err := p.store.request(r.FormValue("id"))
	p.goOn(w, r, asked, err)
}

// after answers a form by leading to the login page, which says what was wrong with it or goes on: a page of its own would
// ask to be sent again whenever it is reloaded.
func (p *Provider) after(w http.ResponseWriter, r *http.Request, asked request, err error) {
	var wrong mistake
	if err != nil && !errors.As(err, &wrong) {
		p.fail(w, r, err)
		return
	}
	asked, err = p.store.change(asked.id, func(asked *request) error {
		asked.wrong = string(wrong)
		return nil
	})
	if err != nil {
		p.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/login?id="+url.QueryEscape(asked.id), http.StatusSeeOther)
}

// goOn shows what is still to be proved or, when nothing is, ends the sign-in and sends the browser back.
func (p *Provider) goOn(w http.ResponseWriter, r *http.Request, asked request, err error) {
	switch {
	case err != nil:
		p.fail(w, r, err)
	case asked.Done():
		p.sendBack(w, r, asked)
	case asked.satisfied():
		p.finish(w, r, asked)
	default:
		p.showForm(w, asked)
	}
}

// finish makes the session and answers the request.
func (p *Provider) finish(w http.ResponseWriter, r *http.Request, asked request) {
	at, err := p.store.authenticatedAt(r.Context(), asked.account)
	if err != nil {
		return // the browser has left
	}
	cookie, err := p.store.signIn(asked, p.cookie(r), at)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.setCookie(w, cookie)
	p.sendBack(w, r, asked)
}

func (p *Provider) sendBack(w http.ResponseWriter, r *http.Request, asked request) {
	http.Redirect(w, r, "/authorize/callback?id="+url.QueryEscape(asked.id), http.StatusSeeOther)
}

// authenticatedAt returns the present second, or waits for the next one if this account has already signed in within
// it: two authentications must not have the same auth_time.
func (s *store) authenticatedAt(ctx context.Context, a *account) (time.Time, error) {
	for {
		now := time.Now()
		if s.claimSecond(a, now.Unix()) {
			return now.Truncate(time.Second), nil
		}
		select {
		case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

func (s *store) claimSecond(a *account, second int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second <= a.lastAuth {
		return false
	}
	a.lastAuth = second
	return true
}

// signIn grants the request what was proved for it and puts the browser's session in that state. The session keeps its
// sid while its person stays the same; the cookie is always a new one.
func (s *store) signIn(asked request, oldCookie string, at time.Time) (string, error) {
	cookie := rand.Text()
	_, err := s.change(asked.id, func(r *request) error {
		if r.Done() || !r.satisfied() || r.account != asked.account {
			return errGone // another tab answered it, or took it back
		}
		signedIn := &session{clients: map[string]bool{}, expires: time.Now().Add(sessionLifetime)}
		signedIn.grant = grant{account: r.account, done: r.done, at: at, sid: rand.Text()}
		if old, ok := s.sessions[oldCookie]; ok && old.grant.account == r.account {
			signedIn.grant.sid, signedIn.clients = old.grant.sid, old.clients
			delete(s.sessions, oldCookie)
		}
		s.sessions[cookie] = signedIn
		given := signedIn.grant
		r.grant = &given
		return nil
	})
	return cookie, err
}

// password checks the first factor. The account is who the form says, whatever the client hinted.
func (p *Provider) password(w http.ResponseWriter, r *http.Request) {
	asked, err := p.store.change(r.FormValue("id"), func(asked *request) error {
		if asked.Done() {
			return nil
		}
		a := p.store.state.find(r.FormValue("username"))
		if a == nil {
			return mistake("Choose an account.")
		}
		asked.account, asked.done = a, factors{}
		if subtle.ConstantTimeCompare([]byte(a.Password), []byte(strings.TrimSpace(r.FormValue("password")))) != 1 {
			return mistake("That is not the password of " + a.Username + ".")
		}
		asked.done.Password = true
		return nil
	})
	p.after(w, r, asked, err)
}

// code checks a one-time code as the second factor.
func (p *Provider) code(w http.ResponseWriter, r *http.Request) {
	asked, err := p.store.change(r.FormValue("id"), func(asked *request) error {
		if asked.Done() || !asked.done.Password {
			return nil
		}
		err := p.store.spendCode(asked.account, strings.Join(strings.Fields(r.FormValue("code")), ""), time.Now())
		if err == nil {
			asked.done.Code, asked.wrongCodes = true, 0
			return nil
		}
		if asked.wrongCodes++; asked.wrongCodes >= maxWrongCodes {
			asked.done, asked.wrongCodes = factors{}, 0
			return mistake("Too many wrong codes. Start again with the password.")
		}
		return err
	})
	p.after(w, r, asked, err)
}

// spendCode accepts the code of the present step or of its neighbours (RFC 6238), each once, and none older than one
// already accepted. The caller holds the mutex.
func (s *store) spendCode(a *account, code string, now time.Time) error {
	options := hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}
	step := uint64(now.Unix()) / stepSeconds
	for _, at := range []uint64{step, step - 1, step + 1} {
		if ok, err := hotp.ValidateCustom(code, at, a.TOTPSecret, options); err != nil || !ok {
			continue
		}
		if at <= a.LastStep {
			return mistake("This code was already used, or is older than one that was. Wait for the next one.")
		}
		a.LastStep = at
		return s.state.save()
	}
	return mistake("That is not the present code of " + a.Username + ". It changes every 30 seconds; is the clock right?")
}

// enough goes on with what was proved, if the client allows less than it wished.
func (p *Provider) enough(w http.ResponseWriter, r *http.Request) {
	asked, err := p.store.change(r.FormValue("id"), func(asked *request) error {
		if len(asked.demand.essential) == 0 {
			asked.demand.level = min(asked.demand.level, asked.done.level())
		}
		return nil
	})
	p.after(w, r, asked, err)
}

// other begins again with the choice of an account.
func (p *Provider) other(w http.ResponseWriter, r *http.Request) {
	asked, err := p.store.change(r.FormValue("id"), func(asked *request) error {
		asked.account, asked.done = nil, factors{}
		return nil
	})
	p.after(w, r, asked, err)
}

// cancel tells the client that the person does not want to.
func (p *Provider) cancel(w http.ResponseWriter, r *http.Request) {
	asked, err := p.store.request(r.FormValue("id"))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.store.DeleteAuthRequest(r.Context(), asked.id)
	op.AuthRequestError(w, r, asked, oidc.ErrAccessDenied(), p.lib)
}

// showForm shows the step that is due, with a sentence about what was wrong with the last attempt.
func (p *Provider) showForm(w http.ResponseWriter, asked request) {
	form := loginForm{ID: asked.id, Client: asked.in.ClientID, Wrong: asked.wrong, Passkeys: p.passkeys != nil,
		Code: asked.demand.level < hardware, MayStop: len(asked.demand.essential) == 0}
	chosen := asked.account
	if chosen == nil {
		chosen = asked.demand.hint
	}
	if chosen != nil {
		form.Username = chosen.Username
	}
	form.Accounts = p.Accounts()
	shown := page{Title: "Sign in", Name: "login", Login: form, Next: asked.in.RedirectURI}
	if asked.done.level() != nothing {
		shown.Title, shown.Name = "Second factor", "second"
	}
	p.show(w, http.StatusOK, shown)
}

// cookie returns the session's cookie of the browser, or nothing.
func (p *Provider) cookie(r *http.Request) string {
	c, err := r.Cookie(p.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

// cookieName carries the port: browsers do not keep the cookies of two ports apart.
func (p *Provider) cookieName() string { return "dev_idp_" + p.issuer.Port() }

func (p *Provider) setCookie(w http.ResponseWriter, value string) {
	http.SetCookie(w, &http.Cookie{Name: p.cookieName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
