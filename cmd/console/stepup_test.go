package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qinglong/console/migrations"
)

// A table that would let a single factor through, or that says less than it must, keeps a replica from starting.
func TestStepUpFile(t *testing.T) {
	const good = `
step_up:
  - issuer: https://idp.example
    second_factor: always
    assurance:
      - { claim: acr, equals: gold, level: multi_factor }
`
	tests := []struct{ name, file, want string }{
		{"an unknown field", strings.Replace(good, "second_factor", "second_facter", 1), "field second_facter not found"},
		{"no issuer at all", "step_up: []", "step_up names no issuer"},
		{"empty", "", "step_up names no issuer"},
		{"another list", "stepup: []", "field stepup not found"},
		{"second_factor not stated", strings.Replace(good, "    second_factor: always\n", "", 1), "second_factor must be stated"},
		{"another issuer without a client", strings.Replace(good, "idp.example", "other.example", 1), "client_id is missing, and the issuer is not the sign-in's"},
		{"a password's acr", strings.Replace(good, "gold", `"0"`, 1), "single factor"},
		{"a provider that says nothing", strings.Replace(good, "second_factor", "preset: google\n    second_factor", 1), "can sign people in, but not step up"},
		{"a secret that is not there", strings.Replace(good, "second_factor", "client_id: c\n    client_secret_file: /no/such/file\n    second_factor", 1), "cannot read /no/such/file"},
		{"a client of its own", strings.Replace(good, "second_factor", "client_id: c\n    second_factor", 1), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "step-up.yaml")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--public-url", "https://ops.example", "--oidc-issuer", "https://idp.example", "--oidc-client-id", "console", "--step-up-file", file}
			if tt.want == "" { // accepted, so what is next is the database, which is nowhere
				_, err := identityFlags{PublicURL: args[1], OIDCIssuer: args[3], OIDCClientID: args[5], StepUpFile: file, ProxyIdentity: "none",
					SessionIdle: time.Hour, SessionLifetime: time.Hour}.check(func(string) string { return "" }, false)
				if err != nil {
					t.Errorf("check = %v, want the table accepted", err)
				}
				return
			}
			got := console(t, map[string]string{"CONSOLE_RUNTIME_DATABASE_URL": nowhere(t, migrations.RoleRuntime)}, append([]string{"check"}, args...)...)
			got.refused(t, exitUsage, tt.want)
		})
	}
}
