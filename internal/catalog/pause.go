package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// The errors that a Schedule is not as the caller assumes.
var (
	ErrNoTrigger = errors.New("no such trigger")
	ErrPaused    = errors.New("the trigger is paused")
	ErrNotPaused = errors.New("the trigger is not held by this pause")
)

// Pause is one time in which a Trigger is held back: nothing of it is claimed, and a claim that was held commits nothing.
// It is no revision, and survives every publication.
type Pause struct {
	ID        uuid.UUID  `json:"id"`
	By        uuid.UUID  `json:"userId"`
	ByName    string     `json:"by"`
	Reason    string     `json:"reason"`
	AtMS      int64      `json:"pausedAtMs"`
	ResumedBy *string    `json:"resumedBy"` // a name; nil while it lasts
	ResumedMS *int64     `json:"resumedAtMs"`
	CaughtUp  *bool      `json:"caughtUp"` // one Run was made due for all that was missed
	resumedBy *uuid.UUID // whose name that is
}

// Resumer returns who ended the pause, or uuid.Nil while it lasts.
func (p Pause) Resumer() uuid.UUID {
	if p.resumedBy == nil {
		return uuid.Nil
	}
	return *p.resumedBy
}

const pausesSQL = `
SELECT p.id, p.paused_by, coalesce(u.name, u.email, u.subject), p.reason, p.paused_at_ms, coalesce(r.name, r.email, r.subject), p.resumed_at_ms,
    p.caught_up, p.resumed_by
FROM trigger_pauses p JOIN users u ON u.id = p.paused_by LEFT JOIN users r ON r.id = p.resumed_by
WHERE p.project_id = $1 AND p.trigger_id = $2`

func scanPause(row pgx.CollectableRow) (p Pause, err error) {
	return p, row.Scan(&p.ID, &p.By, &p.ByName, &p.Reason, &p.AtMS, &p.ResumedBy, &p.ResumedMS, &p.CaughtUp, &p.resumedBy)
}

// maxPauses bounds [Pauses].
const maxPauses = 100

// Pauses returns the times in which the Trigger was held back, the newest first, at most 100.
func Pauses(ctx context.Context, q pg.Querier, project, trigger string) (_ []Pause, err error) {
	defer pg.Wrap(&err, "catalog.Pauses(%s, %s)", project, trigger)
	rows, err := q.Query(ctx, pausesSQL+` ORDER BY p.paused_at_ms DESC, p.id LIMIT $3`, project, trigger, maxPauses)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanPause)
}

// CurrentPause returns the pause that holds the Trigger back now, or [ErrNotPaused].
func CurrentPause(ctx context.Context, q pg.Querier, project, trigger string) (_ Pause, err error) {
	defer pg.Wrap(&err, "catalog.CurrentPause(%s, %s)", project, trigger)
	return onePause(ctx, q, pausesSQL+` AND p.resumed_at_ms IS NULL`, project, trigger)
}

// FindPause returns a pause of the Trigger by its id, or [ErrNotPaused].
func FindPause(ctx context.Context, q pg.Querier, project, trigger string, id uuid.UUID) (_ Pause, err error) {
	defer pg.Wrap(&err, "catalog.FindPause(%s)", id)
	return onePause(ctx, q, pausesSQL+` AND p.id = $3`, project, trigger, id)
}

func onePause(ctx context.Context, q pg.Querier, sql string, args ...any) (Pause, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Pause{}, err
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPause)
	if errors.Is(err, pgx.ErrNoRows) {
		return Pause{}, ErrNotPaused
	}
	return p, err
}

// Missed is what a paused Schedule was expected to fire and did not, up to the reading.
type Missed struct {
	FirstMS int64 `json:"firstAtMs"`
	LastMS  int64 `json:"lastAtMs"` // the one that catching up makes a Run of
	Count   int   `json:"count"`
	AtLeast bool  `json:"atLeast"` // Count is where counting stopped
	prevMS  int64 // the one before the last; 0 if there is none
}

// Hold is a Schedule as whoever wants to pause or resume it needs it.
type Hold struct {
	Pause        *uuid.UUID // the pause that lasts; nil if there is none
	Reason       string     // its reason
	Missed       Missed     // by the revision in force; what earlier ones missed is on record
	StateVersion int64
	NowMS        int64
}

// ReadHold reads the Schedule of a Trigger and what its pause has missed so far. It computes cron, so it comes before any lock.
func ReadHold(ctx context.Context, q pg.Querier, project, trigger string) (h Hold, err error) {
	defer pg.Wrap(&err, "catalog.ReadHold(%s, %s)", project, trigger)
	var head triggerHead
	var expected bool
	err = q.QueryRow(ctx, `
		SELECT s.pause_id, coalesce(p.reason, ''), s.state_version, s.trigger_revision, s.base_at_ms, s.next_fire_at_ms, tr.content,
			project.status = 'active' AND tr.enabled AND task.enabled, `+pg.ClockMS+`
		FROM trigger_schedules s JOIN projects project ON project.id = s.project_id
		JOIN trigger_revisions tr ON tr.project_id = s.project_id AND tr.trigger_id = s.trigger_id AND tr.revision = s.trigger_revision
		JOIN task_definition_revisions task ON task.project_id = tr.project_id AND task.task_id = tr.task_id AND task.revision = tr.task_revision
		LEFT JOIN trigger_pauses p ON p.id = s.pause_id
		WHERE s.project_id = $1 AND s.trigger_id = $2`, project, trigger).
		Scan(&h.Pause, &h.Reason, &h.StateVersion, &head.revision, &head.schedule.baseAtMS, &head.schedule.cursorMS, &head.content, &expected, &h.NowMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return Hold{}, ErrNoTrigger
	}
	if err == nil && h.Pause != nil && expected {
		h.Missed = passOver(head, h.NowMS).missed(head)
	}
	return h, err
}

// missed is p as a resumption needs it: with the instant before the last.
func (p passedOver) missed(head triggerHead) Missed {
	m := Missed{FirstMS: p.firstMS, LastMS: p.lastMS, Count: p.count, AtLeast: p.atLeast}
	if p.count < 2 {
		return m
	}
	if _, schedule, err := ParseSchedule(head.content); err == nil {
		prev, _ := schedule.Last(time.UnixMilli(p.firstMS-1), time.UnixMilli(p.lastMS-1))
		m.prevMS = prev.UnixMilli()
	}
	return m
}

// PauseSchedule holds the Trigger back from now on and returns when that is, as role ql3_run_manager. A claim that is held
// is gone. One that is paused already is [ErrPaused].
func PauseSchedule(ctx context.Context, tx pgx.Tx, project, trigger string, id, user uuid.UUID, reason string) (atMS int64, err error) {
	defer pg.Wrap(&err, "catalog.PauseSchedule(%s, %s)", project, trigger)
	var at *int64
	err = tx.QueryRow(ctx, `SELECT pause_schedule($1, $2, $3, $4, $5)`, project, trigger, id, user, reason).Scan(&at)
	return orElse(at, err, ErrPaused)
}

// ResumeSchedule lets the Trigger go on as of the reading h, which it must still be like: from then on, or with the last
// instant that was missed made due, to stand for all of them. It records what became of the others.
func ResumeSchedule(ctx context.Context, tx pgx.Tx, project, trigger string, h Hold, user uuid.UUID, catchUp bool) (atMS int64, err error) {
	defer pg.Wrap(&err, "catalog.ResumeSchedule(%s, %s)", project, trigger)
	m, base := h.Missed, h.NowMS
	var cursor, at *int64
	if catchUp && m.Count > 0 {
		last := m.LastMS
		cursor, base = &last, last-1
		m.LastMS, m.Count = m.prevMS, m.Count-1
	}
	err = tx.QueryRow(ctx, `SELECT resume_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`, project, trigger, h.Pause, user,
		h.StateVersion, m.FirstMS, m.LastMS, m.Count, m.AtLeast, PausedWords(h.Reason, ""), base, cursor).Scan(&at)
	return orElse(at, err, ErrNotPaused)
}

// orElse is when it was done, or why not: the functions answer NULL when the Schedule is not as assumed.
func orElse(at *int64, err, not error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if at == nil {
		return 0, not
	}
	return *at, nil
}

// PausedWords are what the account says of an instant that a pause held back, within its bound.
func PausedWords(reason, also string) string {
	words := "paused: " + reason
	if also != "" {
		words = also + " while it was " + words
	}
	if runes := []rune(words); len(runes) > maxWords {
		return string(runes[:maxWords-1]) + "…"
	}
	return words
}

// maxWords is how much the account keeps of a reason.
const maxWords = 500
