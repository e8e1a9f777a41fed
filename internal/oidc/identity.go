package oidc

import "strings"

// An Identity is a person as somebody who was believed names them.
type Identity struct {
	Origin        Origin
	Issuer        string // an OpenID issuer, a proxy's JWT's iss, or proxy:<name>
	Subject       string
	Name          string // for people; may be ""
	Email         string // may be ""
	EmailVerified bool   // the issuer says so
}

const (
	maxName  = 200
	maxEmail = 320
)

// identity is whom c speaks of. The subject was checked.
func (c claims) identity(origin Origin, issuer string) Identity {
	i := Identity{Origin: origin, Issuer: issuer}
	i.Subject, _ = c.identifier("sub")
	name, _ := c.text("name")
	preferred, _ := c.text("preferred_username")
	i.Name = displayed(firstOf(name, preferred), maxName)
	email, _ := c.text("email")
	i.Email = address(email)
	i.EmailVerified = i.Email != "" && c.isTrue("email_verified")
	return i
}

// address is an e-mail address, or "" for what is none.
func address(s string) string {
	if len(s) > maxEmail || displayed(s, maxEmail) != s || strings.Count(s, "@") != 1 {
		return ""
	}
	return s
}
