package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// due is how many Schedules fall due in these tests: fewer than one claim takes, so that one replica gets them all.
const due = 8

// holder starts two replicas, makes every Schedule due while no Run can be inserted, and returns the replica that has
// claimed them all, the other one, when the claims expire and the function that lets Runs be inserted again.
func holder(t *testing.T, super *pgxpool.Pool, vars map[string]string) (has, other *replica, expiresMS int64, release func()) {
	t.Helper()
	flags := []string{"--claim-lease", "1s", "--database-deadline", "900ms"}
	has, other = serve(t, vars, flags...), serve(t, vars, flags...)
	has.ready(t)
	other.ready(t)
	initialised(t, super)
	release = holdRuns(t, super)
	other.freeze(t) // or they would share the claims
	makeDue(t, super)
	eventually(t, "one replica holds every claim", func() bool {
		return pgtest.Value[int64](t, super, "SELECT count(*) FROM trigger_schedules WHERE claim_owner LIKE $1", has.ownerLike()) == due
	})
	expiresMS = pgtest.Value[int64](t, super, "SELECT min(claim_expires_at_ms) FROM trigger_schedules")
	other.signal(syscall.SIGCONT)
	return has, other, expiresMS, release
}

// admittedOnce waits until no Schedule is due and checks that each has one Run, admitted by the process by.
func admittedOnce(t *testing.T, super *pgxpool.Pool, by *replica, notBeforeMS int64) {
	t.Helper()
	eventually(t, "nothing is due", func() bool {
		return pgtest.Value[int64](t, super, "SELECT count(*) FROM trigger_schedules WHERE claim_token IS NOT NULL OR next_fire_at_ms <= extract(epoch FROM now()) * 1000") == 0
	})
	var runs, triggers, attempts, firstMS, byOther, takenOver int64
	err := super.QueryRow(t.Context(), `
		SELECT count(*), count(DISTINCT trigger_id), (SELECT count(*) FROM run_attempts), min(created_at_ms),
			(SELECT count(*) FROM run_events WHERE actor_id NOT LIKE $1),
			(SELECT count(DISTINCT trigger_id) FROM schedule_events WHERE type = 'taken_over' AND claim_owner LIKE $1)
		FROM runs`, by.ownerLike()).Scan(&runs, &triggers, &attempts, &firstMS, &byOther, &takenOver)
	if err != nil {
		t.Fatal(err)
	}
	if runs != due || triggers != due || attempts != due {
		t.Errorf("%d Runs of %d Triggers with %d Attempts, want %d of each: none twice, none lost", runs, triggers, attempts, due)
	}
	if byOther != 0 || takenOver != due {
		t.Errorf("%d Events are not the survivor's, and it took %d Schedules over, want 0 and %d", byOther, takenOver, due)
	}
	if firstMS < notBeforeMS {
		t.Errorf("the first Run was admitted %d ms before the lease of the other replica ended", notBeforeMS-firstMS)
	}
}

func TestAnotherReplicaAdmitsWhatADeadOneHeld(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	victim, survivor, expiresMS, release := holder(t, super, vars)
	victim.signal(syscall.SIGKILL)
	<-victim.Done
	release()
	admittedOnce(t, super, survivor, expiresMS)
	if n := survivor.metrics(t)["ql3_scheduler_takeovers_total"]; n < due {
		t.Errorf("the survivor's metrics count %v takeovers, want at least %d", n, due)
	}
}

func TestAFrozenReplicaDoesNoHarmWhenItWakes(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	frozen, survivor, expiresMS, release := holder(t, super, vars)
	frozen.freeze(t)
	release()
	admittedOnce(t, super, survivor, expiresMS)
	frozen.signal(syscall.SIGCONT)
	eventually(t, "the replica that woke has settled what it had claimed", func() bool {
		m := frozen.metrics(t)
		for _, outcome := range []string{"admitted", "already_admitted", "skipped", "initialized", "raced", "failed"} {
			m["ql3_scheduler_claims_total"] -= m[`ql3_scheduler_outcomes_total{outcome="`+outcome+`"}`]
		}
		return m["ql3_scheduler_claims_total"] == 0
	})
	frozen.ready(t)
	admittedOnce(t, super, survivor, expiresMS)
}

func TestStopping(t *testing.T) {
	t.Parallel()
	db, vars := published(t, due)
	super := db.Super(t)
	p := serve(t, vars)
	p.ready(t)
	initialised(t, super)
	release := holdRuns(t, super)
	makeDue(t, super)
	eventually(t, "the replica holds every claim", func() bool {
		return pgtest.Value[int64](t, super, "SELECT count(claim_token) FROM trigger_schedules") == due
	})
	p.signal(syscall.SIGTERM)
	eventually(t, "admission is withdrawn while the cycle in flight goes on", func() bool {
		public, machine := get(t.Context(), p.public+"/readyz", ""), get(t.Context(), p.machine+"/readyz", "")
		return public.status == http.StatusServiceUnavailable && machine == answer{http.StatusServiceUnavailable, "not ready: stopping\n"}
	})
	if got := get(t.Context(), p.public+"/livez", ""); got.status != http.StatusOK {
		t.Errorf("/livez while draining = %+v, want 200", got)
	}
	release()
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if log := p.output.String(); !strings.Contains(log, `"msg":"stopping"`) || !strings.Contains(log[strings.Index(log, `"msg":"stopping"`):], `"msg":"stopped"`) {
		t.Errorf("the log does not say that it was asked to stop, and then that it stopped:\n%s", log)
	}
	if claims, runs := pgtest.Value[int64](t, super, "SELECT count(claim_token) FROM trigger_schedules"), pgtest.Value[int64](t, super, "SELECT count(*) FROM runs"); claims != 0 || runs != due {
		t.Errorf("%d claims and %d Runs are left, want none and %d: what was claimed is finished", claims, runs, due)
	}
}

func TestWaitingForTheDatabase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(pgtest.Dir(t), "postgres")
	server, err := pgtest.StartIn(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	vars := serverVariables(t, server)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	p := serve(t, vars)
	notReady := func(reason string) {
		t.Helper()
		eventually(t, "not ready: "+reason, func() bool {
			got := get(t.Context(), p.machine+"/readyz", "")
			return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, reason)
		})
		for path, want := range map[string]answer{"/livez": {http.StatusOK, ""}, "/readyz": {http.StatusServiceUnavailable, ""}} {
			if got := get(t.Context(), p.public+path, ""); got != want {
				t.Errorf("%s = %+v, want %+v: no reason is given to the public", path, got, want)
			}
		}
		if strings.Contains(p.output.String(), "a password of its own") {
			t.Error("the log holds a password")
		}
	}
	notReady("connection refused")

	if server, err = pgtest.StartIn(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	console(t, vars, "migrate", "bootstrap").said(t)
	notReady("the schema is at version 0")
	console(t, vars, "migrate", "up").said(t)
	p.ready(t)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	notReady("")
	if server, err = pgtest.StartIn(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	p.ready(t)
	p.signal(syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	vars, taken := variables(pgtest.New(t)), l.Addr().String()
	for flag, other := range map[string]string{"--listen": "--machine-listen", "--machine-listen": "--listen"} {
		got := console(t, vars, "serve", flag, taken, other, "127.0.0.1:0", "--log-level", "error")
		got.refused(t, exitFailure, flag+" "+taken+": ")
		if !strings.Contains(got.stderr, "address already in use") {
			t.Errorf("serve %s %s says %q, want the reason", flag, taken, got.stderr)
		}
	}
}
