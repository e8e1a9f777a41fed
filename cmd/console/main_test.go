package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// beConsole makes this test binary the console, so that tests of real processes run what was just compiled, with the
// race detector if the tests have it.
const beConsole = "CONSOLE_TEST_BE_CONSOLE"

func TestMain(m *testing.M) {
	if os.Getenv(beConsole) != "" {
		main()
	}
	code := pgtest.Main(m)
	removeExecutable()
	os.Exit(code)
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// console runs one command in this process, with vars for its environment.
func console(t *testing.T, vars map[string]string, args ...string) result {
	t.Helper()
	return consoleReading(t, "", vars, args...)
}

func consoleReading(t *testing.T, stdin string, vars map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), env{args: args, getenv: func(name string) string { return vars[name] },
		stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr})
	return result{code, stdout.String(), stderr.String()}
}

// refused checks that a command ended with code, printed nothing, and said one sentence for each of the texts.
func (r result) refused(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code || r.stdout != "" {
		t.Errorf("exit code %d and output %q, want %d and none", r.code, r.stdout, code)
	}
	if !strings.HasPrefix(r.stderr, "console: ") {
		t.Errorf("standard error is %q, want it to begin with the program's name", r.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("standard error is %q, want it to contain %q", r.stderr, text)
		}
	}
	if lines := strings.Count(r.stderr, "\n"); lines != max(1, len(texts)) {
		t.Errorf("standard error has %d lines, want one for each of %q:\n%s", lines, texts, r.stderr)
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name string
		args string
		code int
		out  string // on standard output if the code is 0, else on standard error
	}{
		{"help", "--help", 0, "Usage: console <command>"},
		{"help of a command", "serve --help", 0, "--claim-budget=256"},
		{"help of a group", "migrate --help", 0, "migrate bootstrap"},
		{"help wins over what is missing", "next --help", 0, "--zone=STRING"},
		{"version", "version", 0, version},
		{"no command", "", exitUsage, "try --help"},
		{"unknown command", "reboot", exitUsage, "reboot"},
		{"unknown command of a group", "migrate sideways", exitUsage, "sideways"},
		{"unknown flag", "serve --claim-bugdet 3", exitUsage, "--claim-bugdet"},
		{"not a duration", "serve --claim-lease 3", exitUsage, "missing unit"},
		{"not a number", "serve --claim-budget many", exitUsage, "--claim-budget"},
		{"not one of the words", "serve --log-level loud", exitUsage, "loud"},
		{"a required flag is missing", "apply", exitUsage, "--file"},
		{"whom to sign out is not said", "user sign-out", exitUsage, "--everybody"},
		{"an argument too many", "version 2", exitUsage, "2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := console(t, nil, strings.Fields(test.args)...)
			if test.code != 0 {
				got.refused(t, test.code, test.out)
				return
			}
			if got.code != 0 || !strings.Contains(got.stdout, test.out) || got.stderr != "" {
				t.Errorf("console %s = %+v, want code 0 and output with %q", test.args, got, test.out)
			}
		})
	}
}
