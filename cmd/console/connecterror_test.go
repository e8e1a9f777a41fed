package main

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// withPassword is rawURL with another password, and TLS only if the server has it.
func withPassword(t *testing.T, rawURL, password string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	u.RawQuery = "sslmode=prefer"
	return u.String()
}

func TestRefusedLoginSaysWhatToDo(t *testing.T) {
	vars := variables(pgtest.New(t))
	for name, rawURL := range vars {
		vars[name] = withPassword(t, rawURL, "hunter2")
	}
	const bootstrap = "(SQLSTATE 28P01); if the database is new, run: console migrate bootstrap, which makes the roles; otherwise the password in the URL is not the role's"
	for _, args := range []string{"migrate status", "apply -f sample.yaml", "bindings", "audit"} {
		got := console(t, vars, strings.Fields(args)...)
		got.refused(t, exitFailure, bootstrap)
		if strings.Contains(got.stderr, "TLS") || strings.Contains(got.stderr, "hunter2") {
			t.Errorf("%s says %q, want the reason alone, and no password", args, got.stderr)
		}
	}
	got := console(t, vars, "check")
	if strings.Count(got.stdout, bootstrap+"\n") != len(roleVariables) || !says(got.stdout, "FAIL  writable primary for ql3_runtime, ", "the database does not answer: failed to connect") {
		t.Errorf("check says\n%s\nwant a line for each role, with what to do", got.stdout)
	}
	got = console(t, vars, "migrate", "bootstrap") // bootstrap makes no superuser
	got.refused(t, exitFailure, "(SQLSTATE 28P01)\n")
}

// The server answers a role that is not there likewise, where it asks for no password.
func TestRoleThatMayNotLogIn(t *testing.T) {
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	t.Cleanup(func() { // roles are the whole server's
		if _, err := super.Exec(context.WithoutCancel(t.Context()), "ALTER ROLE ql3_run_manager LOGIN"); err != nil {
			t.Error(err)
		}
	})
	pgtest.Exec(t, super, "ALTER ROLE ql3_run_manager NOLOGIN")
	got := console(t, vars, "check")
	if !says(got.stdout, "FAIL  writable primary for ql3_run_manager, ", "(SQLSTATE 28000); run: console migrate bootstrap, which makes the roles and lets those log in") {
		t.Errorf("check says\n%s\nwant what to do about ql3_run_manager", got.stdout)
	}
}

func TestReasonsOf(t *testing.T) {
	const a, b = "127.0.0.1:5432 (db): ", "[::1]:5432 (db): "
	tests := []struct {
		name  string
		lines []string
		want  []string
	}{
		{"no TLS, and then the reason", []string{a + tlsRefused, a + "server error: FATAL"}, []string{a + "server error: FATAL"}},
		{"the reason twice", []string{a + "dial error: refused", a + "dial error: refused"}, []string{a + "dial error: refused"}},
		{"two addresses", []string{b + "dial error: refused", a + "dial error: refused"}, []string{b + "dial error: refused", a + "dial error: refused"}},
		{"TLS is wanted", []string{a + tlsRefused}, []string{a + tlsRefused}},
		{"TLS is wanted of two", []string{a + tlsRefused, b + tlsRefused}, []string{a + tlsRefused, b + tlsRefused}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, reasonsOf(strings.Join(tt.lines, "\n"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
