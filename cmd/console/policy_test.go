package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

const (
	aliceID = "00000000-0000-7000-8000-00000000000a"
	malID   = "00000000-0000-7000-8000-00000000000b"
	alice   = "Alice (issuer https://idp.example, subject alice)"
)

// people is a database with a Project and two Users, one of whom has chosen a hostile name.
func people(t *testing.T) (vars map[string]string, super *pgxpool.Pool) {
	t.Helper()
	db := pgtest.New(t)
	super = db.Super(t)
	_, err := super.Exec(t.Context(), `
		INSERT INTO projects (id, name, created_at_ms, updated_at_ms) VALUES ('ops', 'Operations', 1, 1);
		INSERT INTO users (id, issuer, subject, name, email, email_verified, created_at_ms, updated_at_ms) VALUES
			('`+aliceID+`', 'https://idp.example', 'alice', 'Alice', 'alice@example.org', true, 1, 1),
			('`+malID+`', 'https://idp.example', E'm\tal', E'\x1b[2J\nowner \u202Eevil\\', 'mal@example.org', false, 1, 1)`)
	if err != nil {
		t.Fatal(err)
	}
	return variables(db), super
}

// A terminal is a device on which answer is typed.
type terminal struct{ *strings.Reader }

func (terminal) Stat() (fs.FileInfo, error) { return os.Stat("/dev/null") } // a character device too

// asked runs a command at a terminal.
func asked(t *testing.T, answer string, vars map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := run(t.Context(), env{args: args, getenv: func(name string) string { return vars[name] },
		stdin: terminal{strings.NewReader(answer)}, stdout: &stdout, stderr: &stderr})
	return result{code, stdout.String(), stderr.String()}
}

const bindingsOf = `SELECT coalesce(string_agg(right(user_id::text, 1) || version || coalesce(role, '-'), ' ' ORDER BY user_id, version), '') FROM project_role_bindings`

func TestGrantAndRevoke(t *testing.T) {
	vars, super := people(t)
	grant := func(more ...string) []string { return append([]string{"grant", "--project", "ops"}, more...) }
	steps := []struct {
		name string
		args []string
		says string
		then string // the bindings after it
	}{
		{"by id", grant("--role", "viewer", "--user", aliceID, "-y", "--reason", "INC-7"), "granted viewer in ops to " + alice + "\n", "a1viewer"},
		{"by address, another role", grant("--role", "owner", "--email", "alice@example.org", "--yes"),
			"granted owner in ops in place of viewer to " + alice + "\n", "a1viewer a2owner"},
		{"the same role", grant("--role", "owner", "--user", aliceID, "--yes"), "unchanged: " + alice + " is owner in ops already\n", "a1viewer a2owner"},
		{"by issuer and subject", grant("--subject", "https://idp.example", "m\tal", "--role", "viewer", "--yes"),
			`granted viewer in ops to \x1b[2J\nowner \u202eevil\\ (issuer https://idp.example, subject m\tal)` + "\n", "a1viewer a2owner b1viewer"},
		{"revoked", []string{"revoke", "--project", "ops", "--user", aliceID, "--yes"}, "revoked owner in ops from " + alice + "\n", "a1viewer a2owner a3- b1viewer"},
		{"revoked again", []string{"revoke", "--project", "ops", "--user", aliceID, "--yes"}, "unchanged: " + alice + " has no role in ops\n", "a1viewer a2owner a3- b1viewer"},
	}
	for _, step := range steps {
		got := console(t, vars, step.args...)
		if diff := cmp.Diff(result{0, step.says, ""}, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if got := pgtest.Value[string](t, super, bindingsOf); got != step.then {
			t.Errorf("%s: bindings are %s, want %s", step.name, got, step.then)
		}
	}
	if n := pgtest.Value[int64](t, super, `SELECT count(*) FROM security_audit_events WHERE actor_type = 'command' AND actor LIKE '% at %'`); n != 4 {
		t.Errorf("%d audit rows, want one for each of the 4 changes", n)
	}
}

// A provider's opaque subject may begin with anything, and the console's own page says how to name it.
func TestSubjectThatLooksLikeAFlag(t *testing.T) {
	vars, super := people(t)
	for _, subject := range []string{"-aB3_", "--yes", "-"} {
		pgtest.Exec(t, super, `UPDATE users SET subject = $2 WHERE id = $1`, malID, subject)
		console(t, vars, "grant", "--project", "ops", "--role", "viewer", "--subject", "https://idp.example", subject).refused(t, exitUsage, "nothing was changed. To grant viewer in ops")
		if got := console(t, vars, "revoke", "--project", "ops", "--yes", "--subject=https://idp.example", subject); got.code != 0 {
			t.Errorf("revoke of the subject %s = %+v", subject, got)
		}
	}
}

func TestConfirmation(t *testing.T) {
	vars, super := people(t)
	grant := []string{"grant", "--project", "ops", "--role", "viewer", "--user", aliceID}
	console(t, vars, grant...).refused(t, exitUsage,
		"nothing was changed. To grant viewer in ops to "+alice+", add --yes: there is no terminal to ask on")
	question := "grant viewer in ops to " + alice + "? [y/N] "
	for _, answer := range []string{"", "\n", "n\n", "yep\n"} {
		got := asked(t, answer, vars, grant...)
		if want := (result{exitUsage, "", question + "console: not confirmed; nothing was changed\n"}); got != want {
			t.Errorf("answering %q = %+v, want %+v", answer, got, want)
		}
	}
	if got := pgtest.Value[string](t, super, bindingsOf); got != "" {
		t.Errorf("bindings after no confirmation are %s", got)
	}
	if got, want := asked(t, "Yes\n", vars, grant...), (result{0, "granted viewer in ops to " + alice + "\n", question}); got != want {
		t.Errorf("answering yes = %+v, want %+v", got, want)
	}
}

func TestPolicyCommandsRefuse(t *testing.T) {
	vars, super := people(t)
	tests := []struct {
		args string
		want string
	}{
		{"grant --project ops --role viewer --yes", "whom? Write --user ID, --subject ISSUER SUBJECT or --email ADDRESS"},
		{"grant --project ops --role viewer --user alice --yes", `"alice" names no user: write the user's id`},
		{"grant --project ops --role viewer --email mal@example.org --yes", `no user has "mal@example.org" as a verified address`},
		{"grant --project ops --role viewer --subject https://idp.example/ alice --yes", `issuer "https://idp.example/" has no user with subject "alice" here`},
		{"grant --project nope --role viewer --user " + aliceID + " --yes", `there is no project "nope": publish it first`},
		{"grant --project nope --role viewer --user " + aliceID, `there is no project "nope": publish it first`},
		{"revoke --project nope --user " + aliceID, `there is no project "nope": publish it first`},
		{"grant --project ops --role root --user " + aliceID, `--role must be one of`},
		{"grant --role viewer --user " + aliceID, `--project`},
		{"grant --project ops --role viewer --subject https://idp.example", "subject after the issuer"},
		{"grant --project ops --role viewer --user " + aliceID + " --email alice@example.org", "can't be used together"},
		{"grant --project ops --role viewer --user " + aliceID + " --yes --reason " + strings.Repeat("x", 501), "the reason has 501 characters, want at most 500"},
		{"grant --project ops --role viewer --user " + aliceID + " --reason " + strings.Repeat("x", 501), "the reason has 501 characters, want at most 500"},
		{"user sign-out --everybody --yes", "--reason"},
		{"user sign-out --everybody --yes --reason=", "--reason is empty: say why everybody is signed out"},
		{"user sign-out --everybody --yes --reason " + strings.Repeat("x", 501), "the reason has 501 characters, want at most 500"},
		{"user disable --yes", "whom? Write "},
		{"user disable --user 00000000-0000-7000-8000-00000000000f", "no user has the id 00000000-0000-7000-8000-00000000000f"},
		{"bindings --user nobody", `"nobody" names no user`},
		{"bindings --project nope", `there is no project "nope": publish it first`},
		{"bindings --project nope --json", `there is no project "nope": publish it first`},
		{"audit --project nope", `there is no project "nope": publish it first`},
		{"audit --project nope --json", `there is no project "nope": publish it first`},
		{"audit --run 7", `--run "7" is no run's id`},
		{"audit --since tomorrow", `--since "tomorrow" is no time; write one such as yesterday`},
		{"audit --until 25:00", `--until "25:00" is no time`},
		{"audit --since yesterday --zone Mars/Olympus", `--zone "Mars/Olympus" is no time zone`},
		{"audit --since -24h", `--since`},
		{"audit --before x", `--before "x" is not a place in the audit`},
		{"audit -n 0", "-n is 0, want 1 to 500"},
		{"audit --outcome maybe", "--outcome must be one of"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) { console(t, vars, strings.Fields(tt.args)...).refused(t, exitUsage, tt.want) })
	}
	console(t, nil, "bindings").refused(t, exitUsage, "CONSOLE_ADMIN_DATABASE_URL is not set")
	console(t, nil, "audit").refused(t, exitUsage, "CONSOLE_WEB_DATABASE_URL is not set")
	if n := pgtest.Value[int64](t, super, `SELECT count(*) FROM security_audit_events`); n != 0 {
		t.Errorf("refused commands wrote %d audit rows", n)
	}
}

func TestSignOutOfEverybodyAsks(t *testing.T) {
	vars, super := people(t)
	if _, err := super.Exec(t.Context(), `INSERT INTO console_sessions (id, user_id, origin, issuer, subject, peer_address, created_at_ms, last_seen_at_ms, idle_ms, expires_at_ms)
		VALUES (gen_random_uuid(), '`+aliceID+`', 'oidc', 'https://idp.example', 'alice', '10.0.0.1', 1, 1, 1000, 2000)`); err != nil {
		t.Fatal(err)
	}
	open := func() int64 {
		return pgtest.Value[int64](t, super, `SELECT count(*) FROM console_sessions WHERE revoked_at_ms IS NULL`)
	}
	signOut := []string{"user", "sign-out", "--everybody", "--reason", "restored"}
	const question = "end every session of everybody? [y/N] "
	console(t, vars, signOut...).refused(t, exitUsage, "nothing was changed. To end every session of everybody, add --yes: there is no terminal to ask on")
	if got, want := asked(t, "n\n", vars, signOut...), (result{exitUsage, "", question + "console: not confirmed; nothing was changed\n"}); got != want {
		t.Errorf("answering no = %+v, want %+v", got, want)
	}
	if n := open(); n != 1 {
		t.Errorf("%d sessions are open after no confirmation, want 1", n)
	}
	if got, want := asked(t, "y\n", vars, signOut...), (result{0, "ended every session: 1\n", question}); got != want || open() != 0 {
		t.Errorf("answering yes = %+v, and %d sessions are open; want %+v and none", got, open(), want)
	}
	console(t, vars, append(signOut, "--yes")...).said(t, "ended every session: 0\n")
}

func TestUserDisableAndEnable(t *testing.T) {
	vars, super := people(t)
	status := func() string {
		return pgtest.Value[string](t, super, `SELECT status FROM users WHERE id = $1`, aliceID)
	}
	steps := []struct{ args, says, status string }{
		{"user enable --user " + aliceID, "unchanged: " + alice + " is not disabled\n", "active"},
		{"user disable --yes --user " + aliceID, "disabled " + alice + ", ending every session\n", "disabled"},
		{"user disable --yes --user " + aliceID, "disabled " + alice + ", ending every session\n", "disabled"},
		{"user enable --yes --email alice@example.org", "enabled " + alice + "\n", "active"},
	}
	for _, step := range steps {
		if got := console(t, vars, strings.Fields(step.args)...); got != (result{0, step.says, ""}) || status() != step.status {
			t.Errorf("%s = %+v, and alice is %s; want %q and %s", step.args, got, status(), step.says, step.status)
		}
	}
}

func TestBindings(t *testing.T) {
	vars, super := people(t)
	console(t, vars, "bindings").said(t, "no bindings\n")
	console(t, vars, "bindings", "--project", "ops").said(t, "no bindings\n")
	console(t, vars, "grant", "--project", "ops", "--role", "viewer", "--user", malID, "--yes").said(t, "granted")
	console(t, vars, "grant", "--project", "ops", "--role", "owner", "--user", aliceID, "--reason", "first owner", "--yes").said(t, "granted")
	console(t, vars, "user", "disable", "--user", malID, "--yes").said(t, "disabled")
	if _, err := super.Exec(t.Context(), `ALTER TABLE project_role_bindings DISABLE TRIGGER immutable;
		UPDATE project_role_bindings SET created_at_ms = 1805000000123, actor = 'root at host'`); err != nil {
		t.Fatal(err)
	}
	const want = `PROJECT  ROLE    VERSION  SINCE                     USER                                             NAME                         E-MAIL                        ISSUER               SUBJECT  BY            REASON
ops      owner   1        2027-03-14T04:53:20.123Z  00000000-0000-7000-8000-00000000000a             Alice                        alice@example.org             https://idp.example  alice    root at host  first owner
ops      viewer  1        2027-03-14T04:53:20.123Z  00000000-0000-7000-8000-00000000000b (disabled)  \x1b[2J\nowner \u202eevil\\  mal@example.org (unverified)  https://idp.example  m\tal    root at host  -
`
	got := console(t, vars, "bindings")
	if diff := cmp.Diff(want, got.stdout); diff != "" || got.code != 0 {
		t.Errorf("bindings = code %d (-want +got):\n%s", got.code, diff)
	}
	if got := console(t, vars, "bindings", "--project", "ops", "--email", "alice@example.org", "--history"); strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("bindings of alice = %q, want the head and one line", got.stdout)
	}
	var document struct {
		Bindings []struct {
			ProjectID, Role string
			User            struct{ Subject string }
		}
	}
	if err := json.Unmarshal([]byte(console(t, vars, "bindings", "--json").stdout), &document); err != nil || len(document.Bindings) != 2 ||
		document.Bindings[1].User.Subject != "m\tal" || document.Bindings[1].Role != "viewer" {
		t.Errorf("bindings --json = %+v, %v", document, err)
	}
}

func TestAudit(t *testing.T) {
	vars, super := people(t)
	console(t, vars, "audit").said(t, "no events\n")
	if _, err := super.Exec(t.Context(), `
		INSERT INTO security_audit_events (id, action, outcome, reason, actor_type, user_id, issuer, subject, actor, session_id, peer_address, claimed_address,
			request_id, project_id, project_version, binding_version, role, run_id, run_version, mutation_id, proof_id, words, strength, acr, amr,
			auth_time_s, second_factor, detail, created_at_ms)
		VALUES ('00000000-0000-7000-8000-000000000001', 'run.retry', 'denied', 'plan_changed', 'user', '`+aliceID+`', 'https://idp.example', 'alice', E'Alice\x1b[1m',
			'00000000-0000-7000-8000-000000000002', '10.0.0.1', '203.0.113.7', 'r-1', 'ops', 7, 3, 'operator', '00000000-0000-7000-8000-000000000003', 9,
			'00000000-0000-7000-8000-000000000004', '00000000-0000-7000-8000-000000000005', E'INC-7\nsee there', 'multi_factor', 'gold', '{pwd,mfa}',
			1805000000, 'always', '{"seen": 1805000000123, "plan": "a\u001b", "list": ["x"]}', 1805000000123),
		('00000000-0000-7000-8000-000000000006', 'sign_in.callback', 'allowed', NULL, 'anonymous', NULL, NULL, NULL, 'anonymous', NULL, NULL, NULL,
			NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', 1)`); err != nil {
		t.Fatal(err)
	}
	const denied = `2027-03-14T04:53:20.123Z  denied   run.retry
    refused   plan_changed
    who       user Alice\x1b[1m, issuer https://idp.example, subject alice, user 00000000-0000-7000-8000-00000000000a
    from      10.0.0.1, claimed 203.0.113.7, session 00000000-0000-7000-8000-000000000002, request r-1
    project   ops
    run       00000000-0000-7000-8000-000000000003, version 9
    why       INC-7\nsee there
    strength  multi_factor, acr gold, amr pwd mfa, authenticated 2027-03-14T04:53:20Z, second factor always, proof 00000000-0000-7000-8000-000000000005
    policy    operator, binding version 3, project version 7
    mutation  00000000-0000-7000-8000-000000000004
    detail    list ["x"], plan a\x1b, seen 1805000000123
    event     00000000-0000-7000-8000-000000000001
`
	const signIn = `1970-01-01T00:00:00.001Z  allowed  sign_in.callback
    who       anonymous anonymous
    event     00000000-0000-7000-8000-000000000006
`
	const place = "1805000000123_00000000-0000-7000-8000-000000000001"
	tests := []struct{ args, want string }{
		{"audit", denied + signIn},
		{"audit -n 1", denied + "more: --before " + place + "\n"},
		{"audit --before " + place, signIn},
		{"audit --project ops", denied},
		{"audit --project ops --action run.stop", "no events\n"},
		{"audit --user " + aliceID, denied},
		{"audit --run 00000000-0000-7000-8000-000000000003 --since 2027-03-14T04:53:20Z", denied},
		{"audit --since 2027-03-14T04:53:21Z", "no events\n"},
		{"audit --since 2027-03-14 --until 2027-03-14", denied},
		{"audit --since 2027-03-14T12:53:20 --zone Asia/Shanghai", denied},
		{"audit --until yesterday", signIn},
		{"audit --action sign_in.callback --outcome allowed", signIn},
	}
	for _, tt := range tests {
		got := console(t, vars, strings.Fields(tt.args)...)
		if diff := cmp.Diff(tt.want, got.stdout); diff != "" || got.code != 0 {
			t.Errorf("%s = code %d, %q (-want +got):\n%s", tt.args, got.code, got.stderr, diff)
		}
	}
	var document struct {
		Events []struct {
			CreatedAtMS int64
			Words       string
			Actor       struct{ ClaimedAddress string }
		}
		Before string
	}
	err := json.Unmarshal([]byte(console(t, vars, "audit", "--json", "-n", "1").stdout), &document)
	if err != nil || len(document.Events) != 1 || document.Before != place || document.Events[0].Actor.ClaimedAddress != "203.0.113.7" {
		t.Errorf("audit --json = %+v, %v", document, err)
	}
}

// The words of the pages are taken, and what only the command line takes.
func TestAuditBetween(t *testing.T) {
	now := time.UnixMilli(1_805_000_000_000) // 2027-03-14T04:53:20Z
	for text, want := range map[string]int64{"": 0, "24h": 1_804_913_600_000, "90s": 1_804_999_910_000, "1h30m": 1_804_994_600_000, "-1h": 1_804_996_400_000, "2d": 1_804_827_200_000,
		"2027-03-14T04:53:20Z": 1_805_000_000_000, "2027-03-14T05:53:20+01:00": 1_805_000_000_000, "2027-03-14": 1_804_978_800_000, "yesterday": 1_804_892_400_000} {
		if got, _, err := (auditCmd{Since: text, Zone: "Europe/Berlin"}).between(now); got != want || err != nil {
			t.Errorf("--since %q = %d, %v, want %d", text, got, err, want)
		}
	}
	if _, got, err := (auditCmd{Until: "yesterday", Zone: "Europe/Berlin"}).between(now); got != 1_804_978_800_000 || err != nil {
		t.Errorf("--until yesterday = %d, %v, want its end", got, err)
	}
	for _, text := range []string{"0s", "24", "1960-01-01T00:00:00Z", "tomorrow"} {
		if got, _, err := (auditCmd{Since: text, Zone: "UTC"}).between(now); err == nil {
			t.Errorf("--since %q = %d, want an error", text, got)
		}
	}
}
