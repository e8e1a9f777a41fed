// Package scheduler turns due Schedules into Runs: each occurrence into at most one, whatever crashes, freezes or lies
// about the time, with any number of replicas and no leader.
//
//	claim ──► decide ──► commit
//	  │         │          └─ admitted | skipped | initialized | raced | failed
//	  │         └─ a pure function of the claim
//	  └─ one statement, committed at once; none due ends the cycle
//
// # The fence
//
// A claim is a row lease: owner, token, version and expiry, all by the database clock. Nothing is locked between claim
// and commit. Commit locks the row again and compares everything the decision was made from with what is there now
// ([fence]); if anything differs the claim is raced and writes nothing. A replica that stalled past its lease therefore
// delays the claims it holds, for one lease, and can do no harm when it wakes.
//
// # The clock
//
// A replica's clock decides when to look. What is due, late or expired is decided by the database's, read in the
// statement that needs it: claimAcquiredAtMs for the decision, and a second reading over the locked row for the commit.
package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// The bounds of the settings.
const (
	MaxBudget   = 256
	MaxLease    = 60 * time.Second
	MinLease    = time.Second
	MaxGrace    = 5 * time.Minute
	MaxCadence  = 10 * time.Second
	MinCadence  = 50 * time.Millisecond
	MaxDrain    = 60 * time.Second
	firstBatch  = 64  // Schedules at once, while there is no backlog: what a second brings is mostly less, and then one transaction has it all
	batchLimit  = 128 // Schedules a transaction under a backlog; more gains nothing
	countLimit  = 10_000
	backlogSeen = 10_000

	pruneEvery      = 10 * time.Minute
	pruneMost       = 5000
	unattendedAfter = 15 * time.Second // without a tick a replica does not run; longer than the longest cadence
)

// Settings are the bounds of one replica's work.
type Settings struct {
	Budget   int           // claims a cycle, 1 to 256
	Lease    time.Duration // 1 s to 60 s
	Grace    time.Duration // how late an occurrence may be and still be on time, 0 to 5 min
	Cadence  time.Duration // longest sleep between two cycles, 50 ms to 10 s
	Drain    time.Duration // how long stopping waits for the cycle in flight, up to 60 s
	Deadline time.Duration // for one claim, or one commit with its repetitions; less than Lease
}

// Defaults are the settings of a replica that was told nothing.
func Defaults() Settings {
	return Settings{Budget: 256, Lease: 30 * time.Second, Grace: 5 * time.Minute, Cadence: time.Second,
		Drain: 10 * time.Second, Deadline: 5 * time.Second}
}

// Validate reports every setting that is out of bounds.
func (s Settings) Validate() error {
	var errs []error
	check := func(ok bool, name string, got, least, most any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s is %v, want at least %v and at most %v", name, got, least, most))
		}
	}
	check(s.Budget >= 1 && s.Budget <= MaxBudget, "claim budget", s.Budget, 1, MaxBudget)
	check(s.Lease >= MinLease && s.Lease <= MaxLease, "claim lease", s.Lease, MinLease, MaxLease)
	check(s.Grace >= 0 && s.Grace <= MaxGrace, "misfire grace", s.Grace, time.Duration(0), MaxGrace)
	check(s.Cadence >= MinCadence && s.Cadence <= MaxCadence, "cadence", s.Cadence, MinCadence, MaxCadence)
	check(s.Drain > 0 && s.Drain <= MaxDrain, "drain timeout", s.Drain, time.Millisecond, MaxDrain)
	if s.Deadline <= 0 || s.Deadline >= s.Lease {
		errs = append(errs, fmt.Errorf("database deadline is %v, want more than 0 and less than the claim lease, which is %v", s.Deadline, s.Lease))
	}
	return errors.Join(errs...)
}

// Config is everything a Scheduler needs.
type Config struct {
	Pool     *pgxpool.Pool // of role ql3_runtime
	Replica  string        // this process, for display; the token is the fence
	Version  string
	Schema   pg.Schema // that this build knows
	Settings Settings
	Metrics  *Metrics
	Log      *slog.Logger
	Lost     func(error) // told of every error that may mean the database is lost; may be nil
	Hints    *pg.Hints   // told of every claim and every commit; may be nil
}

// Scheduler is one replica's part in the work.
type Scheduler struct {
	Config
	wake      chan struct{}
	lastCycle atomic.Value // time.Time of the last cycle without an error
	pruned    time.Time    // only the loop touches it
	size      int          // how many Schedules are taken at once; only the cycle touches it
}

// New checks the settings and returns a Scheduler. It touches no database.
func New(c Config) (*Scheduler, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	return &Scheduler{Config: c, wake: make(chan struct{}, 1), size: firstBatch}, nil
}

// LastCycle is when the last cycle without an error ended, by this process's monotonic clock; zero if none has.
func (s *Scheduler) LastCycle() time.Time {
	t, _ := s.lastCycle.Load().(time.Time)
	return t
}

// Wake makes a sleeping replica look now. It is only a hint and never blocks.
func (s *Scheduler) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
