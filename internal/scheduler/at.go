package scheduler

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
)

// At says which of a Trigger's instants somebody means. One of its fields is set.
type At struct {
	instantMS int64
	wall      string // "second minute hour" of a day in the Trigger's zone
	newest    bool
	failed    bool
}

const atForms = "a time like 2026-11-29T03:00:00Z, a time of day like 03:00 in the Trigger's zone, latest or latest-failed"

var wallTime = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?$`)

// ParseAt reads an instant (RFC 3339), a time of day (the latest such), "latest" or "latest-failed".
func ParseAt(s string) (At, error) {
	switch s {
	case "latest":
		return At{newest: true}, nil
	case "latest-failed":
		return At{failed: true}, nil
	}
	if m := wallTime.FindStringSubmatch(s); m != nil {
		return At{wall: strings.Join([]string{number(m[3]), number(m[2]), number(m[1])}, " ")}, nil
	}
	if zone := len(s) - len("+01:00"); zone > 0 && s[zone] == ' ' { // a plus that nobody escaped in a URL
		s = s[:zone] + "+" + s[zone+1:]
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UnixMilli() <= 0 {
		return At{}, errors.New("not " + atForms)
	}
	return At{instantMS: t.UnixMilli()}, nil
}

// number spells digits as cron does; none are zero.
func number(digits string) string {
	n, _ := strconv.Atoi(digits)
	return strconv.Itoa(n)
}

// Meant is what an [At] means for one Trigger: a Run, or an instant that has none.
type Meant struct {
	RunID uuid.UUID // [uuid.Nil] if there is no such Run

	// AtMS is the instant that was meant; for the newest (failed) Run, of which there is none, the latest instant at which
	// the Trigger was expected to fire. 0 if there was none yet.
	AtMS int64

	// Instant is what the account says of AtMS, nil if there was no reason to fire then.
	Instant *Instant
}

// Find finds what at means for the Trigger. A Trigger that the reader may not see is [ErrNotFound].
func Find(ctx context.Context, q pg.Querier, projects []string, project, trigger string, at At) (_ Meant, err error) {
	defer pg.Wrap(&err, "scheduler.Find(%s, %s)", project, trigger)
	d, err := Get(ctx, q, projects, project, trigger)
	if err != nil {
		return Meant{}, err
	}
	var m Meant
	if at.newest || at.failed {
		m.RunID, err = newestRun(ctx, q, d, at.failed)
	} else {
		if m.AtMS, err = at.resolve(d); err != nil {
			return Meant{}, err
		}
		m.RunID, err = runFor(ctx, q, project, trigger, m.AtMS)
	}
	if err != nil || m.RunID != uuid.Nil {
		return m, err
	}
	if at.newest || at.failed {
		m.AtMS = d.latestExpected()
	}
	return m, m.explain(ctx, q, projects, d)
}

// resolve is the instant that at means. The clock's changes are treated as a Trigger's are that fires once a day.
func (at At) resolve(d Detail) (int64, error) {
	if at.wall == "" {
		return at.instantMS, nil
	}
	plan, _ := d.Plan() // one that cannot be read has its zone all the same, or none that exists
	daily, err := cron.Parse(at.wall+" * * *", plan.Timezone)
	if err != nil {
		return 0, fmt.Errorf("%w: its time zone %q is not known", ErrNotFound, plan.Timezone)
	}
	now := time.UnixMilli(d.NowMS)
	last, _ := daily.Last(now.Add(-72*time.Hour), now) // every day has one
	return last.UnixMilli(), nil
}

func newestRun(ctx context.Context, q pg.Querier, d Detail, failed bool) (uuid.UUID, error) {
	f := run.Filter{Projects: []string{d.ProjectID}, TriggerID: d.TriggerID}
	if failed {
		f.Statuses = []run.Status{run.Failed, run.TimedOut, run.Lost}
	}
	page, err := run.List(ctx, q, f, nil, 1)
	if err != nil || len(page.Runs) == 0 {
		return uuid.Nil, err
	}
	return page.Runs[0].ID, nil
}

// runFor is the Run for one instant. Two revisions can have one each, as a Trigger may be published again at that very
// moment: then it is the later.
func runFor(ctx context.Context, q pg.Querier, project, trigger string, atMS int64) (id uuid.UUID, err error) {
	err = q.QueryRow(ctx, `SELECT id FROM runs WHERE project_id = $1 AND trigger_id = $2 AND scheduled_for_ms = $3
		ORDER BY trigger_revision DESC LIMIT 1`, project, trigger, atMS).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	}
	return id, err
}

// latestExpected is the latest instant of the current revision, since it was published.
func (d Detail) latestExpected() int64 {
	plan, err := d.Plan()
	if err != nil {
		return 0
	}
	last, ok := plan.next.Last(time.UnixMilli(d.PublishedAtMS), time.UnixMilli(d.NowMS))
	if !ok {
		return 0
	}
	return last.UnixMilli()
}

func (m *Meant) explain(ctx context.Context, q pg.Querier, projects []string, d Detail) error {
	account, err := ReadAccount(ctx, q, projects, d.ProjectID, d.TriggerID, m.AtMS-1, m.AtMS)
	if err == nil && len(account.Instants) > 0 {
		m.Instant = &account.Instants[0]
	}
	return err
}
