package main

import (
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestCheck(t *testing.T) {
	db := pgtest.New(t)
	vars, super := variables(db), db.Super(t)
	console(t, vars, "check").said(t, "ok    writable primary for ql3_migration\n", "ok    schema version for ql3_runtime\n", "ok    privileges of ql3_runtime\n")

	delete(vars, "CONSOLE_AUTHN_DATABASE_URL")
	console(t, vars, "check").said(t, "off   ql3_authn: CONSOLE_AUTHN_DATABASE_URL is not set. ", "ok    ")

	if _, err := super.Exec(t.Context(), "GRANT DELETE ON runs TO ql3_runtime; REVOKE SELECT ON projects FROM ql3_console"); err != nil {
		t.Fatal(err)
	}
	got := console(t, vars, "check")
	if got.code != exitFailure || got.stderr != "console: 2 of 15 gates failed\n" {
		t.Errorf("check = code %d, %q, want 1 and the number of failures", got.code, got.stderr)
	}
	if !says(got.stdout, "FAIL  privileges of ql3_runtime: ", "DELETE", "runs") || !says(got.stdout, "FAIL  privileges of ql3_console: ", "SELECT", "projects") {
		t.Errorf("check says\n%s\nwant it to name both privileges", got.stdout)
	}

	if got := console(t, emptyDatabase(t, db), "check"); got.code != exitFailure || !says(got.stdout, "FAIL  schema version for ql3_migration: ") {
		t.Errorf("check of a database without a schema = %+v, want code 1 and the reason", got)
	}
	if got := console(t, nil, "check"); got.code != exitUsage || !strings.Contains(got.stderr, "no connection is configured") {
		t.Errorf("check without a connection = %+v, want code 2 and the reason", got)
	}
}

// A role whose server is not there is one line, whatever its gates would have found.
func TestCheckNamesADeadRoleOnce(t *testing.T) {
	vars := variables(pgtest.New(t))
	vars["CONSOLE_RUNTIME_DATABASE_URL"] = "postgres://ql3_runtime@127.0.0.1:1/console"
	got := console(t, vars, "check")
	const head = "FAIL  writable primary for ql3_runtime, schema version for ql3_runtime, privileges of ql3_runtime: the database does not answer: "
	if !says(got.stdout, head) || strings.Count(got.stdout, "FAIL") != 1 || !says(got.stdout, "ok    privileges of ql3_console") {
		t.Errorf("check says\n%s\nwant one failure, of the three gates of ql3_runtime", got.stdout)
	}
	if want := "console: 3 of 18 gates failed\n"; got.code != exitFailure || got.stderr != want {
		t.Errorf("check = code %d, %q, want 1 and %q", got.code, got.stderr, want)
	}
}

// says reports whether a line of text begins with head and holds each of the words.
func says(text, head string, words ...string) bool {
	for l := range strings.Lines(text) {
		found := strings.HasPrefix(l, head)
		for _, word := range words {
			found = found && strings.Contains(l, word)
		}
		if found {
			return true
		}
	}
	return false
}

func TestCheckSaysWhatOfTheConsoleIsOn(t *testing.T) {
	vars := variables(pgtest.New(t))
	console(t, vars, "check").said(t, "off   pages: CONSOLE_PUBLIC_URL is not set\n", "ok    ")
	pages := []string{"check", "--public-url", "https://ops.example/console", "--oidc-issuer", "https://idp.example", "--oidc-client-id", "console", "--step-up"}
	console(t, vars, pages...).said(t, "ok    pages at https://ops.example/console\n", "note  a path is no boundary",
		"off   retry and stop: CONSOLE_STEP_UP_FILE is not set\n", "try   https://ops.example/console/account/step-up-test, ")
	if got := console(t, vars, "check", "--step-up"); got.code != exitUsage {
		t.Errorf("check --step-up without a public URL = %+v, want code 2", got)
	}
}
