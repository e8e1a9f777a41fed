package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretVariable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, windows := write("plain", "from a file \n"), write("windows", "from a file\r\n")
	gone := filepath.Join(dir, "gone")
	tests := []struct {
		name string
		vars map[string]string
		want string
		err  string
	}{
		{"not set", nil, "", ""},
		{"variable", map[string]string{"X": "value "}, "value ", ""},
		{"file without its newline", map[string]string{"X_FILE": plain}, "from a file ", ""},
		{"file with another newline", map[string]string{"X_FILE": windows}, "from a file", ""},
		{"both", map[string]string{"X": "value", "X_FILE": plain}, "", "X and X_FILE are both set; keep one"},
		{"no such file", map[string]string{"X_FILE": gone}, "", "X_FILE: cannot read " + gone + ": no such file or directory"},
		{"a directory", map[string]string{"X_FILE": dir}, "", "X_FILE: cannot read " + dir + ": is a directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := secretVariable{name: "X"}.read(func(name string) string { return test.vars[name] })
			if got.reveal() != test.want || fmt.Sprint(err) != cmp.Or(test.err, "<nil>") {
				t.Errorf("read = %q, %v, want %q, %s", got.reveal(), err, test.want, cmp.Or(test.err, "no error"))
			}
		})
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	const hidden = "hunter2"
	s := secret(hidden)
	holder := struct {
		URL  secret
		More map[string]secret
		List []secret
		Any  any
	}{s, map[string]secret{"a": s}, []secret{s}, s}
	var printed bytes.Buffer
	for _, verb := range "vTtbcdoOqxXUeEfFgGs" { // not p and w: they ask nobody, and vet refuses them
		for _, flag := range []string{"", "+", "#", "-20", "020", " "} {
			fmt.Fprintf(&printed, "%"+flag+string(verb)+"\n", s)
			fmt.Fprintf(&printed, "%"+flag+string(verb)+"\n", holder)
			fmt.Fprintf(&printed, "%"+flag+string(verb)+"\n", &holder)
		}
	}
	fmt.Fprintln(&printed, s, holder, fmt.Errorf("wrapped: %v", s))
	if err := json.NewEncoder(&printed).Encode(holder); err != nil {
		t.Fatal(err)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(h).With("with", s).Info("message", "url", s, "holder", holder, "map", databases{"a": s}, slog.Group("g", "url", s))
	}
	text := strings.ToLower(printed.String())
	for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("% x", hidden)} {
		if i := strings.Index(text, form); i >= 0 {
			t.Errorf("the secret shows as %q in %q", form, text[max(0, i-60):min(len(text), i+60)])
		}
	}
	if !strings.Contains(printed.String(), redacted) {
		t.Error("nothing says that there is a secret")
	}
}
