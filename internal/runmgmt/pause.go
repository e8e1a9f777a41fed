package runmgmt

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

// actionResume names a resumption in the audit. Whoever may pause may resume.
const actionResume policy.Permission = "trigger.resume"

// Pause is the submitted form that holds a Trigger back. It repeats nothing, so it needs no step-up.
type Pause struct {
	Who       Who
	ID        uuid.UUID // of the pause, issued by the console with the form
	ProjectID string
	TriggerID string
	Words     string // the reason, on every page that shows the Schedule
}

// Resume is the submitted form that lets it go on.
type Resume struct {
	Who       Who
	PauseID   uuid.UUID // the pause that the page showed
	ProjectID string
	TriggerID string
	CatchUp   bool   // one Run, for the last instant that was missed, stands for all of them; else from now on
	Words     string // may be empty
}

// Paused is what became of either form: the pause as it is now.
type Paused struct {
	Pause   catalog.Pause
	Already bool // it was so before, and nothing was written
}

// Pause holds the Trigger back from now on: what is claimed of it commits nothing, and nothing is claimed. A Trigger that
// is paused already is left as it is, with the pause that holds it. The error is a [*Refusal], [ErrUnavailable] or
// [ErrOutcomeUnknown]; the same form may be sent again.
func (m *Manager) Pause(ctx context.Context, p Pause) (Paused, error) {
	t := target{who: p.Who, project: p.ProjectID, trigger: p.TriggerID, mutation: p.ID, words: p.Words}
	return m.hold(ctx, policy.PauseTrigger, t, p.validate(), p.commit)
}

// Resume lets the Trigger go on, and puts on record what became of every instant that fell due meanwhile. A pause that has
// ended already is left as it is; one that another has replaced is [PauseChanged].
func (m *Manager) Resume(ctx context.Context, r Resume) (Paused, error) {
	t := target{who: r.Who, project: r.ProjectID, trigger: r.TriggerID, mutation: r.PauseID, words: r.Words}
	return m.hold(ctx, actionResume, t, r.validate(), r.commit)
}

// hold runs commit in its one transaction and gives the answer its audit row and its metric.
func (m *Manager) hold(ctx context.Context, action policy.Permission, t target, invalid error, commit func(context.Context, pgx.Tx, target) (Paused, error)) (Paused, error) {
	if invalid != nil {
		return Paused{}, m.refused(ctx, action, t, invalid)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var done Paused
	err := pg.InTx(ctx, m.Pool, func(tx pgx.Tx) (err error) {
		done, err = commit(ctx, tx, t)
		return err
	})
	if errors.Is(err, catalog.ErrNoTrigger) {
		err = refuse(NotFound, text.Of("There is no such Trigger."))
	}
	if err != nil {
		return Paused{}, m.refused(ctx, action, t, err)
	}
	m.Metrics.done.WithLabelValues(string(action), result(done.Already)).Inc()
	m.Hints.Changed()
	return done, nil
}

func (p Pause) validate() error {
	if p.ID == uuid.Nil || p.ProjectID == "" || p.TriggerID == "" {
		return refuse(Invalid, text.Of("The form is incomplete; open the Schedule and begin again."))
	}
	return checkWords(p.Words, text.Of("A reason is missing: say why the Trigger is paused."))
}

func (r Resume) validate() error {
	if r.PauseID == uuid.Nil || r.ProjectID == "" || r.TriggerID == "" {
		return refuse(Invalid, text.Of("The form is incomplete; open the Schedule and begin again."))
	}
	if r.Words == "" {
		return nil
	}
	return checkWords(r.Words, text.Of("A reason is missing: say why, or leave it empty."))
}

// checkWords refuses a reason that is missing or too long.
func checkWords(words string, ask text.Text) error {
	if strings.TrimSpace(words) == "" {
		return refuse(Invalid, ask)
	}
	if n := utf8.RuneCountInString(words); n > MaxWords {
		return refuse(Invalid, text.Of("The reason has %s characters, at most %s are kept.", n, MaxWords))
	}
	return nil
}

// commit is the pause's transaction. A form that was sent before is answered with its own pause, whatever became of that.
func (p Pause) commit(ctx context.Context, tx pgx.Tx, t target) (Paused, error) {
	f, err := takeFence(ctx, tx, p.ProjectID, p.Who.user(), policy.PauseTrigger)
	if err != nil {
		return Paused{}, err
	}
	before, err := catalog.FindPause(ctx, tx, p.ProjectID, p.TriggerID, p.ID)
	if !errors.Is(err, catalog.ErrNotPaused) {
		return Paused{Pause: before, Already: true}, err
	}
	current, err := catalog.ReadHold(ctx, tx, p.ProjectID, p.TriggerID)
	if err != nil {
		return Paused{}, err
	}
	if current.Pause != nil {
		now, err := catalog.FindPause(ctx, tx, p.ProjectID, p.TriggerID, *current.Pause)
		return Paused{Pause: now, Already: true}, err
	}
	if _, err := catalog.PauseSchedule(ctx, tx, p.ProjectID, p.TriggerID, p.ID, p.Who.user(), p.Words); err != nil {
		return Paused{}, err
	}
	if err := policy.WriteAudit(ctx, tx, allowed(policy.PauseTrigger, t, f, policy.Proof{})); err != nil {
		return Paused{}, err
	}
	pause, err := catalog.FindPause(ctx, tx, p.ProjectID, p.TriggerID, p.ID)
	return Paused{Pause: pause}, err
}

// commit is the resumption's transaction. What the pause has missed is computed before any lock is taken; a Schedule that
// has changed since then fails with 40001, and all of it is done again.
func (r Resume) commit(ctx context.Context, tx pgx.Tx, t target) (Paused, error) {
	current, err := catalog.ReadHold(ctx, tx, r.ProjectID, r.TriggerID)
	if err != nil {
		return Paused{}, err
	}
	f, err := takeFence(ctx, tx, r.ProjectID, r.Who.user(), policy.PauseTrigger)
	if err != nil {
		return Paused{}, err
	}
	pause, err := catalog.FindPause(ctx, tx, r.ProjectID, r.TriggerID, r.PauseID)
	switch {
	case errors.Is(err, catalog.ErrNotPaused):
		return Paused{}, refuse(PauseChanged, text.Of("That pause is not one of this Trigger's."))
	case err != nil:
		return Paused{}, err
	case pause.ResumedMS != nil && current.Pause != nil:
		return Paused{}, refuse(PauseChanged, text.Of("That pause has ended, and another one holds the Trigger now."))
	case pause.ResumedMS != nil:
		return Paused{Pause: pause, Already: true}, nil
	}
	if _, err := catalog.ResumeSchedule(ctx, tx, r.ProjectID, r.TriggerID, current, r.Who.user(), r.CatchUp); err != nil {
		return Paused{}, err
	}
	event := allowed(actionResume, t, f, policy.Proof{})
	event.Detail["missed"], event.Detail["catch_up"] = current.Missed.Count, r.CatchUp
	if err := policy.WriteAudit(ctx, tx, event); err != nil {
		return Paused{}, err
	}
	pause, err = catalog.FindPause(ctx, tx, r.ProjectID, r.TriggerID, r.PauseID)
	return Paused{Pause: pause}, err
}
