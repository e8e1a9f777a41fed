package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	for _, want := range []string{"## console migrate bootstrap\n", "| `--claim-lease` | `CONSOLE_CLAIM_LEASE` | `30s` |", "| `--zone` |  |  |"} {
		if !strings.Contains(text, want) {
			t.Errorf("console config does not contain %q", want)
		}
	}
}
