package catalog

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"
)

// A Domain keeps digests of one kind of content apart from all others: it is
// hashed, with a NUL after it, in front of the content.
type Domain string

// The domains of the three kinds of content. The database computes the same.
const (
	DomainTask      Domain = "qinglong.task-definition.v1"
	DomainTrigger   Domain = "qinglong.trigger-definition.v1"
	DomainExecution Domain = "qinglong.task-execution.v1"
)

// ErrDigest reports that stored content is not what its digest was made over:
// nothing may be decided from it.
var ErrDigest = errors.New("content does not match its digest")

// Digest returns SHA-256 over domain, a NUL and content, in lowercase hex.
func Digest(domain Domain, content string) string {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write([]byte{0})
	h.Write([]byte(content))
	return hex.EncodeToString(h.Sum(nil))
}

// Verify recomputes the digest over the stored bytes and returns [ErrDigest] if
// it differs. Every reader that decides something from content calls it first.
func Verify(domain Domain, content, digest string) error {
	if subtle.ConstantTimeCompare([]byte(Digest(domain, content)), []byte(digest)) != 1 {
		return fmt.Errorf("%s: %w", domain, ErrDigest)
	}
	return nil
}

// canonical returns v as JSON in the one form of RFC 8785.
func canonical(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	text, err = jcs.Transform(text)
	if err != nil {
		return "", fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	return string(text), nil
}

// decode reads content into v and refuses fields it does not know: a newer
// console wrote them, and they may mean that the rest must not be obeyed.
// A JSON error quotes its input, so it is not passed on.
func decode(content string, v any) error {
	decoder := json.NewDecoder(strings.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil || decoder.More() {
		return fmt.Errorf("content is no %T this version knows", v)
	}
	return nil
}
