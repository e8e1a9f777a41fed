package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
)

// Verdict is what became of an instant at which a Schedule was expected to fire.
type Verdict string

// The verdicts. Unaccounted is the one that must never be seen.
const (
	WasAdmitted    Verdict = "admitted"
	WasSkipped     Verdict = "skipped"    // too late, by the misfire policy
	WasCoalesced   Verdict = "coalesced"  // passed over together with others: a backlog is not replayed
	WasSuperseded  Verdict = "superseded" // due when its revision was replaced, or its Project archived
	WasPaused      Verdict = "paused"     // held back by somebody, for a reason
	WasDisabled    Verdict = "disabled"
	WasArchived    Verdict = "archived"
	IsPending      Verdict = "pending"
	IsBlocked      Verdict = "blocked"
	WasUnaccounted Verdict = "unaccounted"
)

// The bounds of one account.
const (
	AccountHorizon  = 90 * 24 * time.Hour // how long the facts behind it are kept
	MaxInstants     = 2000
	maxRevisions    = 500
	maxAccountFacts = 5000
)

// Instant is one expected instant. Times are UTC milliseconds of the database clock.
type Instant struct {
	AtMS       int64      `json:"atMs"`
	Revision   int64      `json:"triggerRevision"` // in force at that instant
	Mark       string     `json:"daylightSaving,omitempty"`
	Verdict    Verdict    `json:"verdict"`
	Reason     string     `json:"reason,omitempty"`
	RunID      *uuid.UUID `json:"runId,omitempty"`
	RunStatus  string     `json:"runStatus,omitempty"`
	LatenessMS *int64     `json:"latenessMs,omitempty"`
	Unattended bool       `json:"unattended"`        // no replica was running then
	CatchUp    bool       `json:"catchUp,omitempty"` // its Run stands for all that a pause held back
}

// Spell is a time in which no replica was running.
type Spell struct {
	FromMS int64 `json:"fromMs"`
	ToMS   int64 `json:"toMs"`
}

// Account is what became of every instant a Schedule was expected to fire in a range, newest first.
type Account struct {
	FromMS    int64     `json:"fromMs"` // after
	ToMS      int64     `json:"toMs"`   // up to and including
	NowMS     int64     `json:"nowMs"`
	Instants  []Instant `json:"instants"`
	Truncated bool      `json:"truncated"` // there are older ones in the range
	Spells    []Spell   `json:"withoutReplica"`
}

// ReadAccount judges every instant after fromMS and up to toMS, no later than now and no earlier than the horizon, by
// the Trigger revision that was in force at that instant. The cursor is read before everything else: what lies behind
// it is already on record.
func ReadAccount(ctx context.Context, q pg.Querier, projects []string, project, trigger string, fromMS, toMS int64) (_ Account, err error) {
	defer pg.Wrap(&err, "scheduler.ReadAccount(%s, %s)", project, trigger)
	if !slices.Contains(projects, project) {
		return Account{}, ErrNotFound
	}
	f, err := readFacts(ctx, q, project, trigger, fromMS, toMS, MaxInstants)
	if err != nil {
		return Account{}, err
	}
	return f.account(), nil
}

// facts is everything an account is made from.
type facts struct {
	room                int
	fromMS, toMS, nowMS int64
	schedule            scheduleNow
	revisions           []revisionFact // newest first
	runs                map[int64]runFact
	events              []eventFact // skipped, coalesced, superseded, paused; in the order they were recorded
	turns               []turnFact  // archived and unarchived, oldest first
	catchUps            []int64     // when pauses ended with one Run for what they had held back
	spells              []Spell
}

type scheduleNow struct {
	baseMS, revision int64
	cursorMS         *int64
	blocked, owner   *string
	expiresMS        *int64
	pausedBy, paused *string // who holds it back now, and why
}

type revisionFact struct {
	revision, createdMS int64
	content             string
	taskEnabled         bool
}

type runFact struct {
	id         uuid.UUID
	status     string
	latenessMS int64
}

type eventFact struct {
	kind                      string
	revision, firstMS, lastMS int64
	latenessMS                *int64
	reason                    *string
}

type turnFact struct {
	archived bool
	atMS     int64
}

// account walks the revisions from the newest to the oldest, and in each the instants it expected while in force.
func (f facts) account() Account {
	a := Account{FromMS: f.fromMS, ToMS: f.toMS, NowMS: f.nowMS, Spells: f.spells, Instants: []Instant{}}
	until := f.toMS // a revision is in force after its creation and up to the creation of the next
	for _, r := range f.revisions {
		a.Truncated = f.within(&a.Instants, r, max(f.fromMS, r.createdMS), until)
		if until = min(until, r.createdMS); until <= f.fromMS || a.Truncated {
			break
		}
	}
	return a
}

// within appends the instants of r after from and up to until, and reports whether there was no room for all.
func (f facts) within(list *[]Instant, r revisionFact, from, until int64) bool {
	content, schedule, err := catalog.ParseSchedule(r.content)
	if err != nil {
		return false // no version of this program can say what it expected; its Schedule is blocked, which its page says
	}
	after := time.UnixMilli(from)
	for at, ok := schedule.Last(after, time.UnixMilli(until)); ok; at, ok = schedule.Last(after, at.Add(-time.Millisecond)) {
		if len(*list) == MaxInstants {
			return true
		}
		i := Instant{AtMS: at.UnixMilli(), Revision: r.revision, Mark: schedule.Describe(at).Mark}
		f.judge(&i, content.Enabled && r.taskEnabled)
		*list = append(*list, i)
	}
	return false
}

// judge says what became of i. A Run is the strongest fact; what was recorded comes before what is inferred.
func (f facts) judge(i *Instant, enabled bool) {
	i.Unattended = f.unattendedAt(i.AtMS)
	if r, ok := f.runs[i.AtMS]; ok {
		i.Verdict, i.RunID, i.RunStatus, i.LatenessMS = WasAdmitted, &r.id, r.status, &r.latenessMS
		i.CatchUp = f.caughtUp(i.AtMS, i.AtMS+r.latenessMS)
		return
	}
	if e := f.recorded(i); e != nil {
		i.Verdict = Verdict(e.kind)
		if i.Verdict != WasPaused { // what is recorded of a pause is when it ended, the same for all that it held back
			i.LatenessMS = e.latenessMS
		}
		if e.reason != nil {
			i.Reason = *e.reason
		}
		return
	}
	switch {
	case f.archivedAt(i.AtMS):
		i.Verdict = WasArchived
	case !enabled:
		i.Verdict = WasDisabled
	case f.pending(i):
		f.judgePending(i)
	default:
		i.Verdict, i.Reason = WasUnaccounted, nothingRecorded.String()
	}
}

// caughtUp reports whether a pause ended between an instant and its admission with one Run for what it had held back: then
// it is this one, as every other that was due by then became nothing.
func (f facts) caughtUp(atMS, admittedMS int64) bool {
	return slices.ContainsFunc(f.catchUps, func(ms int64) bool { return atMS <= ms && ms <= admittedMS })
}

// unattendedAt looks among the spells, of which no two are of the same time.
func (f facts) unattendedAt(ms int64) bool {
	k := sort.Search(len(f.spells), func(k int) bool { return f.spells[k].ToMS >= ms })
	return k < len(f.spells) && f.spells[k].FromMS < ms
}

// recorded finds the event that covers i: of its own revision, and the newest if several do.
func (f facts) recorded(i *Instant) *eventFact {
	for k := len(f.events) - 1; k >= 0; k-- {
		if e := &f.events[k]; e.revision == i.Revision && e.firstMS <= i.AtMS && i.AtMS <= e.lastMS {
			return e
		}
	}
	return nil
}

func (f facts) archivedAt(ms int64) bool {
	archived := false
	for _, t := range f.turns {
		if t.atMS < ms {
			archived = t.archived
		}
	}
	return archived
}

// pending reports whether i is still ahead of, or at, the cursor of the revision in force.
func (f facts) pending(i *Instant) bool {
	if i.Revision != f.schedule.revision || i.AtMS <= f.schedule.baseMS {
		return false
	}
	return f.schedule.cursorMS == nil || i.AtMS >= *f.schedule.cursorMS
}

func (f facts) judgePending(i *Instant) {
	i.Verdict = IsPending
	switch s := f.schedule; {
	case s.paused != nil:
		i.Verdict, i.Reason = WasPaused, pausedBy+*s.pausedBy+": "+*s.paused
	case s.blocked != nil:
		i.Verdict, i.Reason = IsBlocked, *s.blocked
	case i.AtMS > f.nowMS:
		i.Reason = notDue.String()
	case s.expiresMS != nil && *s.expiresMS > f.nowMS:
		i.Reason = claimedBy + *s.owner
	case i.Unattended:
		i.Reason = noReplica.String()
	default:
		i.Reason = notClaimed.String()
	}
}

// readFacts reads what the newest room instants of a range are judged by.
func readFacts(ctx context.Context, q pg.Querier, project, trigger string, fromMS, toMS int64, room int) (f facts, err error) {
	s := &f.schedule
	err = q.QueryRow(ctx, `
		SELECT `+pg.ClockMS+`, s.base_at_ms, s.trigger_revision, s.next_fire_at_ms, s.blocked_reason, s.claim_owner, s.claim_expires_at_ms,
			coalesce(u.name, u.email, u.subject), p.reason
		FROM trigger_schedules s LEFT JOIN trigger_pauses p ON p.id = s.pause_id LEFT JOIN users u ON u.id = p.paused_by
		WHERE s.project_id = $1 AND s.trigger_id = $2`, project, trigger).
		Scan(&f.nowMS, &s.baseMS, &s.revision, &s.cursorMS, &s.blocked, &s.owner, &s.expiresMS, &s.pausedBy, &s.paused)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, ErrNotFound
	}
	if err != nil {
		return f, err
	}
	f.room, f.fromMS, f.toMS = room, max(fromMS, f.nowMS-AccountHorizon.Milliseconds()), min(toMS, f.nowMS)
	for _, read := range []func(context.Context, pg.Querier, string, string) error{f.readRevisions, f.readRuns, f.readEvents, f.readTurns, f.readCatchUps, f.readSpells} {
		if err := read(ctx, q, project, trigger); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *facts) readRevisions(ctx context.Context, q pg.Querier, project, trigger string) (err error) {
	rows, err := q.Query(ctx, `
		SELECT g.revision, g.created_at_ms, g.content, t.enabled
		FROM trigger_revisions g JOIN task_definition_revisions t
			ON t.project_id = g.project_id AND t.task_id = g.task_id AND t.revision = g.task_revision
		WHERE g.project_id = $1 AND g.trigger_id = $2 AND g.created_at_ms <= $3 ORDER BY g.revision DESC LIMIT $4`,
		project, trigger, f.toMS, maxRevisions)
	if err != nil {
		return err
	}
	f.revisions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r revisionFact, err error) {
		return r, row.Scan(&r.revision, &r.createdMS, &r.content, &r.taskEnabled)
	})
	return err
}

func (f *facts) readRuns(ctx context.Context, q pg.Querier, project, trigger string) error {
	rows, err := q.Query(ctx, `
		SELECT scheduled_for_ms, id, status, created_at_ms - scheduled_for_ms FROM runs
		WHERE project_id = $1 AND trigger_id = $2 AND scheduled_for_ms > $3 AND scheduled_for_ms <= $4
		ORDER BY scheduled_for_ms DESC LIMIT $5`, project, trigger, f.fromMS, f.toMS, f.room+1)
	if err != nil {
		return err
	}
	f.runs = map[int64]runFact{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (at int64, err error) {
		var r runFact
		err = row.Scan(&at, &r.id, &r.status, &r.latenessMS)
		f.runs[at] = r
		return at, err
	})
	return err
}

func (f *facts) readEvents(ctx context.Context, q pg.Querier, project, trigger string) (err error) {
	rows, err := q.Query(ctx, `
		SELECT type, trigger_revision, first_at_ms, last_at_ms, lateness_ms, reason FROM (
			SELECT * FROM schedule_events WHERE project_id = $1 AND trigger_id = $2 AND last_at_ms > $3
			AND type IN ('skipped', 'coalesced', 'superseded', 'paused') ORDER BY last_at_ms DESC LIMIT $4) e
		WHERE first_at_ms <= $5 ORDER BY id`, project, trigger, f.fromMS, maxAccountFacts, f.toMS)
	if err != nil {
		return err
	}
	f.events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e eventFact, err error) {
		return e, row.Scan(&e.kind, &e.revision, &e.firstMS, &e.lastMS, &e.latenessMS, &e.reason)
	})
	return err
}

func (f *facts) readTurns(ctx context.Context, q pg.Querier, project, trigger string) (err error) {
	rows, err := q.Query(ctx, `SELECT type = 'archived', created_at_ms FROM schedule_events
		WHERE project_id = $1 AND trigger_id = $2 AND type IN ('archived', 'unarchived') ORDER BY id`, project, trigger)
	if err != nil {
		return err
	}
	f.turns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t turnFact, err error) {
		return t, row.Scan(&t.archived, &t.atMS)
	})
	return err
}

func (f *facts) readCatchUps(ctx context.Context, q pg.Querier, project, trigger string) error {
	rows, err := q.Query(ctx, `
		SELECT resumed_at_ms FROM trigger_pauses WHERE project_id = $1 AND trigger_id = $2 AND caught_up AND resumed_at_ms > $3
		ORDER BY paused_at_ms DESC LIMIT $4`, project, trigger, f.fromMS, maxAccountFacts)
	if err != nil {
		return err
	}
	f.catchUps, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return err
}

// readSpells reads the times without any replica that are on record, and the one that has not ended yet: nobody is
// there to record it.
func (f *facts) readSpells(ctx context.Context, q pg.Querier, _, _ string) (err error) {
	rows, err := q.Query(ctx, `
		SELECT first_at_ms, last_at_ms FROM schedule_events WHERE type = 'unattended' AND last_at_ms > $1 AND first_at_ms <= $2
		UNION ALL
		SELECT max(last_tick_at_ms), $4::bigint FROM replicas HAVING max(last_tick_at_ms) < $4::bigint - $5 AND max(last_tick_at_ms) <= $2
		ORDER BY 1 LIMIT $3`, f.fromMS, f.toMS, maxAccountFacts, f.nowMS, unattendedAfter.Milliseconds())
	if err != nil {
		return err
	}
	f.spells, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Spell, err error) {
		return s, row.Scan(&s.FromMS, &s.ToMS)
	})
	if err == nil && f.spells == nil {
		f.spells = []Spell{}
	}
	return err
}

// String is for logs and tests.
func (i Instant) String() string {
	return fmt.Sprintf("%s r%d %s", time.UnixMilli(i.AtMS).UTC().Format(time.RFC3339), i.Revision, i.Verdict)
}
