package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

const moreUsers = `
INSERT INTO users (id, issuer, subject, email, email_verified, status, created_at_ms, updated_at_ms, signed_in_at_ms) VALUES
    ('00000000-0000-7000-8000-000000000001', 'https://idp.example/', 'alice', NULL, false, 'active', 1, 1, NULL),
    ('00000000-0000-7000-8000-000000000002', 'proxy:sso', 'sam with blanks', 'sam@example.org', true, 'disabled', 1, 1, 5),
    ('00000000-0000-7000-8000-000000000003', 'https://evil.example', 'x', 'alice@example.org', false, 'active', 1, 1, NULL),
    ('00000000-0000-7000-8000-000000000004', 'https://a.example', 'two', 'two@example.org', true, 'active', 1, 1, NULL),
    ('00000000-0000-7000-8000-000000000005', 'https://b.example', 'two', 'two@example.org', true, 'disabled', 1, 1, NULL),
    ('00000000-0000-7000-8000-000000000006', 'https://c.example', 'dot', 'аlice@example.org', true, 'active', 1, 1, NULL)`

func TestFindUser(t *testing.T) {
	w := newWorld(t)
	w.exec(moreUsers)
	n := func(n string) string { return "00000000-0000-7000-8000-00000000000" + n }
	tests := []struct {
		name string
		ref  string
		want string // the last digit of the id, or what the Mistake says
	}{
		{"by id", n("a"), "a"},
		{"by id in capitals", strings.ToUpper(n("a")), "a"},
		{"by issuer and subject", "https://idp.example alice", "a"},
		{"a trailing slash is another issuer", "https://idp.example/ alice", "1"},
		{"a subject with blanks", "proxy:sso sam with blanks", "2"},
		{"by a verified address, though another User claims it", "alice@example.org", "a"},
		{"by a disabled User's address", "sam@example.org", "2"},
		{"unknown id", n("9"), "no user has the id " + n("9")},
		{"unknown subject", "https://idp.example Alice", `issuer "https://idp.example" has no user with subject "Alice" here`},
		{"two blanks are part of the subject", "https://idp.example  alice", `issuer "https://idp.example" has no user with subject " alice" here`},
		{"unknown address", "nobody@example.org", `no user has "nobody@example.org" as a verified address`},
		{"an unverified address", "bob@example.org", `no user has "bob@example.org" as a verified address`},
		{"part of an address", "lice@example.org", `no user has "lice@example.org" as a verified address`},
		{"an address in other letters", "Alice@example.org", `no user has "Alice@example.org" as a verified address`},
		{"a pattern", "%@example.org", `no user has "%@example.org" as a verified address`},
		{"two Users' address", "two@example.org", `more than one user has "two@example.org" as a verified address; name one by id: ` +
			n("4") + ` (issuer "https://a.example", subject "two"), ` + n("5") + ` (issuer "https://b.example", subject "two")`},
		{"a look-alike", "аlice@example.org", `"аlice@example.org" names no user: write `},
		{"two @", "alice@x@example.org", `"alice@x@example.org" names no user`},
		{"nothing before the @", "@example.org", `"@example.org" names no user`},
		{"nothing after the @", "alice@", `"alice@" names no user`},
		{"a control character", "alice@example.org\x1b[2J", `"alice@example.org\x1b[2J" names no user`},
		{"a name", "alice", `"alice" names no user`},
		{"no subject", "https://idp.example ", `"https://idp.example " names no user`},
		{"nothing", "", `"" names no user`},
		{"an id in braces", "{" + n("a") + "}", `names no user`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := policy.FindUser(t.Context(), w.admin, tt.ref)
			if mistake, ok := errors.AsType[policy.Mistake](err); ok {
				if !strings.Contains(string(mistake), tt.want) || got != (policy.User{}) {
					t.Errorf("FindUser(%q) = %q, want %q", tt.ref, mistake, tt.want)
				}
				return
			}
			if err != nil || got.ID.String() != n(tt.want) {
				t.Errorf("FindUser(%q) = %v, %v, want user %s", tt.ref, got.ID, err, tt.want)
			}
		})
	}
	got, err := policy.FindUser(t.Context(), w.console, n("2"))
	want := policy.User{ID: uuid.MustParse(n("2")), Issuer: "proxy:sso", Subject: "sam with blanks", Email: "sam@example.org", EmailVerified: true, CreatedAtMS: 1, SignedInAtMS: 5}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("FindUser() = %v (-want +got):\n%s", err, diff)
	}
}

const (
	selectSessions = `SELECT right(user_id::text, 1), revoke_reason, revoked_at_ms > 1700000000000 FROM console_sessions ORDER BY 1, 2`
	selectStatus   = `SELECT right(id::text, 1), status, version FROM users ORDER BY 1`
)

func TestDisableAndEnableUser(t *testing.T) {
	w := newWorld(t)
	inLab, lost := asks(alice, policy.Viewer), asks(alice, policy.Viewer)
	inLab.Project, lost.Project = "lab", "web"
	w.grant(asks(alice, policy.Operator))
	w.grant(inLab)
	w.grant(lost)
	w.revoke(takes(lost))
	w.exec(session(alice))
	w.exec(session(alice))
	w.exec(session(bob))
	w.exec(session(alice))
	w.exec(`UPDATE console_sessions SET revoked_at_ms = 5, revoke_reason = 'signed_out' WHERE ctid = (SELECT max(ctid) FROM console_sessions)`)
	w.exec(`INSERT INTO step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id,
			auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
		SELECT gen_random_uuid(), gen_random_uuid(), id, user_id, 'run.retry', 'ops', '[{}]', '', 'hardware', 'i', 's', 'c', 1, 'always', sha256(''), 1, 2
		FROM console_sessions WHERE revoked_at_ms IS NULL`)
	w.wantRows("(lab,1,2)\n(ops,1,7)\n(web,2,1)", selectGuards)

	w.must(policy.DisableUser(t.Context(), w.admin, alice, byRoot, "left the company"))
	w.wantRows("(a,disabled,2)\n(b,active,1)\n(e,active,1)", selectStatus)
	w.wantRows("(a,signed_out,f)\n(a,user_disabled,t)\n(a,user_disabled,t)\n(b,,)", selectSessions)
	w.wantRows("(a,t)\n(a,t)\n(b,f)", `SELECT right(user_id::text, 1), revoked_at_ms IS NOT NULL FROM step_up_proofs ORDER BY 1`)
	w.wantRows("(lab,2,2)\n(ops,2,7)\n(web,2,1)", selectGuards) // where alice has no role, nothing waits for it
	w.wantRows(`(allowed,command,root@host,"left the company",a,"{""target_issuer"": ""https://idp.example"", ""sessions_ended"": 2, ""target_subject"": ""alice""}")`,
		`SELECT outcome, actor_type, actor, words, right(target_user_id::text, 1), detail FROM security_audit_events WHERE action = 'user.disable'`)
	if a := w.access(alice); a.Active || len(a.Visible()) != 0 || len(a.Bindings) != 2 {
		t.Errorf("ReadAccess(alice), who is disabled = %+v, want nothing visible and both roles kept", a)
	}

	before := w.everything()
	w.must(policy.DisableUser(t.Context(), w.admin, alice, byRoot, "again"))
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("written for a User already disabled (-before +after):\n%s", diff)
	}

	w.must(policy.EnableUser(t.Context(), w.admin, alice, byRoot, "came back"))
	w.wantRows("(a,active,3)\n(b,active,1)\n(e,active,1)", selectStatus)
	w.wantRows("(a,signed_out,f)\n(a,user_disabled,t)\n(a,user_disabled,t)\n(b,,)", selectSessions)
	w.wantRows("(1)", `SELECT count(*) FROM security_audit_events WHERE action = 'user.enable' AND words = 'came back'`)

	_, isMistake := errors.AsType[policy.Mistake](policy.DisableUser(t.Context(), w.admin, uuid.Max, byRoot, ""))
	if !isMistake {
		t.Error("DisableUser() of nobody is no Mistake")
	}
}

func TestEndEverySession(t *testing.T) {
	w := newWorld(t)
	w.exec(session(alice))
	w.exec(session(bob))
	w.exec(`INSERT INTO step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id,
			auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
		SELECT gen_random_uuid(), gen_random_uuid(), id, user_id, 'run.retry', 'ops', '[{}]', '', 'hardware', 'i', 's', 'c', 1, 'always', sha256(''), 1, 2
		FROM console_sessions`)
	for _, want := range []int64{2, 0} {
		if ended, err := policy.EndEverySession(t.Context(), w.admin, byRoot, "restored"); ended != want || err != nil {
			t.Errorf("EndEverySession() = %d, %v, want %d", ended, err, want)
		}
	}
	w.wantRows("(a,signed_out_everywhere,t)\n(b,signed_out_everywhere,t)", selectSessions)
	w.wantRows("(2)", `SELECT count(*) FROM step_up_proofs WHERE revoked_at_ms IS NOT NULL`)
	w.wantRows(`(allowed,command,root@host,restored,"{""sessions_ended"": 2}")`+"\n"+`(allowed,command,root@host,restored,"{""sessions_ended"": 0}")`,
		`SELECT outcome, actor_type, actor, words, detail FROM security_audit_events WHERE action = 'session.end_every' ORDER BY detail->'sessions_ended' DESC`)
	if _, err := policy.EndEverySession(t.Context(), w.admin, byRoot, strings.Repeat("x", 501)); err == nil {
		t.Error("EndEverySession() with too long a reason = nil")
	}
}

// A sign-in writes the User's row and the session's in one transaction. Whoever commits first, no session is left.
func TestDisableDuringSignIn(t *testing.T) {
	signIn := `UPDATE users SET signed_in_at_ms = 2, updated_at_ms = 2 WHERE id = '` + alice.String() + `' AND status = 'active'; ` + session(alice)
	w := newWorld(t)
	release := w.hold(w.db.Pool(t, migrations.RoleAuthn), signIn)
	disabled := make(chan error, 1)
	go func() { disabled <- policy.DisableUser(t.Context(), w.admin, alice, byRoot, "") }()
	w.blocked(1)
	release("COMMIT")
	if err := <-disabled; err != nil {
		t.Fatalf("DisableUser() = %v", err)
	}
	w.wantRows("(a,user_disabled,t)", selectSessions)
}

func TestLostAnswerToDisable(t *testing.T) {
	w := newWorld(t)
	w.exec(session(alice))
	pool, proxy := pgtest.LoseCommits(t, w.db.URL(migrations.RoleAdmin), pgtest.LoseAnswer, 1)
	if err := policy.DisableUser(t.Context(), pool, alice, byRoot, ""); err != nil || proxy.Broken() < 1 {
		t.Errorf("DisableUser() = %v with %d lost answers", err, proxy.Broken())
	}
	w.wantRows("(a,user_disabled,t)", selectSessions)
	w.wantRows("(1)", `SELECT count(*) FROM security_audit_events`)
}

func TestLostAnswerToEndEverySession(t *testing.T) {
	for _, loss := range []pgtest.Loss{pgtest.LoseAnswer, pgtest.LoseRequest} {
		w := newWorld(t)
		w.exec(session(alice))
		pool, proxy := pgtest.LoseCommits(t, w.db.URL(migrations.RoleAdmin), loss, 1)
		if ended, err := policy.EndEverySession(t.Context(), pool, byRoot, "restored"); ended != 1 || err != nil || proxy.Broken() < 1 {
			t.Errorf("EndEverySession() = %d, %v with %d lost answers, want 1", ended, err, proxy.Broken())
		}
		w.wantRows("(a,signed_out_everywhere,t)", selectSessions)
		w.wantRows(`("{""sessions_ended"": 1}")`, `SELECT detail FROM security_audit_events`)
	}
}
