package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
)

// laneRoom bounds the instants that a [Lane] counts: a month of minutes, and more.
const laneRoom = 50_000

// A Lane is an account counted: what became of a range's instants in parts of equal length, however many they are. It
// judges an instant exactly as the account does.
type Lane struct {
	Parts       []Part // oldest first; one without an instant is not among them
	KnownFromMS int64  // there are too many instants to count those of earlier parts
	Archived    []Spell
	Paused      []Pausing
}

// Part is what became of the instants from one moment on and before another.
type Part struct {
	FromMS, ToMS int64
	Instants     int
	ByVerdict    map[Verdict]int
	Failed       int // of those that were admitted, whose Run failed, timed out or was lost
}

// Pausing is a time in which somebody held the Trigger back.
type Pausing struct {
	Spell
	By, Reason string
}

// ReadLane reads the account of a range as [ReadAccount] does and counts all of it, in parts of partMS of which one
// begins at startMS.
func ReadLane(ctx context.Context, q pg.Querier, projects []string, project, trigger string, fromMS, toMS, startMS, partMS int64) (_ Account, _ Lane, err error) {
	defer pg.Wrap(&err, "scheduler.ReadLane(%s, %s)", project, trigger)
	if !slices.Contains(projects, project) {
		return Account{}, Lane{}, ErrNotFound
	}
	f, err := readFacts(ctx, q, project, trigger, fromMS, toMS, laneRoom)
	if err != nil {
		return Account{}, Lane{}, err
	}
	l := f.lane(startMS, partMS)
	l.Paused, err = f.pausings(ctx, q, project, trigger)
	return f.account(), l, err
}

// lane counts the parts from the newest to the oldest, as long as there is room.
func (f facts) lane(startMS, partMS int64) Lane {
	l := Lane{KnownFromMS: f.knownFrom(), Archived: f.archivings(f.nowMS)}
	terms, room := f.terms(), laneRoom
	begin := startMS + (f.toMS-startMS)/partMS*partMS
	if begin > f.toMS {
		begin -= partMS
	}
	for ; begin+partMS > max(f.fromMS+1, l.KnownFromMS); begin -= partMS {
		p, all := f.part(terms, begin, begin+partMS, room)
		if !all {
			l.KnownFromMS = begin + partMS
			break
		}
		if room -= p.Instants; p.Instants > 0 {
			l.Parts = append(l.Parts, p)
		}
	}
	slices.Reverse(l.Parts)
	return l
}

// knownFrom is the moment from which on no fact was left out for want of room.
func (f facts) knownFrom() (ms int64) {
	if len(f.runs) >= laneRoom {
		ms = slices.Min(slices.Collect(maps.Keys(f.runs)))
	}
	if len(f.events) >= maxAccountFacts {
		oldest := slices.MinFunc(f.events, func(a, b eventFact) int { return int(a.lastMS - b.lastMS) })
		ms = max(ms, oldest.lastMS)
	}
	if n := len(f.revisions); n >= maxRevisions {
		ms = max(ms, f.revisions[n-1].createdMS)
	}
	return ms
}

// A term is the time in which a revision was in force: after one moment and up to another.
type term struct {
	revision        int64
	afterMS, upToMS int64
	schedule        cron.Schedule
	enabled         bool
}

// terms are those of the revisions that can be read.
func (f facts) terms() (list []term) {
	upTo := f.toMS
	for _, r := range f.revisions {
		if content, schedule, err := catalog.ParseSchedule(r.content); err == nil {
			list = append(list, term{r.revision, max(f.fromMS, r.createdMS), upTo, schedule, content.Enabled && r.taskEnabled})
		}
		upTo = min(upTo, r.createdMS)
	}
	return list
}

// part counts the instants from fromMS on and before toMS, and reports whether there was room for all.
func (f facts) part(terms []term, fromMS, toMS int64, room int) (Part, bool) {
	p := Part{FromMS: fromMS, ToMS: toMS, ByVerdict: map[Verdict]int{}}
	for _, t := range terms {
		at, upTo := time.UnixMilli(max(t.afterMS, fromMS-1)), min(t.upToMS, toMS-1)
		for {
			next, ok := t.schedule.Next(at)
			if !ok || next.UnixMilli() > upTo {
				break
			}
			if p.Instants == room {
				return p, false
			}
			at = next
			i := Instant{AtMS: at.UnixMilli(), Revision: t.revision}
			f.judge(&i, t.enabled)
			p.add(i)
		}
	}
	return p, true
}

func (p *Part) add(i Instant) {
	p.Instants++
	p.ByVerdict[i.Verdict]++
	if i.Failed() {
		p.Failed++
	}
}

// Failed reports whether the instant's Run failed, timed out or was lost.
func (i Instant) Failed() bool {
	return slices.Contains([]run.Status{run.Failed, run.TimedOut, run.Lost}, run.Status(i.RunStatus))
}

// pausings reads the times in the range in which the Trigger was held back, the newest ones, oldest first.
func (f facts) pausings(ctx context.Context, q pg.Querier, project, trigger string) ([]Pausing, error) {
	rows, err := q.Query(ctx, `
		SELECT p.paused_at_ms, coalesce(p.resumed_at_ms, $5), coalesce(u.name, u.email, u.subject), p.reason
		FROM trigger_pauses p JOIN users u ON u.id = p.paused_by
		WHERE p.project_id = $1 AND p.trigger_id = $2 AND p.paused_at_ms <= $4 AND coalesce(p.resumed_at_ms, $5) > $3
		ORDER BY p.paused_at_ms DESC LIMIT $6`, project, trigger, f.fromMS, f.toMS, f.nowMS, maxSpells)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Pausing, err error) {
		return p, row.Scan(&p.FromMS, &p.ToMS, &p.By, &p.Reason)
	})
	slices.Reverse(list)
	return list, err
}
