package oidc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/policy"
)

// What a token was seen to name before is read at once the next time, together with what its user may do; whatever has
// changed since is noticed.
func TestForeseen(t *testing.T) {
	w := newWorld(t)
	b, other := w.newBrowser(), w.newBrowser()
	session := b.signedIn(t)
	w.idp.claims = func(c map[string]any) { c["sub"] = "bob" }
	others := other.signedIn(t)
	w.exec(t, `INSERT INTO projects (id, name, version, status, created_at_ms, updated_at_ms) VALUES ('lab', 'Lab', 1, 'active', 1, 1)`)
	grant := func(role string, version int) {
		w.exec(t, `INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms)
			SELECT 'lab', $1, $2, NULLIF($3, ''), gen_random_uuid(), 'test', 1`, session.UserID, version, role)
	}
	load := func() (Session, policy.Access) {
		var access policy.Access
		ctx, err := w.sessions.Load(b.request(), true, &access)
		if err != nil {
			t.Fatalf("Load() = %v", err)
		}
		got, _ := Current(ctx)
		return got, access
	}
	steps := []struct {
		name   string
		change func()
		of     Session
		ahead  bool // what its user may do was read with it
		role   policy.Role
	}{
		{"the first request", func() { grant("viewer", 1) }, session, false, ""},
		{"the next", func() {}, session, true, policy.Viewer},
		{"after another role", func() { grant("operator", 2) }, session, true, policy.Operator},
		{"after a role lost", func() { grant("", 3) }, session, true, ""},
		{"after the token named another session", func() {
			w.exec(t, `UPDATE sessions SET data = (SELECT data FROM sessions s WHERE s.data <> sessions.data LIMIT 1)`)
		}, others, false, ""},
		{"after it ended", func() { w.exec(t, `UPDATE console_sessions SET revoked_at_ms = 1, revoke_reason = 'signed_out'`) }, Session{}, false, ""},
		{"a request after that", func() {}, Session{}, false, ""},
	}
	for _, step := range steps {
		step.change()
		got, access := load()
		if got.ID != step.of.ID || got.UserID != step.of.UserID {
			t.Errorf("%s is of the session %s of %s, want %s of %s", step.name, got.ID, got.UserID, step.of.ID, step.of.UserID)
		}
		if !step.ahead {
			if !cmp.Equal(access, policy.Access{}) {
				t.Errorf("%s tells what %s may do", step.name, access.UserID)
			}
			continue
		}
		want, err := policy.ReadAccess(t.Context(), w.sessions.config.Console, session.UserID)
		want.NowMS = access.NowMS
		if err != nil || !cmp.Equal(access, want) || access.Bindings["lab"].Role != step.role {
			t.Errorf("%s tells %+v, %v, want %+v with the role %q", step.name, access, err, want, step.role)
		}
	}
	if n := len(w.sessions.foresights.list); n > 0 {
		t.Errorf("%d tokens that name nothing are remembered", n)
	}
}

// Tokens are not remembered without bound.
func TestForesightsAreBounded(t *testing.T) {
	var f foresights
	for i := range 3 * mostForeseen {
		f.remember(string(rune(i)), foresight{})
		if len(f.list) > mostForeseen {
			t.Fatalf("after %d tokens %d are remembered", i+1, len(f.list))
		}
	}
}
