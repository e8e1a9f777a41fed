//go:build torture

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/e2e/checker"

	fixture "github.com/qinglong/console/internal/run"
)

// publish applies a manifest by the console's own command, again and again until it succeeds. The first attempt may be
// killed or frozen on the way.
func (w *torture) publish(s move) error {
	began := time.Now()
	for try := 0; time.Since(began) < 3*patience; try++ {
		meddle := s.Apply.Meddle
		if try > 0 {
			meddle = ""
		}
		done, err := w.applyOnce(s.Apply, meddle)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if done {
			w.remember(func(r *checker.Record) { rememberApplied(r, *s.Apply, windowSince(began)) })
			return nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return fmt.Errorf("it was never published: %s", s)
}

// applyOnce reports whether the command succeeded. A manifest that it calls wrong is an error.
func (w *torture) applyOnce(a *application, meddle string) (bool, error) {
	cmd := command(w.console, w.publishing, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(a.Manifest)
	p, err := launch(cmd)
	if err != nil {
		return false, err
	}
	w.meddle(p, a, meddle)
	select {
	case <-p.Done:
	case <-time.After(patience):
		p.kill()
	}
	if cmd.ProcessState.ExitCode() == 2 {
		return false, fmt.Errorf("the manifest is refused: %s\n%s", p.output, a.Manifest)
	}
	return p.Err() == nil, nil
}

// meddle kills or freezes the command, if it is still there by then.
func (w *torture) meddle(p *program, a *application, how string) {
	if how == "" {
		return
	}
	select {
	case <-p.Done:
		return
	case <-time.After(a.After):
	}
	w.count(happened, how)
	if how == doKillApply {
		p.kill()
		return
	}
	p.Cmd.Process.Signal(syscall.SIGSTOP)
	<-time.After(a.For)
	p.Cmd.Process.Signal(syscall.SIGCONT)
}

func rememberApplied(r *checker.Record, a application, window checker.Window) {
	for _, v := range a.Revisions {
		v.Window = window
		r.Revisions = append(r.Revisions, v)
	}
	for _, n := range a.Turns {
		n.Window = window
		r.Turns = append(r.Turns, n)
	}
}

// work executes Runs as a worker would, so that there are some to retry and to stop: most fail, some succeed, and some
// are left running until their lease lapses. It ends with ctx.
func (w *torture) work(ctx context.Context, seed uint64) error {
	config, err := pgxpool.ParseConfig(w.database.vars["CONSOLE_RUNTIME_DATABASE_URL"])
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["search_path"] = "ql3"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	d := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		if err := execute(ctx, pool, d.IntN(10)); err != nil {
			w.count(unheard, "Runs that the worker could not get or give back")
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}

func execute(ctx context.Context, pool *pgxpool.Pool, chance int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	work, err := fixture.Dispatch(ctx, pool, "worker-1", 20*time.Second)
	if err != nil {
		return err
	}
	if err := fixture.Start(ctx, pool, work.Lease, 20*time.Second); err != nil {
		return err
	}
	code := 3
	switch {
	case chance < 6:
		return fixture.Finish(ctx, pool, work.Lease, fixture.Outcome{Status: fixture.Failed, ExitCode: &code, Code: "exit_code"})
	case chance < 8:
		return fixture.Finish(ctx, pool, work.Lease, fixture.Outcome{Status: fixture.Succeeded, ExitCode: new(int)})
	}
	return nil
}
