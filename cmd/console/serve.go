package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/qinglong/console/internal/scheduler"
)

// schedulerFlags bound one replica's work; scheduler.Settings says what each may be.
type schedulerFlags struct {
	ClaimBudget      int           `default:"256" help:"Schedules one cycle may claim, 1 to 256."`
	ClaimLease       time.Duration `default:"30s" help:"How long a claim lasts, 1s to 60s."`
	MisfireGrace     time.Duration `default:"5m" help:"How late an occurrence may be and still count as on time, at most 5m."`
	Cadence          time.Duration `default:"1s" help:"Longest sleep between two cycles, 50ms to 10s."`
	DrainTimeout     time.Duration `default:"10s" help:"How long stopping waits for the cycle in flight, at most 60s."`
	DatabaseDeadline time.Duration `default:"5s" help:"Time for one claim, or for one commit with its repetitions; less than the claim lease."`
}

func (f schedulerFlags) settings() scheduler.Settings {
	return scheduler.Settings{Budget: f.ClaimBudget, Lease: f.ClaimLease, Grace: f.MisfireGrace, Cadence: f.Cadence,
		Drain: f.DrainTimeout, Deadline: f.DatabaseDeadline}
}

// logFlags say what is logged to standard error, and how.
type logFlags struct {
	LogFormat string `default:"text" enum:"text,json" help:"text or json."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error."`
}

func (f logFlags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(f.LogLevel)) // the parser has checked the word
	options := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

type serveCmd struct {
	Listen         string `default:"127.0.0.1:8080" help:"Address of the console."`
	MachineListen  string `default:"127.0.0.1:9090" help:"Address of metrics, profiles and readiness reasons. Without authentication: keep it on loopback or a private network."`
	identityFlags  `embed:""`
	schedulerFlags `embed:""`
	logFlags       `embed:""`
}

// heapGrowth is how much the heap may grow between two collections, in percent of what is in use: a page leaves half a
// megabyte behind, and with Go's 100 a tenth of the replica's time goes into collecting it. GOGC says otherwise.
const heapGrowth = 200

// Run validates everything, then serves until the process is asked to stop.
func (c serveCmd) Run(ctx context.Context, e env) error {
	if e.getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	who, whoErr := c.identityFlags.check(e.getenv, false)
	urls, urlsErr := readDatabases(e.getenv)
	if err := errors.Join(c.settings().Validate(), whoErr, urlsErr); err != nil {
		return usageError{err}
	}
	s, err := newServer(ctx, c.settings(), urls, c.logger(e.stderr))
	if err != nil {
		return err
	}
	defer s.close()
	if who == nil {
		s.log.Warn("this replica has no pages: CONSOLE_PUBLIC_URL is not set")
	} else if err := s.servePages(ctx, who, development{}); err != nil {
		return err
	}
	if err := s.bind(c.Listen, c.MachineListen); err != nil {
		return err
	}
	return s.run(ctx)
}
