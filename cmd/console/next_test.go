package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cronCase is one handed case; which fields it has depends on the list it is in.
type cronCase struct {
	Expression, Timezone, After, Canonical, Why string
	Next                                        []string
}

func readCronCases(t *testing.T) (cases struct{ Next, Refused, Same []cronCase }) {
	t.Helper()
	text, err := os.ReadFile("../../internal/cron/testdata/cron.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestNextAgreesWithEveryHandedCase(t *testing.T) {
	cases := readCronCases(t)
	if len(cases.Next) == 0 || len(cases.Refused) == 0 || len(cases.Same) == 0 {
		t.Fatal("the cases are gone")
	}
	for _, c := range cases.Next {
		t.Run(c.Expression+" in "+c.Timezone, func(t *testing.T) {
			got := console(t, nil, "next", "--zone", c.Timezone, "--after", c.After, "-n", strconv.Itoa(len(c.Next)), "--", c.Expression)
			want := result{stdout: strings.Join(c.Next, "\n") + "\n"}
			if got != want {
				t.Errorf("next (%s) = %+v, want %+v", c.Why, got, want)
			}
		})
	}
	for _, c := range cases.Refused {
		t.Run("refused "+strconv.Quote(c.Expression)+" in "+strconv.Quote(c.Timezone), func(t *testing.T) {
			got := console(t, nil, "next", "--zone", c.Timezone, "--", c.Expression)
			got.refused(t, exitUsage)
			if len(strings.Fields(got.stderr)) < 6 {
				t.Errorf("next (%s) says %q, want a sentence", c.Why, got.stderr)
			}
		})
	}
	for _, c := range cases.Same {
		t.Run("same "+c.Expression, func(t *testing.T) {
			got, want := nextJSON(t, c.Expression), nextJSON(t, c.Canonical)
			if diff := cmp.Diff(want, got); diff != "" || got.Expression != c.Canonical {
				t.Errorf("next (%s) has canonical form %q, want %q; other differences:\n%s", c.Why, got.Expression, c.Canonical, diff)
			}
		})
	}
}

// nextDocument is what --json prints.
type nextDocument struct {
	Expression, Zone, Words string
	Next                    []nextLine
}

type nextLine struct{ At, Local, Mark string }

func nextJSON(t *testing.T, args ...string) (d nextDocument) {
	t.Helper()
	got := console(t, nil, append([]string{"next", "--json", "--zone", "Europe/Berlin", "--after", "2027-03-27T00:00:00Z", "-n", "3", "--"}, args...)...)
	if got.code != 0 {
		t.Fatalf("next --json %q = %+v, want code 0", args, got)
	}
	decoder := json.NewDecoder(strings.NewReader(got.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("next --json %q prints %q: %v", args, got.stdout, err)
	}
	return d
}

func TestNextJSON(t *testing.T) {
	got := nextJSON(t, "30", "2", "*", "*", "*")
	want := nextDocument{Expression: "30 2 * * *", Zone: "Europe/Berlin", Words: "at 02:30 every day", Next: []nextLine{
		{"2027-03-27T01:30:00Z", "2027-03-27T02:30:00+01:00", ""},
		{"2027-03-28T01:00:00Z", "2027-03-28T03:00:00+02:00", "gap"},
		{"2027-03-29T00:30:00Z", "2027-03-29T02:30:00+02:00", ""},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("next --json (-want +got):\n%s", diff)
	}
}

func TestNextNamesTheFlag(t *testing.T) {
	console(t, nil, "next", "--zone", "Mars/X", "--", "* * * * *").refused(t, exitUsage, `console: --zone: "Mars/X" is not`)
}

func TestNextBounds(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string // lines, or if not a number what the refusal says
	}{
		{"ten by default", []string{"--after", "2027-01-01T00:00:00Z"}, "10"},
		{"one", []string{"-n", "1"}, "1"},
		{"most", []string{"--count", "10000"}, "10000"},
		{"none", []string{"-n", "0"}, "-n is 0, want 1 to 10000"},
		{"fewer than none", []string{"--count=-1"}, "-n is -1, want 1 to 10000"},
		{"too many", []string{"-n", "10001"}, "-n is 10001, want 1 to 10000"},
		{"a day is no instant", []string{"--after", "2027-03-14"}, "no RFC 3339 instant"},
		{"a local time is no instant", []string{"--after", "2027-03-14T00:00:00"}, "no RFC 3339 instant"},
		{"an instant with an offset", []string{"--after", "2027-03-14T00:00:00+05:30", "-n", "2"}, "2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := console(t, nil, append(append([]string{"next", "--zone", "UTC"}, test.args...), "--", "* * * * *")...)
			lines, err := strconv.Atoi(test.want)
			if err != nil {
				got.refused(t, exitUsage, test.want)
				return
			}
			if got.code != 0 || strings.Count(got.stdout, "\n") != lines {
				t.Errorf("next %q = code %d and %d lines (%s), want %d", test.args, got.code, strings.Count(got.stdout, "\n"), got.stderr, lines)
			}
		})
	}
}
