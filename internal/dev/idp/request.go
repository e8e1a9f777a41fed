package idp

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

const requestLifetime = 10 * time.Minute

// A request is one authorization request, from its arrival until its code is redeemed. Copies are handed out; the
// store keeps the one that counts. It is what the library calls an AuthRequest.
type request struct {
	id      string
	in      oidc.AuthRequest
	demand  demand
	expires time.Time

	// What the person at the browser has proved since it arrived.
	account    *account
	done       factors
	wrongCodes int
	wrong      string // with what was sent last
	ceremony   *webauthn.SessionData

	// What came of it.
	grant *grant
}

// A grant is an authentication that a client is told of.
type grant struct {
	account *account
	done    factors
	at      time.Time // whole seconds
	sid     string
}

func (r request) GetID() string                      { return r.id }
func (r request) GetAudience() []string              { return []string{r.in.ClientID} }
func (r request) GetClientID() string                { return r.in.ClientID }
func (r request) GetNonce() string                   { return r.in.Nonce }
func (r request) GetRedirectURI() string             { return r.in.RedirectURI }
func (r request) GetResponseType() oidc.ResponseType { return r.in.ResponseType }
func (r request) GetResponseMode() oidc.ResponseMode { return r.in.ResponseMode }
func (r request) GetScopes() []string                { return r.in.Scopes }
func (r request) GetState() string                   { return r.in.State }
func (r request) Done() bool                         { return r.grant != nil }
func (r request) GetAMR() []string                   { return r.grant.done.amr() }
func (r request) GetAuthTime() time.Time             { return r.grant.at }
func (r request) GetSubject() string                 { return r.grant.account.Subject }
func (r request) GetACR() string                     { return r.demand.acr(r.grant.done.level()) }
func (r request) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.in.CodeChallenge, Method: r.in.CodeChallengeMethod}
}

// satisfied reports whether what was proved is what is asked.
func (r request) satisfied() bool {
	return r.done.level() != nothing && r.done.level() >= r.demand.level
}

// A demand is what a client asks of the authentication.
type demand struct {
	level     level    // at least
	essential []string // acr values of which the client needs one; empty: the level is only a wish
	fresh     bool     // no earlier authentication will do
	silent    bool     // nothing may be asked
	maxAge    *time.Duration
	hint      *account // who it should be; nobody else is signed in silently
}

// demandOf reads what the parameters ask. claims is the parameter of that name, which the library does not read.
func demandOf(in *oidc.AuthRequest, claims string) (demand, error) {
	d := demand{fresh: slices.Contains(in.Prompt, oidc.PromptLogin) || slices.Contains(in.Prompt, oidc.PromptSelectAccount),
		silent: slices.Contains(in.Prompt, oidc.PromptNone)}
	if in.MaxAge != nil {
		age := time.Duration(min(*in.MaxAge, 1<<31)) * time.Second
		d.maxAge, d.fresh = &age, d.fresh || age == 0
	}
	acr, err := essentialACR(claims)
	if err != nil {
		return demand{}, err
	}
	d.essential = slices.DeleteFunc(acr, func(v string) bool { return levelOf(v) == nothing })
	if len(acr) > 0 && len(d.essential) == 0 {
		return demand{}, unmet("This provider has none of the essential acr values.")
	}
	d.level = lowest(in.ACRValues)
	if len(d.essential) > 0 {
		d.level = lowest(d.essential)
	}
	return d, nil
}

// lowest is the level that is enough to have one of the values, or nothing if none of them is known.
func lowest(acr []string) level {
	least := nothing
	for _, v := range acr {
		if l := levelOf(v); l != nothing && (least == nothing || l < least) {
			least = l
		}
	}
	return least
}

// essentialACR returns the acr values that the claims parameter makes essential for the ID token.
func essentialACR(claims string) ([]string, error) {
	if claims == "" {
		return nil, nil
	}
	var asked struct {
		IDToken struct {
			ACR *struct {
				Essential bool     `json:"essential"`
				Value     string   `json:"value"`
				Values    []string `json:"values"`
			} `json:"acr"`
		} `json:"id_token"`
	}
	if err := json.Unmarshal([]byte(claims), &asked); err != nil {
		return nil, oidc.ErrInvalidRequest().WithDescription("The claims parameter cannot be read.").WithParent(err)
	}
	acr := asked.IDToken.ACR
	if acr == nil || !acr.Essential {
		return nil, nil
	}
	if acr.Value != "" {
		return append(acr.Values, acr.Value), nil
	}
	return acr.Values, nil
}

// unmet is the refusal of OpenID Connect Core Error Code unmet_authentication_requirements 1.0.
func unmet(why string) *oidc.Error {
	return &oidc.Error{ErrorType: "unmet_authentication_requirements", Description: why}
}

// acr names the level that was reached: the strongest essential value that it covers, or else what it is.
func (d demand) acr(reached level) string {
	best := nothing
	for _, v := range d.essential {
		if l := levelOf(v); l <= reached && l > best {
			best = l
		}
	}
	if best == nothing {
		best = reached
	}
	return acrs[best]
}

// metBy reports whether an earlier authentication is enough, so that nobody needs to be asked.
func (d demand) metBy(g grant, now time.Time) bool {
	least := d.level
	if d.silent && len(d.essential) == 0 {
		least = nothing // a wish that nobody can be asked to fulfil
	}
	return !d.fresh && g.done.level() >= least &&
		(d.maxAge == nil || now.Sub(g.at) <= *d.maxAge) &&
		(d.hint == nil || d.hint == g.account)
}
