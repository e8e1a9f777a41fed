package oidc

import (
	"cmp"
	"slices"
	"strings"
)

// An Identity is a person as somebody who was believed names them.
type Identity struct {
	Origin        Origin
	Issuer        string // an OpenID issuer, a proxy's JWT's iss, or proxy:<name>
	Subject       string
	Name          string // for people; may be ""
	Email         string // may be ""
	EmailVerified bool   // the issuer says so
	JoinKey       string // the configured claim by which a step-up at another issuer is joined; may be ""
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
	i.Name = displayed(cmp.Or(name, preferred), maxName)
	email, _ := c.text("email")
	i.Email = address(email)
	i.EmailVerified = i.Email != "" && c.isTrue("email_verified")
	return i
}

// joinKey is the value of the claim that joins one issuer's user to another's, and "" when it cannot be believed. An
// address counts only if its issuer has verified it, and is compared whole: ASCII, one @.
func (c claims) joinKey(name string) string {
	if name == "" {
		return ""
	}
	value, ok := c.identifier(name)
	if !ok {
		return ""
	}
	if strings.Contains(name, "email") && (!c.isTrue("email_verified") || address(value) != value || !isASCII(value)) {
		return ""
	}
	return value
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 })
}

// namesWith adds a join claim to the names that are read, and so held to their exact spelling.
func namesWith(join string) []string {
	if join == "" {
		return claimNames
	}
	return append(slices.Clone(claimNames), join)
}

// address is an e-mail address, or "" for what is none.
func address(s string) string {
	if len(s) > maxEmail || displayed(s, maxEmail) != s || strings.Count(s, "@") != 1 {
		return ""
	}
	return s
}
