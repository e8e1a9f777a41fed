package runmgmt

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const definitions = `
projects:
  - id: ops
    name: Operations
    tasks:
      - id: report
        name: Report
        command: [/bin/report, --day, yesterday]
        env: { REGION: eu, TOKEN: "qlsecret:v1:report-token" }
        workingDirectory: /srv
        retry: { safe: ask, note: sends an e-mail }
        triggers: [{ id: report, cron: "0 0 1 1 *", timezone: UTC, misfire: fire_once }]
`

// world is a database with one failed Run, and an operator who has a session.
type world struct {
	*pgtest.Database
	t       *testing.T
	super   *pgxpool.Pool
	manager *Manager
	user    uuid.UUID
	session uuid.UUID
	source  uuid.UUID
	cookie  []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	runtest.Publish(t, db, definitions)
	w := &world{Database: db, t: t, super: db.Super(t), cookie: bytes.Repeat([]byte{7}, 32)}
	w.manager = w.newManager(db.Pool(t, migrations.RoleRunManager))
	w.user, w.session = w.signIn("alice", policy.Operator)
	w.source = w.failed()
	return w
}

func (w *world) newManager(pool *pgxpool.Pool) *Manager {
	return New(Config{Pool: pool, Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)})
}

// failed is a new Run that has failed.
func (w *world) failed() uuid.UUID {
	w.t.Helper()
	now := runtest.Clock(w.t, w.super)
	runtest.Admit(w.t, w.Database, "ops", "report", now, now)
	code := 3
	return runtest.Execute(w.t, w.Database, run.Outcome{Status: run.Failed, ExitCode: &code, Code: "exit_code"})
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	pgtest.Exec(w.t, w.super, sql, args...)
}

func value[T any](w *world, sql string, args ...any) T {
	w.t.Helper()
	return pgtest.Value[T](w.t, w.super, sql, args...)
}

// signIn makes a User with a role and a live session.
func (w *world) signIn(name string, role policy.Role) (user, session uuid.UUID) {
	w.t.Helper()
	user, session = uuid.New(), uuid.New()
	now := runtest.Clock(w.t, w.super)
	w.exec(`INSERT INTO users (id, issuer, subject, name, created_at_ms, updated_at_ms) VALUES ($1, 'https://idp.example', $2, $2, $3, $3)`, user, name, now)
	w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 1, $2, gen_random_uuid(), 'test', $3)`, user, role, now)
	w.exec(`INSERT INTO console_sessions (id, user_id, origin, issuer, subject, peer_address, created_at_ms, last_seen_at_ms, idle_ms, expires_at_ms)
		VALUES ($1, $2, 'oidc', 'https://idp.example', $3, '192.0.2.1', $4::bigint, $4::bigint, 1800000, $4::bigint + 36000000)`, session, user, name, now)
	return user, session
}

// proof records a fresh step-up for action on the source and returns who shows it; ago is how old the authentication is.
func (w *world) proof(action policy.Permission, agoS int64, items ...uuid.UUID) Who {
	w.t.Helper()
	return w.proofOf(w.user, w.session, "alice", action, agoS, items...)
}

func (w *world) proofOf(user, session uuid.UUID, name string, action policy.Permission, agoS int64, items ...uuid.UUID) Who {
	w.t.Helper()
	if len(items) == 0 {
		items = []uuid.UUID{w.source}
	}
	p := policy.Proof{ID: uuid.New(), TransactionID: uuid.New(), SessionID: session, UserID: user, Words: "because", CookieHash: w.cookie,
		Purpose: policy.Purpose{Action: action, ProjectID: "ops"},
		Assurance: policy.Assurance{Level: "multi_factor", Issuer: "https://idp.example", Subject: name, ClientID: "console", ACR: "gold", AMR: []string{"pwd", "otp", "mfa"},
			AuthTimeS: runtest.Clock(w.t, w.super)/1000 - agoS, SecondFactor: "always"}}
	for _, id := range items {
		s := w.read(id)
		p.Purpose.Items = append(p.Purpose.Items, policy.Item{Run: id, Version: s.Version, Digest: s.ExecutionDigest})
	}
	if err := policy.InsertProof(w.t.Context(), w.Pool(w.t, migrations.RoleAuthn), &p); err != nil {
		w.t.Fatal(err)
	}
	return Who{SessionID: session, ProofID: p.ID, CookieHash: w.cookie,
		Actor: policy.Actor{Type: policy.ByUser, UserID: &user, Issuer: "https://idp.example", Subject: name, Name: name, SessionID: &session, Peer: "192.0.2.1", RequestID: "req"}}
}

func (w *world) read(id uuid.UUID) run.Source {
	w.t.Helper()
	s, err := run.ReadSource(w.t.Context(), w.super, "ops", id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// form is the retry of the source as its preview shows it now.
func (w *world) form(who Who) Retry {
	w.t.Helper()
	s := w.read(w.source)
	return Retry{Who: who, MutationID: uuid.New(), ProjectID: "ops", RunID: w.source, SourceStatus: s.Status, SourceVersion: s.Version,
		PlanDigest: s.ExecutionDigest, NewestRetry: s.NewestRetry, Words: "because"}
}

// ledger counts what a retry writes.
type ledger struct{ Retries, Attempts, Events, Allowed, Denied, Consumed int }

func (w *world) ledger() ledger {
	w.t.Helper()
	return ledger{
		value[int](w, `SELECT count(*) FROM runs WHERE trigger_type = 'run_manual_retry'`),
		value[int](w, `SELECT count(*) FROM run_attempts a JOIN runs r ON r.id = a.run_id WHERE r.trigger_type = 'run_manual_retry'`),
		value[int](w, `SELECT count(*) FROM run_events e JOIN runs r ON r.id = e.run_id WHERE r.trigger_type = 'run_manual_retry'`),
		value[int](w, `SELECT count(*) FROM security_audit_events WHERE outcome = 'allowed' AND action IN ('run.retry', 'run.stop')`),
		value[int](w, `SELECT count(*) FROM security_audit_events WHERE outcome = 'denied'`),
		value[int](w, `SELECT count(*) FROM step_up_proofs WHERE consumed_at_ms IS NOT NULL`),
	}
}

// reasonOf is the reason of a refusal, or what else the error is.
func reasonOf(err error) string {
	if err == nil {
		return "made"
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return string(r.Reason)
	}
	return err.Error()
}

// change runs statements in one transaction with triggers and foreign keys off.
func (w *world) change(sql ...string) {
	w.t.Helper()
	err := pgx.BeginFunc(w.t.Context(), w.super, func(tx pgx.Tx) error {
		for _, s := range append([]string{`SET LOCAL session_replication_role = replica`}, sql...) {
			if _, err := tx.Exec(w.t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("%v: %v", sql, err)
	}
}

// waiting blocks until some backend waits for a lock.
func (w *world) waiting() {
	w.t.Helper()
	pgtest.AwaitLock(w.t, w.super)
}
