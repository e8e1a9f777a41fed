package bench_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/search"
)

const shown = 50 // rows of a page

// sight is what a reader may see, and some of what is in it.
type sight struct {
	projects []string
	nowMS    int64
	deep     pg.Cursor        // far down the list of Runs
	later    scheduler.Cursor // far down the list of Schedules
	run      uuid.UUID
	retried  uuid.UUID
}

// A reading is one read that a page makes. Its data do not matter, only what it takes.
type reading struct {
	name string
	read func(context.Context, pg.Querier, sight) error
}

// readings is every read of a page that grows with nothing.
func readings() []reading {
	list := slices.Concat(runReadings(), scheduleReadings(), overviewReadings(), detailReadings(), searchReadings())
	slices.SortFunc(list, func(a, b reading) int { return cmp.Compare(a.name, b.name) })
	return list
}

// runFilters are the combinations that a list of Runs may be asked for, of what is there and of what is not.
func runFilters() map[string]run.Filter {
	list := map[string]run.Filter{}
	for _, statuses := range [][]run.Status{nil, {run.Failed}, {run.Failed, run.Succeeded}} {
		for _, origin := range append(run.Origins(), "") {
			for _, task := range []string{"", "work", "nothing"} {
				for _, trigger := range []string{"", "t-0000003"} {
					name := fmt.Sprintf("status=%v origin=%s task=%s trigger=%s", statuses, origin, task, trigger)
					list[name] = run.Filter{Statuses: statuses, Origin: origin, TaskID: task, TriggerID: trigger}
				}
			}
		}
		for _, text := range []string{"work", "t-0000003", "t-00", "person 7", "person", "user7@", "nothing"} {
			list[fmt.Sprintf("status=%v text=%s", statuses, text)] = run.Filter{Statuses: statuses, Text: text}
		}
	}
	return list
}

func runReadings() (list []reading) {
	for name, f := range runFilters() {
		filter := func(s sight) run.Filter { f := f; f.Projects = s.projects; return f }
		list = append(list,
			reading{"runs, first page, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
				_, err := run.List(ctx, q, filter(s), nil, shown)
				return err
			}},
			reading{"runs, deep page, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
				_, err := run.List(ctx, q, filter(s), &s.deep, shown)
				return err
			}},
			reading{"runs, newer page, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
				_, err := run.Newer(ctx, q, filter(s), s.deep, shown)
				return err
			}},
			reading{"runs, one day, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
				f := filter(s)
				f.SinceMS, f.UntilMS = s.deep.CreatedAtMS, s.deep.CreatedAtMS+86_400_000
				_, err := run.List(ctx, q, f, nil, shown)
				return err
			}},
			reading{"run counts, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
				_, err := run.CountByStatus(ctx, q, filter(s))
				return err
			}})
	}
	return list
}

func scheduleReadings() (list []reading) {
	for _, state := range append(scheduler.States(), "") {
		for _, text := range []string{"", "t-00", "work", "7", "nothing"} {
			name := fmt.Sprintf("state=%s text=%s", state, text)
			filter := func(s sight) scheduler.Filter {
				return scheduler.Filter{Projects: s.projects, State: state, Text: text}
			}
			list = append(list,
				reading{"schedules, first page, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
					_, err := scheduler.List(ctx, q, filter(s), nil, shown)
					return err
				}},
				reading{"schedules, deep page, " + name, func(ctx context.Context, q pg.Querier, s sight) error {
					_, err := scheduler.List(ctx, q, filter(s), &s.later, shown)
					return err
				}})
		}
	}
	for _, text := range []string{"", "t-00", "work", "7", "nothing"} {
		list = append(list, reading{"schedule counts, text=" + text, func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := scheduler.CountByState(ctx, q, scheduler.Filter{Projects: s.projects, Text: text})
			return err
		}})
	}
	return list
}

func overviewReadings() []reading {
	return []reading{
		{"overview, health", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := scheduler.ReadHealth(ctx, q, s.projects)
			return err
		}},
		{"overview, claims", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := scheduler.Claims(ctx, q, s.projects)
			return err
		}},
		{"claims, their fates", func(ctx context.Context, q pg.Querier, s sight) error {
			_, _, err := scheduler.ReadClaimNews(ctx, q, s.projects)
			return err
		}},
		{"overview, next hour", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := scheduler.Upcoming(ctx, q, s.projects, time.Hour)
			return err
		}},
		{"overview, last hour", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := run.LastHour(ctx, q, s.projects, s.nowMS)
			return err
		}},
		{"overview, backlog", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := scheduler.ReadBacklog(ctx, q, s.projects, s.nowMS)
			return err
		}},
		{"overview, failures", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := run.LatestTroubles(ctx, q, s.projects, 60, 6)
			return err
		}},
		{"overview, attention", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := run.NeedAttention(ctx, q, s.projects, 10)
			return err
		}},
	}
}

func detailReadings() []reading {
	const project, trigger = "load-0001", "t-0000003"
	list := []reading{
		{"run", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := run.Get(ctx, q, s.projects, s.run)
			return err
		}},
		{"run, family", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := run.Family(ctx, q, s.projects, s.retried)
			return err
		}},
		{"schedule", func(ctx context.Context, q pg.Querier, s sight) error {
			_, err := scheduler.Get(ctx, q, s.projects, project, trigger)
			return err
		}},
		{"schedule, account of a day", func(ctx context.Context, q pg.Querier, s sight) error {
			_, _, err := scheduler.ReadLane(ctx, q, s.projects, project, trigger, s.nowMS-86_400_000, s.nowMS, 0, 900_000)
			return err
		}},
	}
	for _, at := range []string{"03:00", "latest", "latest-failed"} {
		list = append(list, reading{"go/run at=" + at, func(ctx context.Context, q pg.Querier, s sight) error {
			at, err := scheduler.ParseAt(at)
			if err == nil {
				_, err = scheduler.Find(ctx, q, s.projects, project, trigger, at)
			}
			return err
		}})
	}
	return list
}

func searchReadings() (list []reading) {
	for _, text := range []string{"work", "t-0000003", "t-00", "load", "person 7", "person", "nothing"} {
		list = append(list, reading{"search " + text, func(ctx context.Context, q pg.Querier, s sight) error {
			_, _, err := run.Search(ctx, q, s.projects, text, 20)
			return err
		}})
	}
	for _, text := range []string{"work", "t-00", "nothing"} {
		list = append(list, reading{"near ids, text=" + text, func(ctx context.Context, q pg.Querier, s sight) error {
			_, tasks := search.NearTasks(ctx, q, s.projects, text)
			_, triggers := search.NearTriggers(ctx, q, s.projects, text)
			return errors.Join(tasks, triggers)
		}})
	}
	list = append(list, reading{"ids to choose from", func(ctx context.Context, q pg.Querier, s sight) error {
		_, err := search.List(ctx, q, s.projects, shown)
		return err
	}})
	return append(list, reading{"search for a Run", func(ctx context.Context, q pg.Querier, s sight) error {
		_, _, err := run.Search(ctx, q, s.projects, s.run.String(), 20)
		return err
	}}, reading{"search for the beginning of a Run's id", func(ctx context.Context, q pg.Querier, s sight) error {
		_, _, err := run.Search(ctx, q, s.projects, s.run.String()[:8], 20)
		return err
	}})
}
