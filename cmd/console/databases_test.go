package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/qinglong/console/migrations"
)

// nowhere is a URL of role at an address that takes connections and never answers: whoever connects, hangs.
func nowhere(t *testing.T, role string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "postgres://" + role + ":hunter2@" + l.Addr().String() + "/console?sslmode=disable"
}

func TestWrongDatabases(t *testing.T) {
	tests := []struct {
		name string
		vars map[string]string
		args string
		want []string
	}{
		{"another role's user", map[string]string{"CONSOLE_RUNTIME_DATABASE_URL": nowhere(t, migrations.RoleAdmin)}, "serve",
			[]string{`CONSOLE_RUNTIME_DATABASE_URL connects as "ql3_admin", want ql3_runtime`}},
		{"a superuser", map[string]string{"CONSOLE_WEB_DATABASE_URL": nowhere(t, "postgres")}, "migrate status",
			[]string{`CONSOLE_WEB_DATABASE_URL connects as "postgres", want ql3_console`}},
		{"no URL", map[string]string{"CONSOLE_ADMIN_DATABASE_URL": "hunter2:/hunter2"}, "serve",
			[]string{"CONSOLE_ADMIN_DATABASE_URL: not a PostgreSQL connection URL"}},
		{"set twice", map[string]string{"CONSOLE_RUNTIME_DATABASE_URL": nowhere(t, migrations.RoleRuntime), "CONSOLE_RUNTIME_DATABASE_URL_FILE": "/hunter2"}, "serve",
			[]string{"CONSOLE_RUNTIME_DATABASE_URL and CONSOLE_RUNTIME_DATABASE_URL_FILE are both set"}},
		{"no file", map[string]string{"CONSOLE_RUNTIME_DATABASE_URL_FILE": "/no/such/file"}, "serve",
			[]string{"CONSOLE_RUNTIME_DATABASE_URL_FILE: cannot read /no/such/file: no such file or directory"}},
		{"missing", nil, "serve", []string{"CONSOLE_RUNTIME_DATABASE_URL is not set"}},
		{"missing for apply", nil, "apply -f sample.yaml", []string{"CONSOLE_ADMIN_DATABASE_URL is not set"}},
		{"missing for migrate", nil, "migrate up", []string{"CONSOLE_MIGRATION_DATABASE_URL is not set"}},
		{"missing for bootstrap", nil, "migrate bootstrap", []string{"CONSOLE_BOOTSTRAP_DATABASE_URL is not set"}},
		{"plain http on loopback", nil, "serve --public-url http://127.0.0.1:8080 --oidc-issuer http://127.0.0.1:9000 --oidc-client-id console",
			[]string{`CONSOLE_PUBLIC_URL "http://127.0.0.1:8080" is not https; plain http is for console dev alone, on loopback`,
				"the issuer is not https; plain http is for console dev alone, on loopback"}},
		{"every mistake together", map[string]string{"CONSOLE_RUNTIME_DATABASE_URL": nowhere(t, "postgres"), "CONSOLE_WEB_DATABASE_URL_FILE": "/no/such/file"},
			"serve --public-url http://ops.example --oidc-issuer http://idp.example --oidc-client-id console --claim-budget 0 --claim-lease 61s --cadence 1ms --database-deadline 90s --trusted-proxies 0.0.0.0/0 --session-idle 1s",
			[]string{"claim budget is 0", "claim lease is 1m1s", "cadence is 1ms", "database deadline is 1m30s",
				"CONSOLE_RUNTIME_DATABASE_URL connects as", "CONSOLE_WEB_DATABASE_URL_FILE: cannot read",
				`CONSOLE_PUBLIC_URL "http://ops.example" is not https`, "the issuer is not https", "CONSOLE_TRUSTED_PROXIES", "session idle time is 1s"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			got := console(t, test.vars, strings.Fields(test.args)...)
			got.refused(t, exitUsage, test.want...)
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v, so it has waited for a connection", took)
			}
			if strings.Contains(got.stderr, "hunter2") {
				t.Errorf("standard error repeats the URL: %q", got.stderr)
			}
		})
	}
}

func TestUnreachableDatabaseIsAFailure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // nobody listens there now
	vars := map[string]string{}
	for _, v := range append(secretVariables(), superuserVariable) {
		vars[v.name] = "postgres://postgres:hunter2@" + address + "/console?sslmode=disable"
	}
	for _, v := range roleVariables {
		vars[v.name] = "postgres://" + v.role + ":hunter2@" + address + "/console?sslmode=disable"
	}
	for _, args := range []string{"migrate up", "migrate down", "migrate status", "migrate bootstrap", "apply -f sample.yaml", "apply --dry-run -f sample.yaml"} {
		t.Run(args, func(t *testing.T) {
			got := console(t, vars, strings.Fields(args)...)
			if got.code != exitFailure || !strings.Contains(got.stderr, "connection refused") || strings.Contains(got.stderr, "hunter2") {
				t.Errorf("%s = %+v, want code 1, the reason, and no password", args, got)
			}
		})
	}
}
