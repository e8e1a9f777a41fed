package runmgmt

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// Stop is the submitted form that asks a Run to stop.
type Stop struct {
	Who        Who
	MutationID uuid.UUID
	ProjectID  string
	RunID      uuid.UUID
	Version    int64 // as the operator saw it
	Words      string
}

// cancelRequested is the payload of run.cancel_requested, and the identity of the mutation.
type cancelRequested struct {
	MutationID       uuid.UUID `json:"mutation_id"`
	UserID           uuid.UUID `json:"user_id"`
	Version          int64     `json:"version"`
	Reason           string    `json:"reason"`
	AuthenticationID uuid.UUID `json:"authentication_id"`
	AuditEventID     uuid.UUID `json:"audit_event_id"`
	ProjectVersion   int64     `json:"project_version"`
	BindingVersion   int64     `json:"binding_version"`
	Role             string    `json:"role"`
	BatchID          uuid.UUID `json:"batch_id,omitzero"`
}

// Stop records that the Run is to stop; whoever executes it obeys. It returns a [*Refusal], [ErrUnavailable] or
// [ErrOutcomeUnknown] when it does not. Sent again, the same mutation is answered as before.
func (m *Manager) Stop(ctx context.Context, s Stop) (Made, error) {
	return m.single(ctx, mutation{who: s.Who, deed: stopping, project: s.ProjectID, words: s.Words,
		items: []item{{mutation: s.MutationID, run: s.RunID, version: s.Version}}})
}

var stopping = deed{action: policy.StopRun, ask: text.Of("A reason is missing: say why the Run is asked to stop."),
	never: neverStopped, changed: changedForStop, find: findStopOf, write: writeStop}

// findStopOf answers with what the mutation recorded before, or with run.ErrNotFound.
func findStopOf(ctx context.Context, q pg.Querier, x mutation, i item) (Made, error) {
	c, atMS, err := findStop(ctx, q, x.project, i.mutation)
	if err != nil {
		return Made{}, err
	}
	if c.run != i.run || c.UserID != x.who.user() || c.Version != i.version || c.Reason != x.words {
		return Made{}, refuse(MutationConflict, text.Of("This form was sent before with other content."))
	}
	return Made{Source: i.run, RunID: i.run, AtMS: atMS, Replayed: true}, nil
}

type foundStop struct {
	cancelRequested
	run uuid.UUID
}

func findStop(ctx context.Context, q pg.Querier, project string, mutation uuid.UUID) (f foundStop, atMS int64, err error) {
	defer pg.Wrap(&err, "runmgmt.findStop(%s)", mutation)
	err = q.QueryRow(ctx, `SELECT r.id, e.payload, e.created_at_ms FROM run_events e JOIN runs r ON r.id = e.run_id
		WHERE r.project_id = $1 AND e.type = 'run.cancel_requested' AND e.payload ->> 'mutation_id' = $2`, project, mutation.String()).
		Scan(&f.run, &f.cancelRequested, &atMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, 0, run.ErrNotFound
	}
	return f, atMS, err
}

// neverStopped says why a Run cannot be asked to stop, or nil.
func neverStopped(s run.Source) *Refusal {
	if refusal := stoppableState(s.Status); refusal != nil {
		return refusal
	}
	switch {
	case s.CancelRequestedMS != nil:
		return refuse(NotStoppable, text.Of("The Run has been asked to stop already."))
	case s.ParentRunID != nil || s.ExecutionOwner != "runtime":
		return refuse(NotStoppable, text.Of("The Run belongs to another, which decides about it."))
	}
	return nil
}

func stoppableState(s run.Status) *Refusal {
	switch {
	case s.Terminal():
		return refuse(NotStoppable, text.Of("The Run has ended: it is %s.", s.Word()))
	case s == run.Lost:
		return refuse(NotStoppable, text.Of("The Run is lost: nobody is there who would hear it."))
	}
	return nil
}

// changedForStop compares what runs. A running Run changes by itself: what was verified is which Run, not which state of it.
func changedForStop(_ item, verified policy.Item, s run.Source) *Refusal {
	return unless(s.ExecutionDigest == verified.Digest, refuse(PlanChanged, text.Of("What runs is not what the verification was for.")))
}

func writeStop(ctx context.Context, tx pgx.Tx, x mutation, i item, g grant, s run.Source) (Made, error) {
	event := allowed(policy.StopRun, x.target(i), g.fence, g.proof)
	event.ID = run.NewID(g.atMS)
	event.RunVersion = s.Version
	payload := cancelRequested{MutationID: i.mutation, UserID: x.who.user(), Version: i.version, Reason: x.words, AuthenticationID: g.proof.ID,
		AuditEventID: event.ID, ProjectVersion: g.fence.projectVersion, BindingVersion: g.fence.bindingVersion, Role: string(g.fence.role), BatchID: x.batch}
	if err := run.RequestCancel(ctx, tx, s, x.who.user(), payload, g.atMS); err != nil {
		return Made{}, err
	}
	if err := policy.WriteAudit(ctx, tx, event); err != nil {
		return Made{}, err
	}
	return Made{Source: i.run, RunID: i.run, AtMS: g.atMS}, nil
}
