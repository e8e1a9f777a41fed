package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeServer puts programs of the right names into dir; postgres prints what it is told to.
func fakeServer(t *testing.T, dir, prints string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + prints + "'\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSearchDirsOfAnOrdinaryUser(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	unpacked := filepath.Join(cache, "qinglong-console/debian/usr/lib/postgresql")
	fakeServer(t, filepath.Join(unpacked, "15/bin"), "")
	fakeServer(t, filepath.Join(unpacked, "17/bin"), "")

	dirs := searchDirs()
	newer, older := slices.Index(dirs, filepath.Join(unpacked, "17/bin")), slices.Index(dirs, filepath.Join(unpacked, "15/bin"))
	if newer < 0 || older != newer+1 || older != len(dirs)-1 {
		t.Errorf("searchDirs() = %q, want the unpacked 17 and 15 last", dirs)
	}
}

func TestFindBinariesRefuses(t *testing.T) {
	tests := []struct {
		name, prints string
		dataMajor    int
		want         string // in the error
	}{
		{"too old", "postgres (PostgreSQL) 14.9", 0, "15 is the oldest supported"},
		{"not the version that made the data", "postgres (PostgreSQL) 17.2 (Debian)", 15, "the data was made by 15"},
		{"not PostgreSQL", "hello", 0, "no version of PostgreSQL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := reachableDir(t)
			fakeServer(t, dir, tt.prints)
			a, err := serverAccount(dir + "/data")
			if err != nil {
				t.Fatal(err)
			}
			b, err := findBinaries(dir, tt.dataMajor, a)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("findBinaries(%q, %d) = %v, %v, want an error with %q", tt.prints, tt.dataMajor, b, err, tt.want)
			}
		})
	}
}

func TestLibraries(t *testing.T) {
	root := t.TempDir()
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, dir, want string }{
		{"unpacked packages", filepath.Join(root, "usr/lib/postgresql/15/bin"), libraries},
		{"installed packages", "/usr/lib/postgresql/15/bin", ""},
		{"another layout", "/opt/postgresql/bin", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (binaries{dir: tt.dir}).libraries(); got != tt.want {
				t.Errorf("libraries of %s = %q, want %q", tt.dir, got, tt.want)
			}
		})
	}
}
