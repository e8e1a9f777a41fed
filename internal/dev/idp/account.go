package idp

import (
	"bytes"
	"encoding/base32"
	"image/png"
	"net/http"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

// signedIn returns the browser's session and whose it is, or nothing.
func (p *Provider) signedIn(r *http.Request) (*session, holder) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	v, ok := p.store.sessions[p.cookie(r)]
	if !ok || time.Now().After(v.expires) {
		return nil, holder{}
	}
	return v, v.grant.account.holder()
}

// showAccount is the provider's own page: the second factors of who is signed in, or who could be.
func (p *Provider) showAccount(w http.ResponseWriter, r *http.Request) {
	v, who := p.signedIn(r)
	if v == nil {
		p.show(w, http.StatusOK, page{Title: "Nobody is signed in", Name: "note",
			Text: "Sign in from the console. Then this page shows the second factors of your account."})
		return
	}
	p.show(w, http.StatusOK, page{Title: who.Name, Name: "account", Account: accountPage{
		Account: who.Account, Secret: who.TOTPSecret, Passkeys: len(who.passkeys), Name: p.passkeys != nil,
		At: v.grant.at.UTC().Format(time.RFC3339), AMR: v.grant.done.amr(), ACR: acrs[v.grant.done.level()]}})
}

// codeImage is the secret of the one-time code as a QR code.
func (p *Provider) codeImage(w http.ResponseWriter, r *http.Request) {
	v, who := p.signedIn(r)
	if v == nil {
		http.NotFound(w, r)
		return
	}
	image, err := qr(who.Account)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Write(image)
}

const qrPixels = 200

func qr(a Account) ([]byte, error) {
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(a.TOTPSecret)
	if err != nil {
		return nil, err
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: "QingLong dev", AccountName: a.Username, Secret: secret,
		Period: stepSeconds, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
	if err != nil {
		return nil, err
	}
	image, err := key.Image(qrPixels, qrPixels)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = png.Encode(&buf, image)
	return buf.Bytes(), err
}

// newPasskeyOptions begins to add a passkey to the account that is signed in.
func (p *Provider) newPasskeyOptions(w http.ResponseWriter, r *http.Request) {
	v, who := p.signedIn(r)
	if v == nil || p.passkeys == nil {
		answerOptions(w, nil, mistake("Sign in first, under the name localhost."))
		return
	}
	options, ceremony, err := p.passkeys.BeginRegistration(who)
	if err == nil {
		p.store.mu.Lock()
		v.ceremony = ceremony
		p.store.mu.Unlock()
	}
	answerOptions(w, options, err)
}

// newPasskey ends it.
func (p *Provider) newPasskey(w http.ResponseWriter, r *http.Request) {
	v, who := p.signedIn(r)
	answer, err := protocol.ParseCredentialCreationResponseBytes([]byte(r.FormValue("credential")))
	if v == nil || err != nil {
		p.fail(w, r, errGone)
		return
	}
	p.store.mu.Lock()
	ceremony := v.ceremony
	v.ceremony = nil
	p.store.mu.Unlock()
	if ceremony == nil {
		p.fail(w, r, errGone)
		return
	}
	made, err := p.passkeys.CreateCredential(who, *ceremony, answer)
	if err == nil {
		p.store.mu.Lock()
		err = p.store.keepPasskey(v.grant.account, *made)
		p.store.mu.Unlock()
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
