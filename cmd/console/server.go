package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

const (
	gateRetry       = time.Second
	gateWatch       = 15 * time.Second
	shutdownTimeout = 10 * time.Second
	staleAfter      = 15 * time.Second // without a successful cycle for this long a replica is not ready
)

// errStarting is why a replica that has not yet passed the gates is not ready.
var errStarting = errors.New("starting: the gates have not been passed yet")

// server is one replica: the gates, the scheduler behind them, and the two listeners. It is ready exactly between
// having passed every gate and having withdrawn admission.
type server struct {
	log       *slog.Logger
	replica   string
	urls      databases
	runtime   *pgxpool.Pool
	pools     map[string]*pgxpool.Pool // every role this replica uses; the gates are about them
	scheduler *scheduler.Scheduler
	hints     *pg.Hints
	changed   chan struct{} // something has, somewhere; several times are one
	registry  *prometheus.Registry
	losses    prometheus.Counter
	crowded   prometheus.Counter // connections that were closed to make room
	mutations *runmgmt.Metrics
	beside    []func(context.Context) // what else runs while admission is open
	always    []func(context.Context) // what runs as long as the replica does
	handler   http.Handler            // what the public listener serves
	public    net.Listener
	machine   net.Listener

	notReady atomic.Pointer[error] // nil while admission is open
	lost     chan error            // the scheduler suspects that the database is gone
}

// newServer puts a replica together. It opens no connection.
func newServer(ctx context.Context, settings scheduler.Settings, urls databases, log *slog.Logger) (*server, error) {
	s := &server{log: log, replica: replicaID(), urls: urls, registry: prometheus.NewRegistry(),
		pools: map[string]*pgxpool.Pool{}, lost: make(chan error, 1), changed: make(chan struct{}, 1)}
	s.withdraw(errStarting)
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ql3_ready", Help: "1 while admission is open."}, func() float64 {
		if s.isReady() {
			return 1
		}
		return 0
	})
	s.losses = prometheus.NewCounter(prometheus.CounterOpts{Name: "ql3_admission_losses_total", Help: "Times admission was withdrawn because the database was lost, or a gate no longer held."})
	s.crowded = prometheus.NewCounter(prometheus.CounterOpts{Name: "ql3_connections_closed_early_total", Help: "Connections that were closed because there were too many."})
	s.registry.MustRegister(ready, s.losses, s.crowded)
	s.mutations = runmgmt.NewMetrics(s.registry)
	var err error
	if s.runtime, err = s.openPool(ctx, migrations.RoleRuntime); err != nil {
		return nil, err
	}
	s.hints = pg.NewHints(s.runtime, pg.ChangesChannel)
	s.scheduler, err = scheduler.New(scheduler.Config{Pool: s.runtime, Replica: s.replica, Version: version, Schema: builtFor(), Settings: settings,
		Metrics: scheduler.NewMetrics(s.registry), Log: log, Lost: s.suspect, Hints: s.hints})
	if err != nil {
		s.close()
		return nil, usageError{err}
	}
	s.handler = s.machinesOnly()
	return s, nil
}

// replicaID is unique to this process; a restarted one is another replica.
func replicaID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString()[:8])
}

// bind takes both addresses, so that a port in use is reported before anything else happens.
func (s *server) bind(public, machine string) (err error) {
	if s.public, err = net.Listen("tcp", public); err != nil {
		return fmt.Errorf("--listen %s: %w", public, err)
	}
	if s.machine, err = net.Listen("tcp", machine); err != nil {
		return fmt.Errorf("--machine-listen %s: %w", machine, err)
	}
	s.log.Info("listening", "public", s.public.Addr().String(), "machine", s.machine.Addr().String())
	return nil
}

// close gives back what newServer and bind took. After run it has nothing left to do.
func (s *server) close() {
	for _, l := range []net.Listener{s.public, s.machine} {
		if l != nil {
			l.Close()
		}
	}
	for _, pool := range s.pools {
		pool.Close()
	}
}

// How long an answer may take to be read: who takes nothing of a page is left alone soon, and a profile takes half a minute
// to make.
const (
	pageTime    = 20 * time.Second
	profileTime = time.Minute
)

// run serves until ctx ends, then withdraws admission, drains the scheduler and finishes the requests in flight, in
// that order. The caller closes s.
func (s *server) run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	servers := []*http.Server{s.serve(group, s.public, s.handler, pageTime), s.serve(group, s.machine, s.machineHandler(), profileTime)}
	for _, run := range s.always {
		group.Go(func() error { run(groupCtx); return nil })
	}
	group.Go(func() error {
		return errors.Join(s.supervise(groupCtx), shutdown(servers))
	})
	group.Go(func() error {
		<-groupCtx.Done()
		if ctx.Err() != nil { // a log that ends without this is of a replica that died
			s.log.Info("stopping", "replica", s.replica)
		}
		return nil
	})
	err := group.Wait()
	if err == nil {
		s.log.Info("stopped", "replica", s.replica)
	}
	return err
}

func (s *server) serve(group *errgroup.Group, l net.Listener, h http.Handler, answer time.Duration) *http.Server {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: answer,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	newConnections(maxConnections, s.crowded).bound(server)
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return server
}

func shutdown(servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	var errs []error
	for _, server := range servers {
		err := server.Shutdown(ctx)
		if err != nil {
			server.Close() // what is still going on loses its reader, and gives back the connection that its pool waits for
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// supervise passes the gates, works until the database is lost or ctx ends, and begins again.
func (s *server) supervise(ctx context.Context) error {
	var said string // a reason is logged when it changes, not every second
	for ctx.Err() == nil {
		if err := s.passGates(ctx); err != nil {
			s.withdraw(err)
			if reason := err.Error(); reason != said {
				s.log.WarnContext(ctx, "not ready", "reason", reason)
				said = reason
			}
			wait(ctx, gateRetry)
			continue
		}
		said = ""
		if err := s.admit(ctx); err != nil {
			s.log.ErrorContext(ctx, "admission ended", "err", err)
		}
	}
	return nil
}

// openPool makes the pool of role and puts it under the gates.
func (s *server) openPool(ctx context.Context, role string) (*pgxpool.Pool, error) {
	pool, err := s.urls.open(ctx, role, s.suspect)
	if err == nil {
		s.pools[role] = pool
	}
	return pool, err
}

// passGates is what must hold before anything is admitted, at start and after every loss of the database. The last
// gate is recovery, which only a replica that has passed the others may do.
func (s *server) passGates(ctx context.Context) error {
	for _, g := range gates(s.pools) {
		if err := g.pass(ctx); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return s.scheduler.Recover(ctx)
}

// admit keeps admission open. It returns when ctx ends or the database is lost, with the scheduler drained.
func (s *server) admit(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	drop(s.lost)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.scheduler.Run(groupCtx) })
	group.Go(func() error { s.listenForPublishing(groupCtx); return nil })
	group.Go(func() error { s.watchGates(groupCtx); return nil })
	group.Go(func() error { s.hints.Run(groupCtx, s.hintLost); return nil })
	for _, run := range s.beside {
		group.Go(func() error { run(groupCtx); return nil })
	}
	s.open()
	select {
	case <-ctx.Done():
		s.withdraw(errors.New("stopping"))
	case err := <-s.lost:
		s.withdraw(fmt.Errorf("the database is lost, or no longer as it was: %w", err))
		s.losses.Inc()
		s.log.WarnContext(ctx, "admission withdrawn", "reason", err)
	}
	cancel()
	return group.Wait()
}

// watchGates looks at the gates again while admission is open: a privilege that was granted or taken, or a migration,
// is otherwise noticed only by the statement that needs it, or never.
func (s *server) watchGates(ctx context.Context) {
	for wait(ctx, gateWatch); ctx.Err() == nil; wait(ctx, gateWatch) {
		for _, g := range gates(s.pools) {
			if err := g.pass(ctx); err != nil && ctx.Err() == nil {
				s.suspect(fmt.Errorf("%s: %w", g.name, err))
				return
			}
		}
	}
}

func (s *server) listenForPublishing(ctx context.Context) {
	url, err := s.urls.require(migrations.RoleRuntime)
	if err != nil {
		return
	}
	pg.Listen(ctx, url, catalog.NotifyChannel, s.scheduler.Wake, func(err error) {
		s.log.WarnContext(ctx, "listening for publications failed; polling goes on", "err", err)
	})
}

func (s *server) hintLost(err error) {
	s.log.Warn("pages were not told of a change; they look by themselves", "err", err)
}

// listenForChanges hears what any replica has changed.
func (s *server) listenForChanges(ctx context.Context) {
	url, err := s.urls.require(migrations.RoleConsole)
	if err != nil {
		return
	}
	pg.Listen(ctx, url, pg.ChangesChannel, func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}, func(err error) {
		s.log.WarnContext(ctx, "listening for changes failed; pages look by themselves", "err", err)
	})
}

func (s *server) open() {
	s.notReady.Store(nil)
	s.log.Info("ready", "replica", s.replica)
}

func (s *server) withdraw(reason error) {
	s.notReady.Store(&reason)
}

// readiness is nil while admission is open and the scheduler's cycles succeed.
func (s *server) readiness() error {
	if reason := s.notReady.Load(); reason != nil {
		return *reason
	}
	if last := s.scheduler.LastCycle(); !last.IsZero() && time.Since(last) > staleAfter {
		return fmt.Errorf("no successful scheduler cycle for %v", time.Since(last).Round(time.Second))
	}
	return nil
}

func (s *server) isReady() bool { return s.readiness() == nil }

func (s *server) suspect(err error) {
	select {
	case s.lost <- err:
	default:
	}
}

func drop(c chan error) {
	select {
	case <-c:
	default:
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
