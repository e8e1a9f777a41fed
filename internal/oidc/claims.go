package oidc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/qinglong/console/internal/text"
)

// claimNames are the claims that this package or go-oidc reads.
var claimNames = []string{"iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "azp", "at_hash", "auth_time", "acr", "amr", "acrs",
	"sid", "email", "email_verified", "name", "preferred_username", "events", "jti", "_claim_names", "_claim_sources"}

// claims is a payload whose signature was verified, by exact name.
type claims map[string]json.RawMessage

// ambiguous says why a payload is not read.
type ambiguous struct{ text.Text }

func (a ambiguous) Error() string { return a.String() }

const maxSubject = 500 // characters; OpenID Connect allows 255

// decodeClaims reads one JSON object. A name that is read and is there twice, or there in another case, is refused: the
// decoder of go-oidc (and of many a provider's other client) would take the last of them, or take either.
func decodeClaims(payload []byte, names []string) (claims, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ambiguous{text.Of("the payload is not a JSON object")}
	}
	c := claims{}
	for d.More() {
		name, value, err := decodeMember(d)
		if err != nil {
			return nil, err
		}
		if err := c.add(name, value, names); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, ambiguous{text.Of("the payload is not whole")}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, ambiguous{text.Of("something follows the payload")}
	}
	return c, nil
}

func decodeMember(d *json.Decoder) (name string, value json.RawMessage, err error) {
	t, err := d.Token()
	name, ok := t.(string)
	if err != nil || !ok {
		return "", nil, ambiguous{text.Of("the payload is not a JSON object")}
	}
	if err := d.Decode(&value); err != nil {
		return "", nil, ambiguous{text.Of("the payload is not JSON")}
	}
	return name, value, nil
}

func (c claims) add(name string, value json.RawMessage, names []string) error {
	read := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	if read >= 0 && names[read] != name && !slices.Contains(names, name) {
		return ambiguous{text.Of("a claim's name differs from %s only in its letters' case", names[read])}
	}
	if _, there := c[name]; there && read >= 0 {
		return ambiguous{text.Of("the claim %s is there twice", names[read])}
	}
	c[name] = value
	return nil
}

// text is a claim that must be a JSON string; ok is false when it is missing or anything else.
func (c claims) text(name string) (s string, ok bool) {
	raw := c[name]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// isTrue reports whether a claim is the JSON value true; a string that says so is not.
func (c claims) isTrue(name string) bool { return string(c[name]) == "true" }

// audience is aud, which may be one string or several.
func (c claims) audience() []string {
	if one, ok := c.text("aud"); ok {
		return []string{one}
	}
	var several []string
	if json.Unmarshal(c["aud"], &several) != nil {
		return nil
	}
	return several
}

// instant is a NumericDate, which may have a fraction.
func (c claims) instant(name string) (time.Time, bool) {
	raw := c[name]
	if len(raw) == 0 || raw[0] == '"' {
		return time.Time{}, false
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || string(raw) == "null" || math.Abs(seconds) > 1<<40 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}

// authTime is auth_time, which must be a JSON integer in seconds; Unix seconds.
func (c claims) authTime() (s int64, ok bool) {
	raw := c["auth_time"]
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &s) != nil || s < 0 {
		return 0, false
	}
	return s, true
}

// identifier is a claim that names something: a non-empty string without control characters that the database can hold.
func (c claims) identifier(name string) (string, bool) {
	s, ok := c.text(name)
	return s, ok && isIdentifier(s)
}

func isIdentifier(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxSubject && !strings.ContainsFunc(s, unicode.IsControl)
}

// displayed is a text for people, without what could disturb a page's other text.
func displayed(s string, n int) string {
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(shorten(clean, n))
}
