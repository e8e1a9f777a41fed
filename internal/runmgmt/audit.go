package runmgmt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
)

// target is what an attempt was about, for its audit row.
type target struct {
	who      Who
	project  string
	run      uuid.UUID
	trigger  string
	batch    uuid.UUID
	version  int64
	mutation uuid.UUID
	words    string
}

const auditTimeout = 2 * time.Second

// refused turns an error of an attempt into the answer, and leaves the denied row of a refusal behind: exactly one, in
// a transaction of its own, since the attempt's is rolled back. Without that row the answer is [ErrUnavailable].
func (m *Manager) refused(ctx context.Context, action policy.Permission, t target, err error) error {
	refusal, ok := errors.AsType[*Refusal](err)
	switch {
	case !ok && errors.Is(err, pg.ErrOutcomeUnknown):
		m.Log.WarnContext(ctx, "outcome of a mutation unknown", "action", action, "mutation", t.mutation, "err", err)
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case !ok && errors.Is(err, context.Canceled): // whoever sent the form has left before its COMMIT was sent
		m.Log.InfoContext(ctx, "mutation given up by its sender", "action", action, "mutation", t.mutation, "err", err)
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !ok:
		m.Log.ErrorContext(ctx, "mutation failed", "action", action, "mutation", t.mutation, "err", err)
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m.Metrics.refusals.WithLabelValues(string(action), string(refusal.Reason)).Inc()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := m.auditDenied(ctx, action, t, refusal); err != nil {
		m.Log.ErrorContext(ctx, "refusal not audited", "action", action, "mutation", t.mutation, "err", err)
		return fmt.Errorf("%w: the refusal could not be recorded", ErrUnavailable)
	}
	return refusal
}

// auditDenied writes the row of a refusal; of a batch whose Runs were refused, one of each of those.
func (m *Manager) auditDenied(ctx context.Context, action policy.Permission, t target, r *Refusal) error {
	if len(r.Runs) == 0 {
		return policy.WriteAudit(ctx, m.Pool, denied(action, t, r))
	}
	return pg.InTx(ctx, m.Pool, func(tx pgx.Tx) error {
		for _, one := range r.Runs {
			of := t
			of.run, of.mutation = one.Run, one.Mutation
			if one.Refusal.Source != nil {
				of.version = one.Refusal.Source.Version
			}
			if err := policy.WriteAudit(ctx, tx, denied(action, of, one.Refusal)); err != nil {
				return err
			}
		}
		return nil
	})
}

func denied(action policy.Permission, t target, r *Refusal) policy.AuditEvent {
	e := t.event(action, policy.Denied)
	e.Reason = policy.Reason(r.Reason)
	e.Detail["found"] = r.Detail.String()
	if r.Proof != "" {
		e.Detail["proof"] = r.Proof
	}
	return e
}

func allowed(action policy.Permission, t target, f fence, p policy.Proof) policy.AuditEvent {
	e := t.event(action, policy.Allowed)
	e.ProjectVersion, e.Role, e.BindingVersion = f.projectVersion, f.role, f.bindingVersion
	a := p.Assurance
	e.Strength, e.ACR, e.AMR, e.AuthTimeS, e.SecondFactor = a.Level, a.ACR, a.AMR, a.AuthTimeS, a.SecondFactor
	return e
}

func (t target) event(action policy.Permission, outcome policy.Outcome) policy.AuditEvent {
	e := policy.AuditEvent{Action: string(action), Outcome: outcome, Actor: t.who.Actor, ProjectID: t.project, RunVersion: t.version,
		Words: shorten(t.words), Detail: map[string]any{}}
	if t.trigger != "" {
		e.Detail["trigger"] = t.trigger
	}
	if t.batch != uuid.Nil {
		e.Detail["batch"] = t.batch
	}
	e.RunID, e.MutationID, e.ProofID = present(t.run), present(t.mutation), present(t.who.ProofID)
	return e
}

func present(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// shorten keeps what the audit has room for of a reason that may itself be what was refused.
func shorten(words string) string {
	if runes := []rune(words); len(runes) > MaxWords {
		return string(runes[:MaxWords-1]) + "…"
	}
	return words
}
