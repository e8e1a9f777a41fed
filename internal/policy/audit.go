package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg"
)

// Outcome is what came of what was audited.
type Outcome string

// The outcomes.
const (
	Allowed Outcome = "allowed"
	Denied  Outcome = "denied"
)

// ActorType is what kind of actor did something.
type ActorType string

// The kinds of actor.
const (
	ByUser      ActorType = "user"      // needs UserID, Issuer and Subject
	ByCommand   ActorType = "command"   // somebody who holds a database role's password
	ByProvider  ActorType = "provider"  // an identity provider, by itself
	ByAnonymous ActorType = "anonymous" // nobody is signed in
)

// Actor is who did something, and from where. "" and nil are unknown.
type Actor struct {
	Type      ActorType  `json:"type"`
	UserID    *uuid.UUID `json:"userId,omitempty"`
	Issuer    string     `json:"issuer,omitempty"`
	Subject   string     `json:"subject,omitempty"`
	Name      string     `json:"name"` // for people; when "", what else tells the actor from others
	SessionID *uuid.UUID `json:"sessionId,omitempty"`
	Peer      string     `json:"peerAddress,omitempty"`    // of the socket
	Claimed   string     `json:"claimedAddress,omitempty"` // what a trusted proxy says the address is
	RequestID string     `json:"requestId,omitempty"`
}

// identity is the actor by what nobody can choose for himself.
func (a Actor) identity() string {
	if a.UserID != nil {
		return a.Issuer + " " + a.Subject
	}
	return a.Name
}

// AuditEvent is one thing that was allowed or denied: a field for each column. Zero values are unknown.
type AuditEvent struct {
	ID      uuid.UUID `json:"id"`     // made by WriteAudit when zero
	Action  string    `json:"action"` // such as run.retry
	Outcome Outcome   `json:"outcome"`
	Reason  Reason    `json:"reason,omitempty"` // needed when denied
	Actor   Actor     `json:"actor"`

	// Where, and the policy fence: by what the actor was allowed it.
	ProjectID      string `json:"projectId,omitempty"`
	ProjectVersion int64  `json:"projectVersion,omitempty"`
	Role           Role   `json:"role,omitempty"`
	BindingVersion int64  `json:"bindingVersion,omitempty"`

	// To what it was done.
	TargetUserID *uuid.UUID `json:"targetUserId,omitempty"`
	RunID        *uuid.UUID `json:"runId,omitempty"`
	RunVersion   int64      `json:"runVersion,omitempty"`
	MutationID   *uuid.UUID `json:"mutationId,omitempty"`

	Words string `json:"words,omitempty"` // why, in the person's own words, at most 500 characters

	// How strong the authentication was, and what the provider said of it.
	ProofID      *uuid.UUID `json:"proofId,omitempty"`
	Strength     string     `json:"strength,omitempty"` // single_factor, multi_factor or hardware
	ACR          string     `json:"acr,omitempty"`
	AMR          []string   `json:"amr,omitempty"`
	AuthTimeS    int64      `json:"authTimeS,omitempty"`    // Unix seconds
	SecondFactor string     `json:"secondFactor,omitempty"` // always or session

	Detail map[string]any `json:"detail,omitempty"` // becomes a JSON object; no secret, token or code
}

// auditColumns are the columns in the order of [AuditEvent.fields]; zero is the SQL value that stands for NULL, if any.
var auditColumns = []struct{ name, zero string }{
	{"action", ""}, {"outcome", ""}, {"reason", "''"},
	{"actor_type", ""}, {"user_id", ""}, {"issuer", "''"}, {"subject", "''"}, {"actor", ""}, {"session_id", ""},
	{"peer_address", "''"}, {"claimed_address", "''"}, {"request_id", "''"},
	{"project_id", "''"}, {"project_version", "0::bigint"}, {"role", "''"}, {"binding_version", "0::bigint"},
	{"target_user_id", ""}, {"run_id", ""}, {"run_version", "0::bigint"}, {"mutation_id", ""}, {"words", "''"},
	{"proof_id", ""}, {"strength", "''"}, {"acr", "''"}, {"amr", ""}, {"auth_time_s", "0::bigint"}, {"second_factor", "''"},
	{"detail", ""},
}

// fields are e's fields, to write from and to read into, in the order of [auditColumns].
func (e *AuditEvent) fields() []any {
	return []any{&e.Action, &e.Outcome, &e.Reason,
		&e.Actor.Type, &e.Actor.UserID, &e.Actor.Issuer, &e.Actor.Subject, &e.Actor.Name, &e.Actor.SessionID,
		&e.Actor.Peer, &e.Actor.Claimed, &e.Actor.RequestID,
		&e.ProjectID, &e.ProjectVersion, &e.Role, &e.BindingVersion,
		&e.TargetUserID, &e.RunID, &e.RunVersion, &e.MutationID, &e.Words,
		&e.ProofID, &e.Strength, &e.ACR, &e.AMR, &e.AuthTimeS, &e.SecondFactor,
		&e.Detail}
}

// insertAuditSQL takes the id, or NULL, and then the fields. A new id is a version 7 UUID of the very clock reading that
// the row holds: no replica's clock has a say in the order of the audit.
var insertAuditSQL = func() string {
	var names, values strings.Builder
	for i, c := range auditColumns {
		value := fmt.Sprintf("$%d", i+2)
		if c.zero != "" {
			value = fmt.Sprintf("NULLIF(%s, %s)", value, c.zero)
		}
		names.WriteString(", " + c.name)
		values.WriteString(", " + value)
	}
	return `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms)
INSERT INTO security_audit_events (id, created_at_ms` + names.String() + `)
SELECT coalesce($1::uuid, (lpad(to_hex(ms), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid), ms` +
		values.String() + ` FROM clock`
}()

// WriteAudit writes e, by the database clock. q is the transaction that decided; if this fails, so must that.
func WriteAudit(ctx context.Context, q pg.Querier, e AuditEvent) (err error) {
	defer pg.Wrap(&err, "policy.WriteAudit(%s)", e.Action)
	e.bound()
	_, err = q.Exec(ctx, insertAuditSQL, append([]any{orNull(e.ID)}, e.values()...)...)
	return err
}

// values are e's fields as arguments: pgx calls a method of what a pointer to a nil pointer points to.
func (e *AuditEvent) values() []any {
	values := e.fields()
	for i, v := range values {
		if id, ok := v.(**uuid.UUID); ok {
			values[i] = *id
		}
	}
	return values
}

// bound makes what others choose fit to be stored, so that nobody can keep an attempt out of the audit by its form.
func (e *AuditEvent) bound() {
	if e.Detail == nil {
		e.Detail = map[string]any{}
	}
	a := &e.Actor
	a.Name = cmp.Or(a.Name, a.identity(), string(a.Type))
	for _, s := range []*string{&a.Name, &a.Peer, &a.Claimed, &a.RequestID, &e.ACR} {
		*s = bounded(*s)
	}
	e.AMR = slices.Clone(e.AMR)
	for i := range e.AMR {
		e.AMR[i] = bounded(e.AMR[i])
	}
}

// maxText is how many characters the columns for free text hold.
const maxText = 500

// bounded cuts s, and replaces what PostgreSQL cannot store.
func bounded(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if utf8.RuneCountInString(s) <= maxText {
		return s
	}
	return string([]rune(s)[:maxText-1]) + "…"
}
