package e2e

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/qinglong/console/internal/pg/pgtest"
)

const rulesFile, rulesTestFile = "../deploy/prometheus/rules.yml", "../deploy/prometheus/rules_test.yml"

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	readYAML(t, rulesFile, &file)
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no rules", rulesFile)
	}
	return list
}

func readYAML(t *testing.T, name string, v any) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// A rule on a metric that no replica exports never fires and looks as if it watched.
func TestAlertsAreOnMetricsThatAReplicaExports(t *testing.T) {
	program, err := console()
	if err != nil {
		t.Fatal(err)
	}
	_, exposition := serve(t, program, variables(pgtest.New(t))).get(t, "/metrics")
	exported := map[string]bool{}
	for line := range strings.Lines(exposition) {
		if name, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(name, "#") {
			name, _, _ = strings.Cut(name, "{")
			exported[name] = true
		}
	}
	metric := regexp.MustCompile(`\bql3_\w+`)
	for _, a := range alerts(t) {
		names := metric.FindAllString(a.Expr, -1)
		if len(names) == 0 {
			t.Errorf("%s: %s is on no metric of the console", a.Alert, a.Expr)
		}
		for _, name := range names {
			if !exported[name] {
				t.Errorf("%s is on %s, which a replica does not export; it exports %v", a.Alert, name, slices.Sorted(maps.Keys(exported)))
			}
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	for _, a := range alerts(t) {
		if a.For == "" || a.Labels["severity"] == "" {
			t.Errorf("%s: for = %q, severity = %q, want both", a.Alert, a.For, a.Labels["severity"])
		}
		for _, name := range []string{"summary", "description", "next_step"} {
			if a.Annotations[name] == "" {
				t.Errorf("%s has no %s", a.Alert, name)
			}
		}
	}
}

// promtool runs the cases (make check-alerts); that there are cases is held here.
func TestAlertsHaveACaseThatFiresAndOneThatDoesNot(t *testing.T) {
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, rulesTestFile, &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf("%s: a case that fires %v, one that does not %v, want both", a.Alert, fires[a.Alert], silent[a.Alert])
		}
	}
}
