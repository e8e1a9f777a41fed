// Command seed fills a development database with a million Schedules; `make seed-large` runs it.
//
// It writes only where nobody is hurt: the server must be one that `console dev` or a test has made, or --yes says that
// the database may be filled for good.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/bench"
)

const urlVariable = "CONSOLE_MIGRATION_DATABASE_URL"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var size bench.Size
	flag.IntVar(&size.Schedules, "schedules", 1_000_000, "Schedules in all")
	flag.IntVar(&size.Projects, "projects", 100, "Projects; one in five is archived")
	flag.IntVar(&size.DuePerMinute, "due", 10_000, "Schedules that are due every minute")
	flag.IntVar(&size.Runs, "runs", 0, "Runs of the last thirty days")
	dev := flag.String("dev", "", "dev.json of the running `console dev`, if "+urlVariable+" is not set; default: where console dev writes it")
	yes := flag.Bool("yes", false, "fill the database although it is not known to be one for development")
	flag.Parse()
	url, err := databaseURL(*dev)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := mayFill(ctx, pool, *yes); err != nil {
		return err
	}
	return seed(ctx, pool, size)
}

// databaseURL is the variable's, or that of the development instance that runs on this machine.
func databaseURL(dev string) (string, error) {
	if url := os.Getenv(urlVariable); url != "" {
		return url, nil
	}
	if dev == "" {
		dev = devFile()
	}
	content, err := os.ReadFile(dev)
	if err != nil {
		return "", fmt.Errorf("set %s, or start `console dev` first: %w", urlVariable, err)
	}
	var file struct{ Databases struct{ Migration string } }
	if err := json.Unmarshal(content, &file); err != nil || file.Databases.Migration == "" {
		return "", fmt.Errorf("%s names no connection of the migration role", dev)
	}
	return file.Databases.Migration, nil
}

// devFile is where `console dev` puts its description unless it is told otherwise.
func devFile() string {
	dir := "/var/lib/qinglong-console"
	if os.Geteuid() != 0 {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			state = filepath.Join(os.Getenv("HOME"), ".local", "state")
		}
		dir = filepath.Join(state, "qinglong-console")
	}
	return filepath.Join(dir, "dev.json")
}

func mayFill(ctx context.Context, pool *pgxpool.Pool, yes bool) error {
	development, err := bench.IsDevelopment(ctx, pool)
	if err != nil {
		return err
	}
	if !development && !yes {
		return errors.New("this is no development database, and nothing that is written can be deleted again; -yes if you mean it")
	}
	return nil
}

func seed(ctx context.Context, pool *pgxpool.Pool, size bench.Size) error {
	began := time.Now()
	err := bench.Seed(ctx, pool, size, func(made int) {
		if made%10 == 0 || made == size.Projects {
			fmt.Printf("%4d of %d projects  %s\n", made, size.Projects, time.Since(began).Round(time.Second))
		}
	})
	if err != nil {
		return err
	}
	fmt.Printf("seeded: %d schedules, %d due a minute from the next full minute but one, %d runs, in %s\n",
		size.Schedules, size.DuePerMinute, size.Runs, time.Since(began).Round(time.Second))
	return nil
}
