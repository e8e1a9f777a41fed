package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A reference names a User in one way and no other, or is a Mistake.
func FuzzParseReference(f *testing.F) {
	for _, ref := range []string{"00000000-0000-7000-8000-00000000000a", "https://idp.example alice", uuid.Nil.String(), "a@b", "a@b@c", "а@b", " ", "x y z", "urn:uuid:00000000-0000-7000-8000-00000000000a"} {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		r, err := parseReference(ref)
		if err != nil {
			if _, ok := errors.AsType[Mistake](err); !ok || r != (reference{}) {
				t.Errorf("parseReference(%q) = %+v, %v, want a Mistake alone", ref, r, err)
			}
			return
		}
		switch {
		case r.id != uuid.Nil && r == reference{id: r.id}:
			if !strings.EqualFold(r.id.String(), ref) {
				t.Errorf("parseReference(%q) = %s", ref, r.id)
			}
		case r.email != "" && r == reference{email: r.email}:
			if r.email != ref || strings.Count(ref, "@") != 1 || strings.ContainsFunc(ref, func(c rune) bool { return c > 126 || c < 33 }) {
				t.Errorf("parseReference(%q) takes it for an address", ref)
			}
		case r.issuer != "" && r.subject != "":
			if r.issuer+" "+r.subject != ref || strings.Contains(r.issuer, " ") {
				t.Errorf("parseReference(%q) = %+v", ref, r)
			}
		default:
			t.Errorf("parseReference(%q) = %+v, want one way", ref, r)
		}
	})
}
