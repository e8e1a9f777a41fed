package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	attentionShown = 10
	pausedShown    = 3
	// lateMS is when a backlog is worth a sentence; below it, replicas are about to look.
	lateMS = 5_000
	// skewMS is when a replica's clock is worth a look, although nothing is decided by it.
	skewMS = 2_000
)

// overviewFacts is what the overview says, before it is worded.
type overviewFacts struct {
	Health   scheduler.Health    `json:"health"`
	Hour     run.Hour            `json:"lastHour"` // of the clock's minutes, the current one the last
	Backlog  scheduler.Backlog   `json:"backlog"`
	Replicas []scheduler.Replica `json:"replicas"`
	Claims   []scheduler.Held    `json:"claims"`
	// Failures are the newest by Task, and Retries the newest Run of the retry family of each Task's newest, where that is another.
	Failures run.Incident               `json:"failuresByTask"`
	Retries  map[uuid.UUID]run.LaterRun `json:"retries"`
	Next     []scheduler.Expected       `json:"nextHour"`
	// Attention are the Runs that nobody moves by itself, the longest waiting first; one more than are shown if there are more.
	Attention []run.Attention   `json:"needAttention"`
	Spells    []scheduler.Spell `json:"withoutReplica"` // of the last day, newest first
	// Paused are Schedules that somebody holds back; one more than are named if there are more.
	Paused []scheduler.Summary `json:"paused"`
}

func (s *server) overview(c echo.Context) (reply, error) {
	if _, err := query(c); err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	f, err := s.readOverview(c.Request().Context(), v)
	if err != nil {
		return reply{}, err
	}
	return reply{json: func() any { return f }, page: func() templ.Component { return templates.OverviewPage(s.overviewPage(c, v, f)) }}, nil
}

// readOverview reads what the overview says to all who asked for it together and see the same Projects.
func (s *server) readOverview(ctx context.Context, v viewer) (overviewFacts, error) {
	projects, hour, backlog := v.sees(""), hourEnd(v.nowMS), backlogEnd(v.nowMS)
	return together(ctx, &s.gathering, "overview", []any{projects, hour, backlog}, func(ctx context.Context) (overviewFacts, error) {
		return s.readFacts(ctx, projects, hour, backlog)
	})
}

// atOnce is how many of the facts of one overview are read at the same time, each over a connection of its own.
const atOnce = 3

func (s *server) readFacts(ctx context.Context, projects []string, hour, backlog int64) (f overviewFacts, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	g.Go(func() (err error) {
		f.Health, err = scheduler.ReadHealth(ctx, s.DB, projects)
		return err
	})
	g.Go(func() (err error) {
		if f.Failures, err = run.LatestTroubles(ctx, s.DB, projects, failuresSeen, failuresShown); err == nil {
			f.Retries, err = run.Answers(ctx, s.DB, projects, newestOf(f.Failures))
		}
		return err
	})
	g.Go(func() (err error) {
		f.Next, err = scheduler.Upcoming(ctx, s.DB, projects, time.Hour)
		f.Next = nonNil(f.Next)
		return err
	})
	g.Go(func() (err error) {
		paused, err := scheduler.List(ctx, s.DB, scheduler.Filter{Projects: projects, State: scheduler.Paused}, nil, pausedShown+1)
		f.Paused = nonNil(paused.Schedules)
		return err
	})
	g.Go(func() (err error) {
		f.Attention, err = run.NeedAttention(ctx, s.DB, projects, attentionShown+1)
		return err
	})
	g.Go(func() (err error) {
		f.Claims, err = scheduler.Claims(ctx, s.DB, projects)
		return err
	})
	g.Go(func() (err error) {
		f.Replicas, err = scheduler.Replicas(ctx, s.DB)
		return err
	})
	g.Go(func() (err error) {
		f.Spells, err = scheduler.RecentSpells(ctx, s.DB)
		return err
	})
	// What is drawn of the last hour is to the end of its minute the same for all who see the same.
	g.Go(func() (err error) {
		f.Hour, err = share(ctx, s.recent, "hour", []any{projects, hour}, func(ctx context.Context) (run.Hour, error) { return run.LastHour(ctx, s.DB, projects, hour) })
		return err
	})
	g.Go(func() (err error) {
		f.Backlog, err = share(ctx, s.recent, "backlog", []any{projects, backlog}, func(ctx context.Context) (scheduler.Backlog, error) {
			return scheduler.ReadBacklog(ctx, s.DB, projects, backlog)
		})
		return err
	})
	err = g.Wait()
	return f, err
}

func (s *server) overviewPage(c echo.Context, v viewer, f overviewFacts) templates.Overview {
	m := lastHour{endMS: hourEnd(v.nowMS), nowMS: v.nowMS}
	v.nowMS = max(v.nowMS, f.Health.NowMS) // the facts may have been read long after they were asked for
	now := v.nowMS
	page := templates.Overview{
		Page: s.page(c, text.Of("Overview"), "/", now), Sentences: s.healthSentences(f), Facts: healthFacts(f),
		Charts: []templates.Chart{m.lateness(f.Hour), m.backlog(f.Backlog), m.admissions(f.Hour), m.outcomes(f.Hour)}, Upcoming: s.upcoming(f.Next, now),
		Failures: s.failures(v, f), AllFailures: s.links.runs("status", spelled(run.Failures())), ByTask: s.links.runs("group", "task"), Replicas: replicas(f, now), Claims: s.claims(f.Claims, now),
		NoFailures: templates.Empty{Why: text.Of("No Run has failed."), What: text.Of("Runs that fail, time out or are lost appear here.")},
		NoReplicas: templates.Empty{Why: text.Of("No replica has run within a day."), What: text.Of("Start one with console serve; until then nothing is admitted.")},
		NoClaims:   templates.Empty{Why: text.Of("No claim is held."), What: text.Of("A claim lasts only while a replica decides a due Schedule.")},
	}
	if f.Failures.More {
		page.MoreFailures = text.Of("Of the newest %s failures.", failuresSeen)
	}
	page.Spells, page.MoreSpells = spells(slices.All(f.Spells), now, spellsShown)
	for _, a := range f.Attention[:min(len(f.Attention), attentionShown)] {
		row := s.runRow(a.Summary, now)
		row.Reason = run.Need(a.Reason).Map(visible)
		page.Attention = append(page.Attention, row)
	}
	if len(f.Attention) > attentionShown {
		page.MoreOfThem = text.Of("And more: these are the %s that wait longest.", attentionShown)
	}
	return page
}

// healthSentences say how it stands: what is broken comes first.
func (s *server) healthSentences(f overviewFacts) []templates.Sentence {
	alive := 0
	for _, r := range f.Replicas {
		if r.Alive {
			alive++
		}
	}
	list := []templates.Sentence{replicaSentence(alive, f.Health)}
	if n := f.Health.Blocked; n > 0 {
		list = append(list, templates.Sentence{Lead: text.Count(n, "1 Schedule", "%s Schedules"), Rest: text.Of("cannot be decided."), Tone: "bad",
			URL: s.links.url("/schedules", url.Values{"state": {string(scheduler.Blocked)}})})
	}
	if n := len(f.Attention); n > 0 {
		say := templates.Sentence{Lead: text.Of("%s Runs", count(min(n, attentionShown), n > attentionShown)), Rest: text.Of("need attention."), Tone: "warn", URL: "#attention"}
		if n == 1 {
			say.Lead, say.Rest = text.Of("1 Run"), text.Of("needs attention.")
		}
		list = append(list, say)
	}
	if n := f.Hour.ByStatus[run.Failed] + f.Hour.ByStatus[run.TimedOut] + f.Hour.ByStatus[run.Lost]; n > 0 {
		list = append(list, templates.Sentence{Lead: text.Count(n, "1 Run", "%s Runs"), Rest: text.Of("of the last hour failed."), Tone: "bad",
			URL: s.links.runs("group", "task", "since", "-1h")})
	}
	return append(list, s.pausedSentences(f.Paused)...)
}

// pausedSentences say which Schedules somebody holds back, and why, while they are few.
func (s *server) pausedSentences(list []scheduler.Summary) (say []templates.Sentence) {
	all := s.links.url(schedulesPath, url.Values{"state": {string(scheduler.Paused)}})
	if len(list) > pausedShown {
		return []templates.Sentence{{Lead: text.Of("%s+ Schedules", pausedShown), Rest: text.Of("are paused."), Tone: "warn", URL: all}}
	}
	for _, x := range list {
		say = append(say, templates.Sentence{Lead: text.Data(shorten(visible(x.TriggerID), listName)), URL: s.links.schedule(x.ProjectID, x.TriggerID), Tone: "warn",
			Rest: text.Of("is paused by %s: %s.", shorten(visible(*x.PausedBy), listName), shorten(visible(*x.PauseReason), listName))})
	}
	return say
}

// replicaSentence says whether the replicas that are alive keep up.
func replicaSentence(alive int, h scheduler.Health) templates.Sentence {
	running, one := text.Count(alive, "1 replica", "%s replicas"), alive == 1
	switch late := duration(h.OldestLateMS); {
	case alive == 0:
		return templates.Sentence{Lead: text.Of("No replica is running."), Rest: text.Of("Nothing is being admitted."), Tone: "bad"}
	case h.Schedules == 0:
		return templates.Sentence{Lead: running, Rest: choose(one, text.Of("is running; no Schedule is enabled."), text.Of("are running; no Schedule is enabled."))}
	case h.OldestLateMS > lateMS:
		return templates.Sentence{Lead: running, Tone: "warn", Rest: choose(one, text.Of("is behind: the oldest due Schedule waits for %s.", late),
			text.Of("are behind: the oldest due Schedule waits for %s.", late))}
	}
	return templates.Sentence{Lead: running, Rest: choose(one, text.Of("is admitting on time."), text.Of("are admitting on time."))}
}

func choose(first bool, a, b text.Text) text.Text {
	if first {
		return a
	}
	return b
}

func healthFacts(f overviewFacts) []templates.Fact {
	lateness := templates.Fact{Value: text.Data("–"), Label: text.Of("lateness, median · no Occurrence")}
	if f.Hour.MedianLateMS != nil && f.Hour.P99LateMS != nil {
		lateness = templates.Fact{Value: duration(*f.Hour.MedianLateMS), Label: text.Of("lateness, median · 99th %s", duration(*f.Hour.P99LateMS))}
	}
	due := templates.Fact{Value: text.Data(count(f.Health.Due, f.Health.Due >= run.CountCap)), Label: text.Of("due now")}
	if f.Health.Due > 0 {
		due.Label = text.Of("due now, oldest %s late", duration(f.Health.OldestLateMS))
	}
	list := []templates.Fact{
		{Value: text.Data(count(f.Hour.Admitted, f.Hour.Capped)), Label: text.Of("admitted, last hour")},
		lateness,
		due,
		{Value: text.Data(count(f.Health.Held, false)), Label: text.Of("claims held")},
	}
	if skew, ok := largestSkew(f.Replicas); ok {
		list = append(list, templates.Fact{Value: signed(skew), Label: text.Of("largest clock skew"), Tone: skewTone(skew)})
	}
	return list
}

func largestSkew(list []scheduler.Replica) (largest int64, ok bool) {
	for _, r := range list {
		if r.Alive && (!ok || abs(r.ClockSkewMS) > abs(largest)) {
			largest, ok = r.ClockSkewMS, true
		}
	}
	return largest, ok
}

func skewTone(ms int64) string {
	if abs(ms) > skewMS {
		return "warn"
	}
	return ""
}

func abs(n int64) int64 { return max(n, -n) }

// signed words a difference of clocks.
func signed(ms int64) text.Text {
	if ms < 0 {
		return text.Of("−%s", duration(-ms))
	}
	return text.Of("+%s", duration(ms))
}

func replicas(f overviewFacts, nowMS int64) []templates.Replica {
	held := map[string]int{}
	for _, c := range f.Claims {
		held[c.Owner]++
	}
	var rows []templates.Replica
	for _, r := range f.Replicas {
		status, claims := templates.Status{Word: text.Of("gone"), Shape: "square", Tone: "idle"}, text.Text{}
		if r.Alive {
			status, claims = templates.Status{Word: text.Of("running"), Shape: "disc", Tone: "ok"}, text.Count(held[r.ID], "1 claim of your Projects", "%s claims of your Projects")
		}
		row := templates.Replica{
			Name: visible(r.ID), Status: status, Version: visible(r.Version),
			Ticked: instant(r.LastTickMS, nowMS), Skew: signed(r.ClockSkewMS), Claims: claims,
		}
		if r.Alive && abs(r.ClockSkewMS) > skewMS {
			row.Off = templates.Status{Word: text.Of("off"), Shape: "diamond", Tone: skewTone(r.ClockSkewMS)}
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *server) claims(list []scheduler.Held, nowMS int64) []templates.Claim {
	var rows []templates.Claim
	for _, h := range list {
		rows = append(rows, templates.Claim{
			Owner: visible(h.Owner), Schedule: templates.Link{Text: text.Data(h.TriggerID), URL: s.links.schedule(h.ProjectID, h.TriggerID)},
			Project: h.ProjectID, Token: h.Token + "…", Version: fmt.Sprint(h.Version), Acquired: instant(h.AcquiredMS, nowMS),
			Left: duration(max(h.ExpiresMS-nowMS, 0)),
		})
	}
	return rows
}
