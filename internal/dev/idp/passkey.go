package idp

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

func newPasskeys(issuer *url.URL) (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{
		RPID: issuer.Hostname(), RPDisplayName: "QingLong development provider", RPOrigins: []string{issuer.String()},
		AuthenticatorSelection: protocol.AuthenticatorSelection{UserVerification: protocol.VerificationPreferred},
		AttestationPreference:  protocol.PreferNoAttestation,
	})
}

// holder is an account as the library asks about it: a copy, taken under the mutex.
type holder struct {
	Account
	passkeys []webauthn.Credential
}

func (h holder) WebAuthnID() []byte                         { return []byte(h.Subject) }
func (h holder) WebAuthnName() string                       { return h.Username }
func (h holder) WebAuthnDisplayName() string                { return h.Name }
func (h holder) WebAuthnCredentials() []webauthn.Credential { return h.passkeys }

func (a *account) holder() holder {
	return holder{a.Account, append([]webauthn.Credential(nil), a.Passkeys...)}
}

// passkeyOptions begins a ceremony: for the account whose password was given or, as the first factor, the one chosen.
func (p *Provider) passkeyOptions(w http.ResponseWriter, r *http.Request) {
	var options *protocol.CredentialAssertion
	_, err := p.store.change(r.FormValue("id"), func(asked *request) error {
		if !asked.done.Password {
			asked.account = p.store.state.find(r.FormValue("username"))
		}
		if p.passkeys == nil || asked.Done() || asked.account == nil || len(asked.account.Passkeys) == 0 {
			return mistake("This account has no passkey yet. Sign in with the password and add one on the account page.")
		}
		var err error
		options, asked.ceremony, err = p.passkeys.BeginLogin(asked.account.holder())
		return err
	})
	answerOptions(w, options, err)
}

// answerOptions is read by passkey.js.
func answerOptions(w http.ResponseWriter, options any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(options)
}

// passkey ends a ceremony. What counts is what the authenticator signed this time, not what it once could.
func (p *Provider) passkey(w http.ResponseWriter, r *http.Request) {
	answer, parseErr := protocol.ParseCredentialRequestResponseBytes([]byte(r.FormValue("credential")))
	asked, err := p.store.change(r.FormValue("id"), func(asked *request) error {
		ceremony := asked.ceremony
		asked.ceremony = nil // an answer counts once
		if asked.Done() || ceremony == nil || asked.account == nil || parseErr != nil {
			return mistake("The passkey's answer could not be read. Try again.")
		}
		used, err := p.passkeys.ValidateLogin(asked.account.holder(), *ceremony, answer)
		if err != nil {
			return mistake("The passkey's answer was not accepted. Try again.")
		}
		if used.Authenticator.CloneWarning {
			return mistake("Two devices seem to use this passkey. It was not accepted.")
		}
		flags := answer.Response.AuthenticatorData.Flags
		asked.done.Passkey, asked.done.Verified, asked.done.Bound = true, flags.HasUserVerified(), !flags.HasBackupEligible()
		if !asked.satisfied() && !asked.done.Password {
			asked.done = factors{}
			return mistake("This passkey did not verify that it is you. Give the password first, then the passkey.")
		}
		return p.store.keepPasskey(asked.account, *used)
	})
	p.after(w, r, asked, err)
}

// keepPasskey writes down a new passkey, or the present state of a known one. The caller holds the mutex.
func (s *store) keepPasskey(a *account, c webauthn.Credential) error {
	for i, known := range a.Passkeys {
		if string(known.ID) == string(c.ID) {
			a.Passkeys[i] = c
			return s.state.save()
		}
	}
	a.Passkeys = append(a.Passkeys, c)
	return s.state.save()
}
