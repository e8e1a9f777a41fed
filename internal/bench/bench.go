// Package bench fills a database with more than anyone has, to see what stays fast.
//
// What it writes is what publishing would have written: every CHECK and foreign key is on, contents are canonical and
// match their digests, and the scheduler claims and admits what is due without noticing a difference. Only the account
// of how it came to be is missing.
package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// ErrSeeded reports that the database has been seeded before. Nothing of that can be deleted: begin with a new one.
var ErrSeeded = errors.New("the database is seeded already")

// Size is how much to make. Of every five Projects one is archived; of the Schedules of the others, those that are not
// due each minute are disabled or due next New Year, by halves.
type Size struct {
	Projects     int
	Schedules    int // in all Projects
	DuePerMinute int // in the active Projects, spread over the seconds
	Runs         int // of the last thirty days, all of them ended, in the active Projects
}

// Validate reports a size that cannot be.
func (s Size) Validate() error {
	switch {
	case s.Projects < 1 || s.Projects > 9999:
		return fmt.Errorf("%d projects, want 1 to 9999", s.Projects)
	case s.Schedules < s.Projects:
		return fmt.Errorf("%d schedules for %d projects, want one each at least", s.Schedules, s.Projects)
	case s.DuePerMinute < 0 || s.duePerProject() > s.Schedules/s.Projects:
		return fmt.Errorf("%d of %d schedules due a minute, want no more than there are in active projects", s.DuePerMinute, s.Schedules)
	case s.Runs < 0:
		return fmt.Errorf("%d runs", s.Runs)
	}
	return nil
}

func archived(project int) bool { return project%5 == 0 }

func (s Size) active() int { return s.Projects - s.Projects/5 }

func (s Size) duePerProject() int { return (s.DuePerMinute + s.active() - 1) / s.active() }

// The statements, in the order in which one Project needs them, and the last ones for all.
//
//go:embed seed.sql
var script string

const separator = "\n-- next\n"

// seeders is how many Projects are made at a time: the server has a process for each.
const seeders = 2

// Seed makes size in a migrated database, one transaction a Project, and tells progress how many Projects there are. pool is
// of the owner of the schema or of a superuser.
func Seed(ctx context.Context, pool *pgxpool.Pool, size Size, progress func(made int)) error {
	if err := size.Validate(); err != nil {
		return err
	}
	if err := mustBeUnseeded(ctx, pool); err != nil {
		return err
	}
	statements := strings.Split(script, separator)
	perProject, last := statements[:len(statements)-1], statements[len(statements)-1]
	if err := seedProjects(ctx, pool, perProject, size, progress); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, last, pgx.NamedArgs{"due": size.duePerProject()}); err != nil {
		return fmt.Errorf("set the cursors: %w", err)
	}
	return analyze(ctx, pool)
}

func seedProjects(ctx context.Context, pool *pgxpool.Pool, statements []string, size Size, progress func(made int)) error {
	var telling sync.Mutex
	made := 0
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(seeders)
	for project := 1; project <= size.Projects; project++ {
		all.Go(func() error {
			if err := seedProject(ctx, pool, statements, size.arguments(project)); err != nil {
				return fmt.Errorf("project %d: %w", project, err)
			}
			telling.Lock()
			defer telling.Unlock()
			made++
			progress(made)
			return nil
		})
	}
	return all.Wait()
}

func mustBeUnseeded(ctx context.Context, pool *pgxpool.Pool) error {
	var seeded bool
	if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM ql3.projects WHERE id LIKE 'load-%')").Scan(&seeded); err != nil {
		return err
	}
	if seeded {
		return ErrSeeded
	}
	return nil
}

func (s Size) arguments(project int) pgx.NamedArgs {
	args := pgx.NamedArgs{"project": fmt.Sprintf("load-%04d", project), "name": fmt.Sprintf("Load %d", project),
		"active": !archived(project), "schedules": share(s.Schedules, s.Projects, project), "due": 0, "runs": 0}
	if !archived(project) {
		args["due"] = s.duePerProject()
		args["runs"] = s.Runs / s.active()
	}
	return args
}

// share is what part i of n gets of total: all parts together get it all.
func share(total, n, i int) int { return total*i/n - total*(i-1)/n }

func seedProject(ctx context.Context, pool *pgxpool.Pool, statements []string, args pgx.NamedArgs) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql, args); err != nil {
				return err
			}
		}
		return nil
	})
}

func analyze(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_, err := pool.Exec(ctx, `ANALYZE ql3.triggers, ql3.trigger_revisions, ql3.trigger_schedules, ql3.runs, ql3.run_attempts, ql3.run_events`)
	return err
}

// IsDevelopment reports whether the server is one that the console has made for `console dev` or for a test.
func IsDevelopment(ctx context.Context, pool *pgxpool.Pool) (is bool, err error) {
	err = pool.QueryRow(ctx, "SELECT current_setting('cluster_name') ~ '^console-[0-9a-f]{16}$'").Scan(&is)
	return is, err
}
