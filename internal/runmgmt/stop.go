package runmgmt

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
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
}

// Stop records that the Run is to stop; whoever executes it obeys. It returns a [*Refusal], [ErrUnavailable] or
// [ErrOutcomeUnknown] when it does not. Sent again, the same mutation is answered as before.
func (m *Manager) Stop(ctx context.Context, s Stop) (Made, error) {
	t := target{who: s.Who, project: s.ProjectID, run: s.RunID, version: s.Version, mutation: s.MutationID, words: s.Words}
	if err := s.validate(); err != nil {
		return Made{}, m.refused(ctx, policy.StopRun, t, err)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var made Made
	err := pg.WithAdvisoryLock(ctx, m.Pool, lockKey(s.ProjectID), lockPatience, func(b pg.Beginner) error {
		return pg.InTx(ctx, b, func(tx pgx.Tx) (err error) {
			made, err = s.commit(ctx, tx, t)
			return err
		})
	})
	if err != nil {
		return Made{}, m.refused(ctx, policy.StopRun, t, err)
	}
	m.Metrics.done.WithLabelValues(string(policy.StopRun), result(made.Replayed)).Inc()
	return made, nil
}

func (s Stop) validate() error {
	switch {
	case s.MutationID == uuid.Nil || s.RunID == uuid.Nil || s.ProjectID == "":
		return refuse(Invalid, "the form is incomplete; open the Run and begin again")
	}
	return checkWords(s.Words, "say why the Run is stopped")
}

func (s Stop) commit(ctx context.Context, tx pgx.Tx, t target) (Made, error) {
	f, err := takeFence(ctx, tx, s.ProjectID, s.Who.user(), policy.StopRun)
	if err != nil {
		return Made{}, err
	}
	if made, err := s.replay(ctx, tx); !errors.Is(err, run.ErrNotFound) {
		return made, err
	}
	proof, err := checkProof(ctx, tx, s.Who, policy.StopRun, s.ProjectID, s.RunID)
	if err != nil {
		return Made{}, err
	}
	if err := f.checkBound(proof); err != nil {
		return Made{}, err
	}
	source, err := run.LockSource(ctx, tx, s.ProjectID, s.RunID)
	if errors.Is(err, run.ErrNotFound) {
		return Made{}, refuse(NotFound, "there is no such Run")
	}
	if err != nil {
		return Made{}, err
	}
	if err := s.check(proof, source); err != nil {
		return Made{}, err
	}
	return s.write(ctx, tx, t, f, proof, source)
}

// replay answers with what the mutation recorded before, or with run.ErrNotFound.
func (s Stop) replay(ctx context.Context, tx pgx.Tx) (Made, error) {
	c, atMS, err := findStop(ctx, tx, s.ProjectID, s.MutationID)
	if err != nil {
		return Made{}, err
	}
	if c.run != s.RunID || c.UserID != s.Who.user() || c.Version != s.Version || c.Reason != s.Words {
		return Made{}, refuse(MutationConflict, "this form was sent before with other content")
	}
	return Made{RunID: s.RunID, AtMS: atMS, Replayed: true}, nil
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

// stoppable says why a Run cannot be asked to stop, or nil.
func stoppable(s run.Source) *Refusal {
	if refusal := stoppableState(s.Status); refusal != nil {
		return refusal
	}
	switch {
	case s.CancelRequestedMS != nil:
		return refuse(NotStoppable, "the Run has been asked to stop already")
	case s.ParentRunID != nil || s.ExecutionOwner != "runtime":
		return refuse(NotStoppable, "the Run belongs to another, which decides about it")
	}
	return nil
}

func stoppableState(s run.Status) *Refusal {
	switch {
	case s.Terminal():
		return refuse(NotStoppable, "the Run has ended: it is %s", s)
	case s == run.Lost:
		return refuse(NotStoppable, "the Run is lost: nobody is there who would hear it")
	}
	return nil
}

func (s Stop) check(proof policy.Proof, source run.Source) error {
	if refusal := stoppable(source); refusal != nil {
		return refusal.with(source)
	}
	item := mustItem(proof, s.RunID)
	// A running Run changes by itself: what was verified is which Run, not which state of it.
	if source.ExecutionDigest != item.Digest {
		return refuse(PlanChanged, "what runs is not what the verification was for").with(source)
	}
	return nil
}

func (s Stop) write(ctx context.Context, tx pgx.Tx, t target, f fence, proof policy.Proof, source run.Source) (Made, error) {
	ok, err := policy.ConsumeProof(ctx, tx, proof.ID, s.MutationID)
	if err != nil {
		return Made{}, err
	}
	if !ok {
		return Made{}, proofRefusal(policy.ProofExpired)
	}
	event := allowed(policy.StopRun, t, f, proof)
	event.ID = run.NewID(source.NowMS)
	event.RunVersion = source.Version
	payload := cancelRequested{MutationID: s.MutationID, UserID: s.Who.user(), Version: s.Version, Reason: s.Words, AuthenticationID: proof.ID,
		AuditEventID: event.ID, ProjectVersion: f.projectVersion, BindingVersion: f.bindingVersion, Role: string(f.role)}
	if err := run.RequestCancel(ctx, tx, source, s.Who.user(), payload, source.NowMS); err != nil {
		return Made{}, err
	}
	if err := policy.WriteAudit(ctx, tx, event); err != nil {
		return Made{}, err
	}
	return Made{RunID: s.RunID, AtMS: source.NowMS}, nil
}
