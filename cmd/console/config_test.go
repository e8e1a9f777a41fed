package main

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

func TestConfigurationDocumentIsFresh(t *testing.T) {
	want := console(t, nil, "config")
	got, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.stdout, string(got)); diff != "" || want.code != 0 {
		t.Errorf("docs/configuration.md is stale; run make generate (-want +got):\n%s", diff)
	}
}

func TestConfigurationNamesEverything(t *testing.T) {
	text := console(t, nil, "config").stdout
	for _, v := range append(secretVariables(), superuserVariable) {
		if !strings.Contains(text, "| `"+v.name+"` | "+v.help+" |") {
			t.Errorf("console config does not tell of %s", v.name)
		}
	}
	for _, want := range []string{"## console migrate bootstrap\n", "| `--claim-lease` | `CONSOLE_CLAIM_LEASE` | `30s` |", "| `--zone` |  | required |", "| `-n`, `--count` |  | `10` |"} {
		if !strings.Contains(text, want) {
			t.Errorf("console config does not contain %q", want)
		}
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	urls := databases{migrations.RoleRuntime: "postgres://ql3_runtime@127.0.0.1:1/console"} // nobody is asked
	s, err := newServer(t.Context(), scheduler.Defaults(), urls, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "ql3_") && !strings.Contains(string(text), "| `"+f.GetName()+"` |") {
			t.Errorf("docs/operations.md does not tell of %s: %s", f.GetName(), f.GetHelp())
		}
	}
}
