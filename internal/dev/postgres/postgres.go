// Package postgres runs one private PostgreSQL server for `console dev` and for tests.
//
// # What holds
//
// A directory has at most one server, and that server has exactly one keeper: the
// process that called Start holds an flock on Dir/lock for as long as the server
// runs. Whatever ends the keeper, kill -9 included, ends the server too, by a
// parent-death signal; what outlives it all the same is found and ended by the next
// Start before a new server touches the data.
//
// PostgreSQL refuses to run as root. A keeper that is root runs it as the user who
// owns the data, at first postgres or nobody, and keeps everything else itself.
//
// # What is in Dir
//
//	lock      who keeps the server: process id and start time
//	password  of the superuser, mode 0600
//	port      the port used last, tried first the next time
//	data/     the cluster
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/qinglong/console/internal/process"
)

const (
	host      = "127.0.0.1"
	superuser = "postgres"
	// portTries bounds how often Start picks another port because someone took
	// the one it had just found free.
	portTries = 5
)

// Config says where a server lives and how it runs. Only Dir is required.
type Config struct {
	// Dir is the parent of the cluster; it is made if needed. When the caller is
	// root, the server's user must be able to reach it: not below /root, not
	// inside testing.T.TempDir.
	Dir string
	// Port to listen on; 0 picks a free one and keeps it across restarts while it
	// stays free.
	Port int
	// Durable servers survive a crash of the machine. Tests do not need that. Any server survives its own being
	// killed, with all that it committed.
	Durable bool
	// Settings are server settings by name, as in postgresql.conf. They win over
	// this package's defaults, but not over where the server listens.
	Settings map[string]string
	// Log receives what initdb and the server write. Nil discards it.
	Log io.Writer
	// Bin is the directory of initdb and postgres; empty means found on the machine.
	Bin string
}

// A Server is a running PostgreSQL server that ends with this process.
type Server struct {
	cluster  *cluster
	process  *process.Process
	port     int
	password string

	asked atomic.Bool // to end, by Stop or Kill
	done  chan struct{}
}

// Start brings up the server in cfg.Dir, making the cluster if there is none, and
// returns when it accepts connections. ctx bounds the start, not the server's life.
var errExitedZero = errors.New("exit status 0")

// ErrInUse means that another live process keeps this directory.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	c, err := openCluster(cfg)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL in %s: %w", cfg.Dir, err)
	}
	s, err := c.start(ctx, cfg)
	if err != nil {
		c.lock.release()
		return nil, fmt.Errorf("PostgreSQL in %s: %w", cfg.Dir, err)
	}
	go s.watch()
	return s, nil
}

func (c *cluster) start(ctx context.Context, cfg Config) (*Server, error) {
	if err := c.clearRemains(ctx); err != nil {
		return nil, err
	}
	password, err := c.create(ctx, cfg.Durable)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		port, err := c.choosePort(cfg.Port)
		if err != nil {
			return nil, err
		}
		if err := c.rememberPort(port); err != nil {
			return nil, err
		}
		s, err := c.launch(ctx, cfg, port, password)
		if err == nil || cfg.Port != 0 || portIsFree(port) || try == portTries {
			return s, err
		}
	}
}

// launch starts the server process once and waits until a client can sign in.
func (c *cluster) launch(ctx context.Context, cfg Config, port int, password string) (*Server, error) {
	cmd := c.command("postgres", c.serverArgs(cfg, port)...)
	// SIGQUIT is an immediate shutdown: no waiting for clients that nobody serves.
	p, err := process.Start(cmd, syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: c, process: p, port: port, password: password, done: make(chan struct{})}
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(err, p.End(process.Step{Signal: syscall.SIGQUIT, Patience: 5 * time.Second}, process.Kill))
	}
	return s, nil
}

func (s *Server) waitReady(ctx context.Context) error {
	if err := s.cluster.waitReady(ctx, s.process); err != nil {
		return err
	}
	conn, err := pgconn.Connect(ctx, s.SuperuserURL())
	if err != nil {
		return fmt.Errorf("sign in as %s: %w", superuser, err)
	}
	return conn.Close(ctx)
}

// watch gives the directory back when the server has ended, for whatever reason.
func (s *Server) watch() {
	<-s.process.Done
	s.cluster.lock.release()
	close(s.done)
}

// String says which server this is; it keeps the password out of a printed Server.
func (s *Server) String() string {
	return fmt.Sprintf("PostgreSQL %d at %s:%d in %s", s.cluster.bin.major, host, s.port, s.cluster.dir)
}

// URL returns the connection URL of user for database. It carries a password only
// for the superuser: this package knows no other.
func (s *Server) URL(user, database string) string {
	info := url.User(user)
	if user == superuser {
		info = url.UserPassword(user, s.password)
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     info,
		Host:     host + ":" + strconv.Itoa(s.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Superuser returns the name of the cluster's superuser.
func (s *Server) Superuser() string { return superuser }

// SuperuserURL returns the superuser's URL for the maintenance database. It holds
// the password: never log it.
func (s *Server) SuperuserURL() string { return s.URL(superuser, "postgres") }

// Done is closed when the server process has ended, asked to or not.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server ended by itself, with the last it wrote. It is nil while
// the server runs and when Stop or Kill ended it.
func (s *Server) Err() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	if s.asked.Load() {
		return nil
	}
	return s.cluster.log.explain(fmt.Errorf("PostgreSQL ended by itself: %w", cmp.Or(s.process.Err(), errExitedZero)))
}

// Stop shuts the server down, disconnecting its clients, and waits for its end.
// A server that does not obey is ended the hard way, and recovers at the next start.
// A server that had ended before is no error here: see Err.
func (s *Server) Stop() error {
	if s.ended() {
		return nil
	}
	s.asked.Store(true)
	err := s.process.End(
		process.Step{Signal: syscall.SIGINT, Patience: 20 * time.Second}, // fast
		process.Step{Signal: syscall.SIGQUIT, Patience: 5 * time.Second}, // immediate
		process.Kill,
	)
	if err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	<-s.done
	return nil
}

// Kill ends every process of the server at once, as a crash of the machine would
// (though what the kernel has cached still reaches the disk). Start on the same
// directory then recovers.
func (s *Server) Kill() error {
	if s.ended() {
		return nil
	}
	s.asked.Store(true)
	if err := s.cluster.killMembers(s.process); err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	<-s.done
	return nil
}

func (s *Server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
