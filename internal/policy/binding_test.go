package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

const (
	selectBindings = `SELECT project_id, right(user_id::text, 1), version, role FROM project_role_bindings ORDER BY 1, 2, 3`
	selectGuards   = `SELECT id, guard, version FROM projects ORDER BY id`
)

func TestGrantAndRevoke(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Viewer)
	want := policy.Binding{ProjectID: "ops", ProjectName: "Operations", ProjectActive: true, ProjectVersion: 7, Role: policy.Viewer, Version: 1}
	if diff := cmp.Diff(want, w.grant(r)); diff != "" {
		t.Errorf("Grant() (-want +got):\n%s", diff)
	}
	w.grant(asks(alice, policy.Owner))
	w.revoke(takes(r))
	w.wantRows("(ops,a,1,viewer)\n(ops,a,2,owner)\n(ops,a,3,)", selectBindings)
	w.wantRows("(lab,0,2)\n(ops,3,7)\n(web,0,1)", selectGuards) // the guard, and never the fenced version
	w.wantRows(`(t,root@host,INC-7)`, `SELECT DISTINCT created_at_ms BETWEEN $1::bigint - 60000 AND $1, actor, reason FROM project_role_bindings`, w.clock())
	w.wantRows(strings.Join([]string{
		`(binding.grant,allowed,command,root@host,ops,7,INC-7,t,"{""role"": ""viewer"", ""version"": 1, ""previous_role"": """", ""target_issuer"": ""https://idp.example"", ""target_subject"": ""alice""}")`,
		`(binding.grant,allowed,command,root@host,ops,7,INC-7,t,"{""role"": ""owner"", ""version"": 2, ""previous_role"": ""viewer"", ""target_issuer"": ""https://idp.example"", ""target_subject"": ""alice""}")`,
		`(binding.revoke,allowed,command,root@host,ops,7,INC-7,t,"{""role"": """", ""version"": 3, ""previous_role"": ""owner"", ""target_issuer"": ""https://idp.example"", ""target_subject"": ""alice""}")`,
	}, "\n"), `SELECT action, outcome, actor_type, a.actor, a.project_id, project_version, words, target_user_id = $1 AND b.mutation_id = a.mutation_id, detail
		FROM security_audit_events a JOIN project_role_bindings b ON (detail->>'version')::bigint = b.version ORDER BY b.version`, alice)
}

func (w world) clock() (nowMS int64) {
	w.Helper()
	w.must(w.super.QueryRow(w.Context(), `SELECT `+pg.ClockMS).Scan(&nowMS))
	return nowMS
}

func TestGrantRefuses(t *testing.T) {
	w := newWorld(t)
	w.must(policy.DisableUser(t.Context(), w.admin, bob, byRoot, ""))
	before := w.everything()
	with := func(edit func(*policy.GrantRequest)) func() error {
		r := asks(alice, policy.Viewer)
		edit(&r)
		return func() error { _, err := policy.Grant(t.Context(), w.admin, r); return err }
	}
	tests := []struct {
		name string
		do   func() error
		want string
	}{
		{"no role", with(func(r *policy.GrantRequest) { r.Role = "" }), `"" is no role: write owner, admin, operator or viewer`},
		{"another role", with(func(r *policy.GrantRequest) { r.Role = "root" }), `"root" is no role: write owner, admin, operator or viewer`},
		{"no such Project", with(func(r *policy.GrantRequest) { r.Project = "nope" }), `there is no project "nope": publish it first (console apply)`},
		{"no such User", with(func(r *policy.GrantRequest) { r.User = uuid.Max }),
			"no user has the id ffffffff-ffff-ffff-ffff-ffffffffffff: somebody who has never signed in must do so first"},
		{"a disabled User", with(func(r *policy.GrantRequest) { r.User = bob }), "user " + bob.String() + " is disabled: enable it before a role is granted"},
		{"too many words", with(func(r *policy.GrantRequest) { r.Reason = strings.Repeat("é", 501) }), "the reason has 501 characters, want at most 500"},
		{"no text", with(func(r *policy.GrantRequest) { r.Reason = "a\x00b" }), "the reason is not text"},
		{"nothing to revoke", func() error {
			_, err := policy.Revoke(t.Context(), w.admin, takes(asks(alice, "")))
			return err
		}, "user " + alice.String() + " has no role in project ops"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			if mistake, ok := errors.AsType[policy.Mistake](err); !ok || string(mistake) != tt.want {
				t.Errorf("%v, want the Mistake %q", err, tt.want)
			}
		})
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("written by refused requests (-before +after):\n%s", diff)
	}
}

// Rights may be arranged in an archived Project, so that nobody has to wake its Schedules for that.
func TestGrantInArchivedProject(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Viewer)
	r.Project = "lab"
	w.grant(r)
	w.revoke(takes(r))
	w.wantRows("(lab,a,1,viewer)\n(lab,a,2,)", selectBindings)
}

func TestReplay(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Operator)
	first := w.grant(r)
	revoke := takes(r)
	w.revoke(revoke)
	before := w.everything()

	if diff := cmp.Diff(first, w.grant(r)); diff != "" {
		t.Errorf("Grant() again, after a revoke (-first +again):\n%s", diff)
	}
	w.revoke(revoke)
	tests := []struct {
		name string
		edit func(*policy.GrantRequest)
	}{
		{"another role", func(r *policy.GrantRequest) { r.Role = policy.Owner }},
		{"another User", func(r *policy.GrantRequest) { r.User = bob }},
		{"another Project", func(r *policy.GrantRequest) { r.Project = "web" }},
		{"another actor", func(r *policy.GrantRequest) { r.Actor.Name = "somebody" }},
		{"another reason", func(r *policy.GrantRequest) { r.Reason = "" }},
		{"a revoke's", func(r *policy.GrantRequest) { r.MutationID = revoke.MutationID }},
	}
	for _, tt := range tests {
		changed := r
		tt.edit(&changed)
		if _, err := policy.Grant(t.Context(), w.admin, changed); !errors.Is(err, policy.ErrMutationConflict) {
			t.Errorf("%s: Grant() = %v, want %v", tt.name, err, policy.ErrMutationConflict)
		}
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("written by replays (-before +after):\n%s", diff)
	}
}

type outcome struct {
	policy.Binding
	err error
}

// grants starts every request at once.
func (w world) grants(requests ...policy.GrantRequest) <-chan outcome {
	out := make(chan outcome, len(requests))
	for _, r := range requests {
		go func() {
			b, err := policy.Grant(w.Context(), w.admin, r)
			out <- outcome{b, err}
		}()
	}
	return out
}

func TestConcurrentGrants(t *testing.T) {
	w := newWorld(t)
	release := w.hold(w.super, `SELECT FROM projects WHERE id = 'ops' FOR UPDATE`)
	out := w.grants(asks(alice, policy.Viewer), asks(alice, policy.Operator), asks(alice, policy.Admin), asks(alice, policy.Owner))
	w.blocked(4)
	release("COMMIT")
	versions := map[int64]bool{}
	for range 4 {
		o := <-out
		if o.err != nil {
			t.Fatalf("Grant() = %v", o.err)
		}
		versions[o.Version] = true
	}
	if diff := cmp.Diff(map[int64]bool{1: true, 2: true, 3: true, 4: true}, versions); diff != "" {
		t.Errorf("versions of 4 concurrent grants (-want +got):\n%s", diff)
	}
	w.wantRows("(4,4)", `SELECT count(*), max(version) FROM project_role_bindings`)
	w.wantRows("(4)", `SELECT count(*) FROM security_audit_events`)
}

func TestConcurrentGrantsOfOneMutation(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Viewer)
	release := w.hold(w.super, `SELECT FROM projects WHERE id = 'ops' FOR UPDATE`)
	out := w.grants(r, r, r)
	w.blocked(3)
	release("COMMIT")
	for range 3 {
		if o := <-out; o.err != nil || o.Version != 1 || o.Role != policy.Viewer {
			t.Errorf("Grant() = %+v, %v, want version 1", o.Binding, o.err)
		}
	}
	w.wantRows("(1)", `SELECT count(*) FROM project_role_bindings`)
	w.wantRows("(1)", `SELECT count(*) FROM security_audit_events`)
}

// What is refused is refused for what is so, not for what was so before another's change in flight.
func TestRevokeWaitsForGrant(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Viewer)
	release := w.hold(w.super, `LOCK TABLE security_audit_events IN SHARE MODE`)
	granted := w.grants(r)
	w.blocked(1)
	revoked := make(chan error, 1)
	go func() {
		_, err := policy.Revoke(t.Context(), w.admin, takes(r))
		revoked <- err
	}()
	w.blocked(2)
	release("COMMIT")
	if err := <-revoked; err != nil {
		t.Errorf("Revoke() of a role that is being granted = %v", err)
	}
	if o := <-granted; o.err != nil {
		t.Errorf("Grant() = %v", o.err)
	}
	w.wantRows("(ops,a,1,viewer)\n(ops,a,2,)", selectBindings)
}

// Two Projects are two locks: there only the mutation id stands between the two.
func TestOneMutationInTwoProjects(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Viewer)
	other := r
	other.Project = "web"
	release := w.hold(w.super, `LOCK TABLE security_audit_events IN SHARE MODE`)
	first := w.grants(r)
	w.blocked(1)
	second := w.grants(other)
	w.blocked(2)
	release("COMMIT")
	if o := <-first; o.err != nil {
		t.Errorf("the first Grant() = %v", o.err)
	}
	if o := <-second; !errors.Is(o.err, policy.ErrMutationConflict) {
		t.Errorf("the second Grant() = %+v, %v, want %v", o.Binding, o.err, policy.ErrMutationConflict)
	}
	w.wantRows("(ops,a,1,viewer)", selectBindings)
}

// A retry waits for the Project while the revoke commits. Its snapshot is older than the wait; that it sees the revoke
// nevertheless is the guard's doing.
func TestWaitingTransactionSeesChange(t *testing.T) {
	tests := []struct {
		name string
		do   func(world) error
		want string
	}{
		{"a revoke", func(w world) error {
			_, err := policy.Revoke(w.Context(), w.admin, takes(asks(alice, "")))
			return err
		}, "(,active)"},
		{"a lesser role", func(w world) error {
			_, err := policy.Grant(w.Context(), w.admin, asks(alice, policy.Viewer))
			return err
		}, "(viewer,active)"},
		{"a disabled User", func(w world) error { return policy.DisableUser(w.Context(), w.admin, alice, byRoot, "") }, "(operator,disabled)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			manager := w.db.Pool(t, migrations.RoleRunManager)
			w.grant(asks(alice, policy.Operator))
			release := w.hold(w.super, `LOCK TABLE security_audit_events IN SHARE MODE`) // the change's last step waits
			changed := make(chan error, 1)
			go func() { changed <- tt.do(w) }()
			w.blocked(1)
			saw := make(chan string, 1)
			go func() { saw <- w.waitingRetry(manager) }()
			w.blocked(2)
			release("COMMIT")
			if err := <-changed; err != nil {
				t.Fatal(err)
			}
			if got, want := <-saw, "try 2: "+tt.want; got != want {
				t.Errorf("the waiting transaction saw %q, want %q", got, want)
			}
		})
	}
}

// waitingRetry reads alice's policy fence as a retry does, over the lock of the Project, and tells which try committed.
func (w world) waitingRetry(pool *pgxpool.Pool) (saw string) {
	try := 0
	err := pg.InTx(w.Context(), pool, func(tx pgx.Tx) error {
		try++
		return tx.QueryRow(w.Context(), `SELECT (role, user_status)::text FROM lock_run_management_policy_fence('ops', $1)`, alice).Scan(&saw)
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("try %d: %s", try, saw)
}

func TestLostAnswerToGrant(t *testing.T) {
	for name, loss := range map[string]pgtest.Loss{"the request is lost": pgtest.LoseRequest, "the answer is lost": pgtest.LoseAnswer} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			pool, proxy := pgtest.LoseCommits(t, w.db.URL(migrations.RoleAdmin), loss, 1)
			b, err := policy.Grant(t.Context(), pool, asks(alice, policy.Viewer))
			if err != nil || b.Version != 1 || proxy.Broken() < 1 {
				t.Errorf("Grant() = %+v, %v with %d lost answers, want version 1", b, err, proxy.Broken())
			}
			w.wantRows("(ops,a,1,viewer)", selectBindings)
			w.wantRows("(1)", `SELECT count(*) FROM security_audit_events`)
		})
	}
}

// Without its audit row nothing happens.
func TestChangeNeedsItsAudit(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Viewer)
	w.grant(r)
	w.exec(session(alice))
	w.exec(`ALTER TABLE security_audit_events ADD CONSTRAINT full_disk CHECK (false) NOT VALID`)
	before := w.everything()
	_, granting := policy.Grant(t.Context(), w.admin, asks(bob, policy.Viewer))
	_, revoking := policy.Revoke(t.Context(), w.admin, takes(r))
	disabling := policy.DisableUser(t.Context(), w.admin, alice, byRoot, "")
	for what, err := range map[string]error{"Grant": granting, "Revoke": revoking, "DisableUser": disabling} {
		if pg.Constraint(err) != "full_disk" {
			t.Errorf("%s() = %v, want the audit's refusal", what, err)
		}
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("written without an audit row (-before +after):\n%s", diff)
	}
}

// Facts are nobody's to change, whatever the role; the owner's too.
func TestFactsAreAppendOnly(t *testing.T) {
	w := newWorld(t)
	w.grant(asks(alice, policy.Viewer))
	before := w.everything()
	for _, role := range migrations.Roles() {
		pool := w.db.Pool(t, role)
		for _, table := range []string{"project_role_bindings", "security_audit_events"} {
			for _, sql := range []string{"UPDATE " + table + " SET created_at_ms = 0", "DELETE FROM " + table} {
				if _, err := pool.Exec(t.Context(), sql); !pg.HasCode(err, "42501", "23001") {
					t.Errorf("%s as %s = %v, want it refused", sql, role, err)
				}
			}
		}
	}
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("facts have changed (-before +after):\n%s", diff)
	}
}

func TestListBindings(t *testing.T) {
	w := newWorld(t)
	elsewhere := asks(bob, policy.Owner)
	elsewhere.Project = "web"
	lost := asks(eve, policy.Owner)
	w.grant(asks(alice, policy.Operator))
	w.grant(asks(alice, policy.Viewer))
	w.grant(asks(bob, policy.Admin))
	w.grant(elsewhere)
	w.grant(lost)
	w.revoke(takes(lost))
	everything := policy.Scope{Everything: true}
	tests := []struct {
		name   string
		filter policy.BindingFilter
		want   string
	}{
		{"of nothing", policy.BindingFilter{}, ""},
		{"of one Project", policy.BindingFilter{Scope: policy.Scope{Projects: []string{"ops", "nope"}}}, "ops bob admin 1, ops alice viewer 2"},
		{"of every Project", policy.BindingFilter{Scope: everything}, "ops bob admin 1, ops alice viewer 2, web bob owner 1"},
		{"of one User", policy.BindingFilter{Scope: everything, User: bob}, "ops bob admin 1, web bob owner 1"},
		{"of one User who has lost it", policy.BindingFilter{Scope: everything, User: eve}, ""},
		{"with history", policy.BindingFilter{Scope: everything, History: true},
			"ops alice viewer 2, ops alice operator 1, ops bob admin 1, ops eve  2, ops eve owner 1, web bob owner 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := &counter{Querier: w.console}
			list, err := policy.ListBindings(t.Context(), q, tt.filter)
			var got []string
			for _, b := range list {
				got = append(got, fmt.Sprintf("%s %s %s %d", b.ProjectID, b.User.Subject, b.Role, b.Version))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" || err != nil || q.queries != 1 {
				t.Errorf("ListBindings(%+v) = %v after %d queries, want one (-want +got):\n%s", tt.filter, err, q.queries, diff)
			}
		})
	}
	list, err := policy.ListBindings(t.Context(), w.admin, policy.BindingFilter{Scope: everything, User: alice})
	if err != nil || len(list) != 1 {
		t.Fatalf("ListBindings() as ql3_admin = %+v, %v, want one", list, err)
	}
	want := policy.RoleBinding{ProjectID: "ops", Version: 2, Role: policy.Viewer, MutationID: list[0].MutationID, Actor: "root@host", Reason: "INC-7",
		CreatedAtMS: list[0].CreatedAtMS, User: policy.User{ID: alice, Issuer: "https://idp.example", Subject: "alice", Name: "Alice",
			Email: "alice@example.org", EmailVerified: true, Active: true, CreatedAtMS: 1}}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Errorf("ListBindings() (-want +got):\n%s", diff)
	}
}

// One mutation changes one role, by the database's own word.
func TestBindingMutationIsOnce(t *testing.T) {
	w := newWorld(t)
	w.grant(asks(alice, policy.Viewer))
	_, err := w.super.Exec(t.Context(), `INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms)
		SELECT project_id, user_id, version + 1, role, mutation_id, actor, created_at_ms FROM project_role_bindings`)
	if pg.Constraint(err) != "binding_mutation_once" {
		t.Errorf("a second binding = %v, want refused by binding_mutation_once", err)
	}
}
