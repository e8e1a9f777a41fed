package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// User is a person, known by issuer and subject. Everything else is what the issuer last said of him. Times are UTC
// milliseconds.
type User struct {
	ID            uuid.UUID `json:"id"`
	Issuer        string    `json:"issuer"`
	Subject       string    `json:"subject"`
	Name          string    `json:"name,omitempty"`
	Email         string    `json:"email,omitempty"`
	EmailVerified bool      `json:"emailVerified"`
	Active        bool      `json:"active"`
	CreatedAtMS   int64     `json:"createdAtMs"`
	SignedInAtMS  int64     `json:"signedInAtMs,omitempty"` // 0 is never
}

// userColumns are what [User] holds, from u.
const userColumns = `u.id, u.issuer, u.subject, coalesce(u.name, ''), coalesce(u.email, ''), u.email_verified, u.status = 'active',
    u.created_at_ms, coalesce(u.signed_in_at_ms, 0)`

// ambiguous is how many Users a message names when an address has more than one.
const ambiguous = 5

// FindUser finds the one User that ref names: by id, by issuer and subject with a space between, or by an e-mail address
// that exactly one User has and has verified. Addresses are compared whole; an unverified one is nobody's. Otherwise the
// error is a [Mistake].
func FindUser(ctx context.Context, q pg.Querier, ref string) (_ User, err error) {
	defer pg.Wrap(&err, "policy.FindUser(%q)", ref)
	r, err := parseReference(ref)
	if err != nil {
		return User{}, err
	}
	where, args := r.condition()
	rows, err := q.Query(ctx, fmt.Sprintf(`SELECT %s FROM users u WHERE %s ORDER BY u.id LIMIT %d`, userColumns, where, ambiguous), args...)
	if err != nil {
		return User{}, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[User])
	switch {
	case err != nil:
		return User{}, err
	case len(found) == 0:
		return User{}, r.missing()
	case len(found) > 1:
		return User{}, r.several(found)
	}
	return found[0], nil
}

// reference is one of the three ways to name a User.
type reference struct {
	id              uuid.UUID
	issuer, subject string
	email           string
}

func parseReference(ref string) (reference, error) {
	if id, err := uuid.Parse(ref); err == nil && id != uuid.Nil && len(ref) == len(id.String()) {
		return reference{id: id}, nil
	}
	if issuer, subject, ok := strings.Cut(ref, " "); ok && issuer != "" && subject != "" {
		return reference{issuer: issuer, subject: subject}, nil
	}
	if isAddress(ref) {
		return reference{email: ref}, nil
	}
	return reference{}, Mistake(fmt.Sprintf("%q names no user: write the user's id, or issuer and subject with one space between, "+
		"or an e-mail address of ASCII letters with one @", ref))
}

// isAddress reports whether s can be compared as an e-mail address. What is not ASCII has look-alikes.
func isAddress(s string) bool {
	local, domain, _ := strings.Cut(s, "@")
	outside := func(c rune) bool { return c <= ' ' || c > '~' }
	return local != "" && domain != "" && !strings.Contains(domain, "@") && !strings.ContainsFunc(s, outside)
}

func (r reference) condition() (string, []any) {
	switch {
	case r.email != "":
		return `u.email = $1 AND u.email_verified`, []any{r.email}
	case r.issuer != "":
		return `u.issuer = $1 AND u.subject = $2`, []any{r.issuer, r.subject}
	}
	return `u.id = $1`, []any{r.id}
}

func (r reference) missing() Mistake {
	switch {
	case r.email != "":
		return Mistake(fmt.Sprintf("no user has %q as a verified address: name the user by id, or by issuer and subject; "+
			"somebody who has never signed in must do so first", r.email))
	case r.issuer != "":
		return Mistake(fmt.Sprintf("issuer %q has no user with subject %q here: both are compared exactly, a trailing slash counts; "+
			"somebody who has never signed in must do so first", r.issuer, r.subject))
	}
	return Mistake(fmt.Sprintf("no user has the id %s: somebody who has never signed in must do so first", r.id))
}

func (r reference) several(found []User) Mistake {
	var names []string
	for _, u := range found {
		names = append(names, fmt.Sprintf("%s (issuer %q, subject %q)", u.ID, u.Issuer, u.Subject))
	}
	return Mistake(fmt.Sprintf("more than one user has %q as a verified address; name one by id: %s", r.email, strings.Join(names, ", ")))
}
