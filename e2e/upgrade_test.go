package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// The consoles of two releases to come: the next one adds to the schema, and the one after it takes away what the
// present one uses.
var (
	nextConsole = sync.OnceValues(func() (string, error) { return successor("console-next", expands) })
	lastConsole = sync.OnceValues(func() (string, error) { return successor("console-last", expands, contracts) })
)

// A change is a migration that does not exist yet, and what it makes of the lists beside the migrations. Its text is a
// format of its number and its floor.
type change struct {
	name, sql string
	raises    bool // the floor, to the version before it
	lists     *strings.Replacer
}

var expands = change{name: "expands", sql: `-- +goose Up
CREATE TABLE ql3.things (id bigint PRIMARY KEY);
ALTER TABLE ql3.runs ADD COLUMN thing_id bigint REFERENCES ql3.things (id);
ALTER TABLE ql3.step_up_proofs ADD COLUMN thing text;
GRANT SELECT ON ql3.things TO ql3_runtime;
GRANT SELECT (thing) ON ql3.step_up_proofs TO ql3_console;
INSERT INTO ql3.schema_floors (version, floor) VALUES (%[1]d, %[2]d);
-- +goose Down
DELETE FROM ql3.schema_floors WHERE version = %[1]d;
ALTER TABLE ql3.step_up_proofs DROP COLUMN thing;
ALTER TABLE ql3.runs DROP COLUMN thing_id;
DROP TABLE ql3.things;
`, lists: strings.NewReplacer(
	"ql3_console         step_up_proofs(id, ", "ql3_runtime things SELECT\nql3_console step_up_proofs(thing, id, ",
	"table     step_up_proofs(id, ", "table things(id)\ntable step_up_proofs(thing, id, ",
	"table     runs(id, ", "table runs(thing_id, id, ")}

// contracts breaks no statement of a present console: only the floor keeps it out.
var contracts = change{name: "contracts", raises: true, sql: `-- +goose Up
ALTER TABLE ql3.things ADD COLUMN name text NOT NULL;
INSERT INTO ql3.schema_floors (version, floor) VALUES (%[1]d, %[2]d);
-- +goose Down
DELETE FROM ql3.schema_floors WHERE version = %[1]d;
ALTER TABLE ql3.things DROP COLUMN name;
`, lists: strings.NewReplacer("table things(id)", "table things(id, name)")}

// present is the version of the newest migration there is: they are numbered without a gap.
func present() (int, error) {
	files, err := filepath.Glob("../migrations/*.sql")
	return len(files), err
}

// successor builds a console that has changes after the migrations there are.
func successor(name string, changes ...change) (string, error) {
	newest, err := present()
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs("../migrations")
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for i, c := range changes {
		number, floor := newest+i+1, newest
		if c.raises {
			floor = number - 1
		}
		files[filepath.Join(dir, fmt.Sprintf("%05d_%s.sql", number, c.name))] = fmt.Sprintf(c.sql, number, floor)
	}
	for _, list := range []string{"privileges.txt", "objects.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, list))
		if err != nil {
			return "", err
		}
		for _, c := range changes {
			text = []byte(c.lists.Replace(string(text)))
		}
		files[filepath.Join(dir, list)] = string(text)
	}
	overlay, err := writeOverlay(name, files)
	if err != nil {
		return "", err
	}
	return build(name, "-overlay", overlay)
}

// TestUpgradeWithoutDowntime exchanges the replicas of one database while a Trigger is due every second: the next release
// adds to the schema while the present one works on it, both work side by side, and the one after raises the floor. Each
// second has its Run, or the account says why not.
func TestUpgradeWithoutDowntime(t *testing.T) {
	t.Parallel()
	old, next, last := built(t, console), built(t, nextConsole), built(t, lastConsole)
	version, err := present()
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	run(t, vars, everySecond(2), "apply", "-f", "-")
	replica := func(program string) *replica {
		return serve(t, program, vars, "--claim-lease", "2s", "--database-deadline", "1900ms", "--cadence", "200ms")
	}
	older, other := replica(old), replica(old)

	said := migrate(t, next, vars, 0, "up")
	contains(t, said, fmt.Sprintf("applied %05d_expands.sql", version+1))
	contains(t, migrate(t, next, vars, 0, "status"), fmt.Sprintf("schema %d takes consoles built for %d or later", version+1, version), "built for schema "+fmt.Sprint(version))
	newer := replica(next)
	alone(t, super, newer, older, other)
	alone(t, super, older, newer, other)
	other.kill()

	// The old one comes back through its gates, on the newer schema.
	pgtest.Value[int](t, super, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'console %'")
	eventually(t, "the old replica has lost its database", func() bool { return older.metric(t, "ql3_admission_losses_total") > 0 })
	eventually(t, "the old replica is ready again", func() bool { return older.isReady(t) })
	admits(t, super, older)

	contains(t, migrate(t, last, vars, 1, "up"), fmt.Sprintf("built for schema %d", version), "--withdraw-replicas")
	if got := pgtest.Value[int](t, super, "SELECT max(version_id) FROM ql3.goose_db_version"); got != version+1 {
		t.Errorf("the schema is at version %d after a refused migration, want %d", got, version+1)
	}
	contains(t, migrate(t, last, vars, 0, "up", "--withdraw-replicas"), fmt.Sprintf("built for schema %d) stops admitting", version), "contracts.sql")
	eventually(t, "the old replica has withdrawn, and says why", func() bool {
		status, reason := older.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(reason, fmt.Sprintf("built for version %d or later, this one was built for %d; run a newer console", version+1, version))
	})
	before := runsOf(t, super, older)
	admits(t, super, newer)
	newest := replica(last)
	alone(t, super, newest, newer)
	if got := runsOf(t, super, older); got != before {
		t.Errorf("the old replica has admitted %d Runs after it had withdrawn, want none", got-before)
	}
	if diff := cmp.Diff(unaccounted{}, one(t, super, pgx.RowToStructByPos[unaccounted], unaccountedSQL)); diff != "" {
		t.Errorf("what the upgrade did to the seconds (-want +got):\n%s", diff)
	}
}

func built(t *testing.T, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// migrate runs one of the migrate commands of program, which must end with code, and returns what it wrote.
func migrate(t *testing.T, program string, vars map[string]string, code int, args ...string) string {
	t.Helper()
	p := start(t, command(program, vars, append([]string{"migrate"}, args...)...))
	<-p.Done
	if got := p.Cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("migrate %v ended with code %d, want %d:\n%s", args, got, code, p.output)
	}
	return p.output.String()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it says\n%s\nwant %q in it", text, part)
		}
	}
}

// alone freezes the others until r has admitted what they do not, and lets them go on.
func alone(t *testing.T, super *pgxpool.Pool, r *replica, others ...*replica) {
	t.Helper()
	for _, o := range others {
		o.Cmd.Process.Signal(syscall.SIGSTOP)
	}
	admits(t, super, r)
	for _, o := range others {
		o.Cmd.Process.Signal(syscall.SIGCONT)
	}
}

// admits waits until r has admitted three Runs more.
func admits(t *testing.T, super *pgxpool.Pool, r *replica) {
	t.Helper()
	before := runsOf(t, super, r)
	eventually(t, "the replica admits", func() bool { return runsOf(t, super, r) >= before+3 })
}

func runsOf(t *testing.T, super *pgxpool.Pool, r *replica) int {
	t.Helper()
	return pgtest.Value[int](t, super, "SELECT count(*) FROM ql3.run_events WHERE type = 'run.created' AND actor_id LIKE $1", r.actor())
}

// unaccounted counts what may have become of the seconds of Triggers that are due each second.
type unaccounted struct {
	Lost    int // Triggers with a second between their first Run and their last that has neither a Run nor an account
	Doubled int // seconds with two Runs
	Early   int // Runs before their time
}

const unaccountedSQL = `
WITH spans AS (
    SELECT trigger_id, (max(scheduled_for_ms) - min(scheduled_for_ms)) / 1000 + 1 AS seconds, count(*) AS runs,
        min(scheduled_for_ms) AS first, max(scheduled_for_ms) AS last
    FROM ql3.runs WHERE project_id = 'ops' GROUP BY trigger_id
), passed AS (
    SELECT s.trigger_id, coalesce(sum(e.instants), 0) AS seconds FROM spans s
    LEFT JOIN ql3.schedule_events e ON e.trigger_id = s.trigger_id AND e.type IN ('coalesced', 'skipped') AND e.first_at_ms BETWEEN s.first AND s.last
    GROUP BY s.trigger_id
)
SELECT (SELECT count(*) FROM spans JOIN passed USING (trigger_id) WHERE spans.seconds <> spans.runs + passed.seconds),
    (SELECT count(*) - count(DISTINCT (trigger_id, scheduled_for_ms)) FROM ql3.runs),
    (SELECT count(*) FROM ql3.runs WHERE created_at_ms < scheduled_for_ms)`
