package oidc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

// A Kind is the stable word for why something was refused. It is the reason in the audit.
type Kind string

// The kinds of refusal.
const (
	UnknownState        Kind = "unknown_state"        // no such transaction, or another browser's, or of another purpose
	AlreadyUsed         Kind = "already_used"         // the transaction was spent by an earlier callback
	Expired             Kind = "expired"              // the transaction is older than ten minutes
	Cancelled           Kind = "cancelled"            // the user declined at the provider
	ProviderError       Kind = "provider_error"       // the provider answered with an error
	ProviderUnavailable Kind = "provider_unavailable" // the provider cannot be worked with now
	WrongIssuer         Kind = "wrong_issuer"         // the answer's iss parameter names another issuer, or none
	BadToken            Kind = "bad_token"            // a token or an asserted identity that must not be believed
	WrongNonce          Kind = "wrong_nonce"          // an ID token that was not made for this transaction
	Disabled            Kind = "disabled"             // the user is disabled
	Replayed            Kind = "replayed"             // a logout token that was used before
	NoIdentity          Kind = "no_identity"          // behind a proxy, a request without the proxy's word
	AmbiguousIdentity   Kind = "ambiguous_identity"   // behind a proxy, a request with several
	SessionEnded        Kind = "session_ended"        // the session that began a step-up is not the one that is there now
	WrongSubject        Kind = "wrong_subject"        // somebody else signed in for a step-up
	TooWeak             Kind = "too_weak"             // no rule of the assurance table is met
	Unreadable          Kind = "unreadable_assurance" // acr, amr or acrs is not of the type it must have
	NoAuthTime          Kind = "no_auth_time"         // the token does not say when its user authenticated
	TooOld              Kind = "too_old"              // the authentication was not made for this
	NotNew              Kind = "not_new"              // the authentication was accepted before, for a sign-in or another proof
)

// next is what to do about each kind.
var next = map[Kind]text.Text{
	UnknownState:        text.Of("Start again from the sign-in page, in the browser you want to be signed in with."),
	AlreadyUsed:         text.Of("Go on to the console. If you are not signed in there, start again from the sign-in page."),
	Expired:             text.Of("Start again from the sign-in page; you have ten minutes."),
	Cancelled:           text.Of("Start again from the sign-in page when you want to sign in."),
	ProviderError:       text.Of("Start again from the sign-in page. If it happens again, tell your administrator the diagnostic id."),
	ProviderUnavailable: text.Of("Try again in a minute. Sessions that exist, and everything scheduled, go on meanwhile."),
	WrongIssuer:         text.Of("Start again from the sign-in page. If it happens again, tell your administrator the diagnostic id."),
	BadToken:            text.Of("Start again. If it happens again, tell your administrator the diagnostic id."),
	WrongNonce:          text.Of("Start again from the sign-in page."),
	Disabled:            text.Of("Ask an administrator to enable your account."),
	Replayed:            text.Of("Nothing needs to be done: the token was honoured the first time."),
	NoIdentity:          text.Of("Open the console through your organisation's sign-in proxy."),
	AmbiguousIdentity:   text.Of("Tell your administrator: the proxy must replace the identity header, not add to it."),
	SessionEnded:        text.Of("Sign in again, open the Run and begin again."),
	WrongSubject:        text.Of("Verify again, at the provider, as the person you are signed in as here."),
	TooWeak:             text.Of("Verify again with a second factor. If you did use one, tell your administrator what the provider sent; the step-up test page shows it."),
	Unreadable:          text.Of("Tell your administrator what the provider sent; the step-up test page shows it."),
	NoAuthTime:          text.Of("Tell your administrator: the provider must send auth_time in every ID token."),
	TooOld:              text.Of("Verify again, and enter your credentials anew when the provider asks."),
	NotNew:              text.Of("Verify again, and enter your credentials anew when the provider asks."),
}

// A Refusal says what was found and what to do next, in words that hold nothing of a token.
type Refusal struct {
	Kind       Kind
	Found      text.Text // a sentence
	Next       text.Text // a sentence
	Diagnostic string    // names the log line and the audit row
	Transient  bool      // the provider says that trying again may help
	Route      *Route    // where the user was going; nil when that is unknown, or not this browser's to know
	Words      string    // the reason given before a step-up, to be kept
	cause      error     // for the log alone
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Kind, r.Found) }

// refuse makes a refusal that is not yet audited.
func refuse(kind Kind, found text.Text) *Refusal {
	return &Refusal{Kind: kind, Found: found, Next: next[kind]}
}

func (r *Refusal) because(cause error) *Refusal { r.cause = cause; return r }

// denied audits and logs err when it is a refusal, gives it its diagnostic id, and returns it; or the error that kept the
// audit row from being written, for a refusal must not be silent.
func denied(ctx context.Context, q pg.Querier, log *slog.Logger, action string, actor policy.Actor, err error) error {
	return deniedWith(ctx, q, log, policy.AuditEvent{Action: action, Outcome: policy.Denied, Actor: actor}, err)
}

// deniedWith is denied with an audit row that says more than the actor.
func deniedWith(ctx context.Context, q pg.Querier, log *slog.Logger, event policy.AuditEvent, err error) error {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout) // also of a browser that has gone
	defer cancel()
	refusal.Diagnostic = diagnostic()
	if event.Detail == nil {
		event.Detail = map[string]any{}
	}
	event.Reason, event.Detail["diagnostic"], event.Detail["found"] = policy.Reason(refusal.Kind), refusal.Diagnostic, refusal.Found.String()
	if err := policy.WriteAudit(ctx, q, event); err != nil {
		return err
	}
	attrs := []any{"action", event.Action, "kind", refusal.Kind, "found", refusal.Found.String(), "diagnostic", refusal.Diagnostic, "request_id", event.Actor.RequestID}
	if refusal.cause != nil {
		attrs = append(attrs, "cause", shorten(refusal.cause.Error(), 300))
	}
	log.WarnContext(ctx, "refused", attrs...)
	return refusal
}

const auditTimeout = 5 * time.Second

func diagnostic() string {
	var b [5]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// shorten cuts s to at most n runes.
func shorten(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
