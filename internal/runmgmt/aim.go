package runmgmt

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// Aim is what a verification would be for. It tells nothing of what the Task executes but what its author says about
// running it again.
type Aim struct {
	Purpose policy.Purpose
	Note    catalog.RetryContent // of a retry
	Never   *Refusal             // why no verification would help; nil if one may
}

// Aim freezes the Run as it is now into the purpose of a step-up for action. It needs no proof, and writes nothing.
func (m *Manager) Aim(ctx context.Context, action policy.Permission, project string, id uuid.UUID) (Aim, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var a Aim
	err := pg.ReadTx(ctx, m.Pool, func(tx pgx.Tx) error {
		s, err := run.ReadSource(ctx, tx, project, id)
		if err != nil {
			return err
		}
		a = Aim{Never: never(action, s), Purpose: policy.Purpose{Action: action, ProjectID: project,
			Items: []policy.Item{{Run: id, Version: s.Version, Digest: s.ExecutionDigest}}}}
		if action != policy.RetryRun {
			return nil
		}
		head, err := catalog.ReadTask(ctx, tx, s.ProjectID, s.TaskID, s.TaskHead)
		a.Note = head.Retry
		return err
	})
	if err != nil && !errors.Is(err, run.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return a, err
}

func never(action policy.Permission, s run.Source) *Refusal {
	if action == policy.StopRun {
		return neverStopped(s)
	}
	if refusal := neverRetried(s); refusal != nil {
		return refusal
	}
	return unless(s.TaskEnabled, refuse(TaskDisabled, text.Of("The Task is disabled.")))
}

// StopPreview is what a stop would be, for whoever holds a good proof for it.
type StopPreview struct {
	Source  run.Source
	Words   string
	Level   string
	LeftMS  int64
	NowMS   int64
	Refusal *Refusal // why a submission now would be refused; nil if it would not
}

// PreviewStop is [Manager.Preview] of a stop.
func (m *Manager) PreviewStop(ctx context.Context, who Who, project string, id uuid.UUID) (StopPreview, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var p StopPreview
	err := pg.ReadTx(ctx, m.Pool, func(tx pgx.Tx) error {
		proof, err := checkProof(ctx, tx, who, who.claim(policy.StopRun, project, id))
		if err != nil {
			return err
		}
		p = StopPreview{Words: proof.Words, Level: proof.Assurance.Level, NowMS: proof.NowMS, LeftMS: proof.ExpiresAtMS - proof.NowMS}
		p.Source, err = run.ReadSource(ctx, tx, project, id)
		if errors.Is(err, run.ErrNotFound) {
			return refuse(NotFound, text.Of("There is no such Run."))
		}
		p.Refusal = neverStopped(p.Source)
		return err
	})
	if err != nil {
		return StopPreview{}, m.refused(ctx, policy.StopRun, target{who: who, project: project, run: id}, err)
	}
	return p, nil
}

// Submission is a mutation that happened.
type Submission struct {
	Action    policy.Permission
	ProjectID string
	RunID     uuid.UUID // the Run it made, or asked to stop
	Source    uuid.UUID // the Run it was about
	UserID    uuid.UUID
	AtMS      int64
}

// FindSubmission says what a mutation did in one of projects, or [run.ErrNotFound]. It needs no more than to read Runs.
func FindSubmission(ctx context.Context, q pg.Querier, projects []string, mutation uuid.UUID) (Submission, error) {
	for _, project := range projects {
		retry, err := run.FindRetry(ctx, q, project, mutation)
		if err == nil {
			return Submission{policy.RetryRun, project, retry.RunID, retry.Created.RetryOf, retry.Created.UserID, retry.AtMS}, nil
		}
		if !errors.Is(err, run.ErrNotFound) {
			return Submission{}, err
		}
		stop, atMS, err := findStop(ctx, q, project, mutation)
		if err == nil {
			return Submission{policy.StopRun, project, stop.run, stop.run, stop.UserID, atMS}, nil
		}
		if !errors.Is(err, run.ErrNotFound) {
			return Submission{}, err
		}
	}
	return Submission{}, run.ErrNotFound
}

// InState says why a Run in that state cannot be retried or stopped, or nil: what can be told without the rest of it.
func InState(action policy.Permission, s run.Status) *Refusal {
	if action == policy.StopRun {
		return stoppableState(s)
	}
	return retryableState(s)
}
