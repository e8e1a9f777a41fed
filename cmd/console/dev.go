package main

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/dev/executor"
	"github.com/qinglong/console/internal/dev/idp"
	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

//go:embed sample.yaml
var sample string

const (
	devDatabase   = "console"
	sampleProject = "sample"
	devSlots      = 4
	rootStateDir  = "/var/lib/qinglong-console"
)

type devCmd struct {
	StateDir       string `help:"Where the database and dev.json live. Default: the user's state directory; as root /var/lib/qinglong-console."`
	Listen         string `help:"Loopback address of the console, such as 127.0.0.1:8080. Default: the port of the last time, or a free one."`
	MachineListen  string `default:"127.0.0.1:0" help:"Address of metrics, profiles and readiness reasons."`
	IDPListen      string `name:"idp-listen" help:"Loopback address of the development identity provider. Default: the port of the last time, or a free one. Its users belong to that port."`
	PostgresPort   int    `help:"Port of the development database. Default: the port of the last time, or a free one."`
	PostgresBin    string `help:"Directory of the PostgreSQL server's programs. Default: found on this machine."`
	schedulerFlags `embed:""`
	logFlags       `embed:""`
}

// devFile is dev.json: everything a script needs to use the running instance.
type devFile struct {
	URL        string            `json:"url"`
	MachineURL string            `json:"machineUrl"`
	Issuer     string            `json:"issuer"` // of the development identity provider
	Databases  map[string]string `json:"databases"`
	Accounts   []idp.Account     `json:"accounts"`
}

// Run starts everything on this machine and stays until it is asked to stop.
func (c devCmd) Run(ctx context.Context, e env) error {
	if err := c.validate(); err != nil {
		return err
	}
	dir, err := c.stateDir(e.getenv)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "Starting PostgreSQL in %s …\n", dir)
	server, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(dir, "postgres"), Port: c.PostgresPort, Durable: true, Bin: c.PostgresBin, Log: io.Discard})
	if err != nil {
		return err
	}
	defer server.Stop()
	last := readDevFile(dir)
	os.Remove(devFilePath(dir)) // until this instance has written its own
	urls, err := prepare(ctx, server)
	if err != nil {
		return err
	}
	return c.serve(ctx, e, server, urls, dir, last)
}

func (c devCmd) validate() error {
	if err := c.settings().Validate(); err != nil {
		return usageError{err}
	}
	if c.PostgresPort < 0 || c.PostgresPort > 65535 {
		return usage("--postgres-port %d is no port; write one up to 65535, or none for the port of the last time", c.PostgresPort)
	}
	for _, address := range []string{c.Listen, c.MachineListen, c.IDPListen} {
		host, _, err := net.SplitHostPort(cmp.Or(address, "127.0.0.1:0"))
		if err != nil {
			return usage("%q is no address; write one such as 127.0.0.1:8080", address)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return usage("console dev listens on loopback only, not on %q: it has accounts anyone on this machine can read", host)
		}
	}
	return nil
}

func (c devCmd) stateDir(getenv func(string) string) (string, error) {
	dir := c.StateDir
	switch {
	case dir != "":
	case os.Geteuid() == 0:
		dir = rootStateDir
	case getenv("XDG_STATE_HOME") != "":
		dir = filepath.Join(getenv("XDG_STATE_HOME"), "qinglong-console")
	case getenv("HOME") != "":
		dir = filepath.Join(getenv("HOME"), ".local", "state", "qinglong-console")
	default:
		return "", usage("there is no HOME to keep the database in; name a directory with --state-dir")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// prepare brings the database to what serve expects, with new passwords, and publishes the sample.
func prepare(ctx context.Context, server *postgres.Server) (databases, error) {
	if err := createDatabase(ctx, server); err != nil {
		return nil, err
	}
	urls := databases{}
	for _, v := range roleVariables {
		urls[v.role] = roleURL(server, v.role)
	}
	sql, err := bootstrapSQL(urls)
	if err != nil {
		return nil, err
	}
	if err := bootstrap(ctx, server.URL(server.Superuser(), devDatabase), sql); err != nil {
		return nil, err
	}
	err = withMigrations(ctx, urls, func(pool *pgxpool.Pool, m *pg.Migrations) error {
		_, err := knownSchema(ctx, pool)
		if err == nil {
			_, err = m.Up(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return urls, publishSample(ctx, urls)
}

func createDatabase(ctx context.Context, server *postgres.Server) error {
	conn, err := pgx.Connect(ctx, server.SuperuserURL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", devDatabase).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+devDatabase)
	return err
}

func roleURL(server *postgres.Server, role string) secret {
	u, err := url.Parse(server.URL(role, devDatabase))
	if err != nil {
		panic(err) // the server makes its URLs itself
	}
	u.User = url.UserPassword(role, rand.Text())
	return secret(u.String())
}

func publishSample(ctx context.Context, urls databases) error {
	manifest, err := catalog.Read("sample.yaml", strings.NewReader(sample))
	if err != nil {
		return err
	}
	pool, err := urls.open(ctx, migrations.RoleAdmin, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = catalog.Apply(ctx, pool, manifest, catalog.Options{})
	return err
}

// serve runs serve's own code on the role pools, with the local executor and the identity provider beside it.
func (c devCmd) serve(ctx context.Context, e env, db *postgres.Server, urls databases, dir string, last devFile) error {
	log := c.logger(e.stderr)
	s, err := newServer(ctx, c.settings(), urls, log)
	if err != nil {
		return err
	}
	defer s.close()
	s.beside = append(s.beside, func(ctx context.Context) {
		executor.Run(ctx, executor.Config{Pool: s.runtime, Name: "local-executor", Slots: devSlots, Log: log, Changed: s.hints.Changed})
	})
	if err := c.bind(s, last); err != nil {
		return err
	}
	file := describe(s, urls)
	accounts, err := c.signIn(ctx, s, &file, dir, last)
	if err != nil {
		return err
	}
	if err := grantAccounts(ctx, s, urls, file.Issuer, accounts); err != nil {
		return err
	}
	if err := writeDevFile(dir, file); err != nil {
		return err
	}
	announce(e.stdout, file, dir)
	return runWith(ctx, s, db)
}

// runWith ends the instance when its database server ends by itself.
func runWith(ctx context.Context, s *server, db *postgres.Server) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-db.Done():
			cancel(fmt.Errorf("the development PostgreSQL ended: %w", cmp.Or(db.Err(), errors.New("it was stopped"))))
		case <-ctx.Done():
		}
	}()
	err := s.run(ctx)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, err)
	}
	return err
}

// bind takes the wanted port, else that of the last time, so that a bookmark keeps working, else a free one.
func (c devCmd) bind(s *server, last devFile) error {
	public, err := listenAgain("--listen", c.Listen, last.URL)
	if err != nil {
		return err
	}
	machine, err := net.Listen("tcp", c.MachineListen)
	if err != nil {
		public.Close()
		return fmt.Errorf("--machine-listen %s: %w", c.MachineListen, err)
	}
	s.public, s.machine = public, machine
	return nil
}

// listenAgain listens on wanted, else on the port of the URL of the last time, else on any free port.
func listenAgain(flag, wanted, lastURL string) (net.Listener, error) {
	if wanted != "" {
		l, err := net.Listen("tcp", wanted)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", flag, wanted, err)
		}
		return l, nil
	}
	if u, err := url.Parse(lastURL); err == nil && u.Port() != "" {
		if l, err := net.Listen("tcp", "127.0.0.1:"+u.Port()); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

func describe(s *server, urls databases) devFile {
	_, port, _ := net.SplitHostPort(s.public.Addr().String()) // an address the listener gave
	f := devFile{URL: "http://localhost:" + port, MachineURL: "http://" + s.machine.Addr().String(), Databases: map[string]string{}}
	names := map[string]string{migrations.RoleMigration: "migration", migrations.RoleAdmin: "admin", migrations.RoleRuntime: "runtime",
		migrations.RoleRunManager: "runManager", migrations.RoleAuthn: "authn", migrations.RoleConsole: "web"}
	for role, name := range names {
		f.Databases[name] = urls[role].reveal()
	}
	return f
}

func devFilePath(dir string) string { return filepath.Join(dir, "dev.json") }

// readDevFile returns what the last instance left behind, or nothing.
func readDevFile(dir string) (f devFile) {
	content, err := os.ReadFile(devFilePath(dir))
	if err == nil {
		json.Unmarshal(content, &f) // a damaged file is as good as none
	}
	return f
}

// writeDevFile makes the file appear whole or not at all.
func writeDevFile(dir string, f devFile) error {
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	part := devFilePath(dir) + ".part"
	if err := os.WriteFile(part, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(part, devFilePath(dir))
}
